#include "phidias/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/invalid.h"
#include "base/try.h"
#include "engine/log_probabilities.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "quant/format.h"

namespace phidias {
namespace {

constexpr const char* kTensorName = "log_probabilities";

// Compares row by row with log-probabilities that another run saved.
class Comparison {
 public:
  static Result<Comparison> open(const std::filesystem::path& path, size_t tokens, size_t vocab) {
    Comparison comparison;
    PHIDIAS_TRY(comparison.file_, SafetensorsFile::open(path));
    for (const TensorEntry& tensor : comparison.file_.tensors) {
      if (tensor.name == kTensorName) comparison.saved_ = &tensor;
    }
    const Place place{path.string(), {}, kTensorName};
    if (comparison.saved_ == nullptr)
      return Error{Code::kCorrupt, "is missing; the file is not one that --save-logits wrote",
                   place};
    const std::vector<uint64_t> expected{tokens, vocab};
    if (comparison.saved_->shape != expected ||
        format_row(comparison.saved_->format).block_values != 1) {
      return Error{Code::kInvalidArgument,
                   "does not fit: expected [" + std::to_string(tokens) + ", " +
                       std::to_string(vocab) +
                       "] floats; it was saved from another text, window or model",
                   place};
    }
    comparison.row_.resize(vocab);
    return comparison;
  }

  void add(size_t index, std::span<const float> log_probabilities) {
    const FormatRow& format = format_row(saved_->format);
    format.decode(saved_->data + index * format.row_bytes(row_.size()), row_.data(), row_.size());
    double divergence = 0;
    for (size_t i = 0; i < row_.size(); ++i) {
      const double p = std::exp(static_cast<double>(row_[i]));
      if (p > 0)
        divergence +=
            p * (static_cast<double>(row_[i]) - static_cast<double>(log_probabilities[i]));
    }
    divergences_.push_back(divergence);
    const auto best = [](std::span<const float> row) {
      return std::max_element(row.begin(), row.end()) - row.begin();
    };
    if (best(row_) == best(log_probabilities)) ++same_best_;
  }

  void finish(Perplexity& result) {
    double sum = 0;
    for (const double divergence : divergences_) sum += divergence;
    const auto count = static_cast<double>(divergences_.size());
    result.kl_mean = sum / count;
    result.same_best = static_cast<double>(same_best_) / count;
    std::sort(divergences_.begin(), divergences_.end());
    result.kl_p99 =
        divergences_[std::min(divergences_.size() - 1, static_cast<size_t>(0.99 * count))];
  }

 private:
  SafetensorsFile file_;
  const TensorEntry* saved_ = nullptr;
  std::vector<float> row_;
  std::vector<double> divergences_;
  size_t same_best_ = 0;
};

}  // namespace

Result<Perplexity> perplexity(Engine& engine, std::span<const TokenId> ids,
                              const PerplexityOptions& options) {
  const size_t window = options.window;
  if (window < 2) return invalid("must be at least 2", "window");
  if (window > engine.context()) {
    return Error{Code::kCapacityExceeded,
                 "is longer than the context in force, " + std::to_string(engine.context()),
                 {{}, {}, "window"}};
  }
  const size_t count = ids.size() / window;
  if (count == 0) {
    return invalid("the text has " + std::to_string(ids.size()) +
                       " tokens, fewer than one window of " + std::to_string(window),
                   "window");
  }
  Perplexity result;
  result.tokens = count * (window - 1);
  const size_t vocab = engine.vocab();
  std::optional<SafetensorsWriter> writer;
  if (!options.save_log_probabilities.empty()) {
    PHIDIAS_TRY(writer,
                SafetensorsWriter::create(options.save_log_probabilities,
                                          {{{kTensorName, "F16", {result.tokens, vocab}}}, {}}));
  }
  std::optional<Comparison> comparison;
  if (!options.against.empty()) {
    PHIDIAS_TRY(comparison, Comparison::open(options.against, result.tokens, vocab));
  }
  std::vector<float> scores(vocab);
  std::vector<std::byte> halves(2 * vocab);
  double total = 0;
  size_t scored = 0;
  for (size_t w = 0; w < count; ++w) {
    if (options.progress && !options.progress(w, count))
      return Error{Code::kCancelled, "was interrupted", {}};
    const auto tokens = ids.subspan(w * window, window);
    const SequenceId sequence =
        engine.open({.rope_switch = options.rope_switch, .prompt_tokens = options.window});
    std::vector<Row> rows;
    for (size_t i = 0; i < window; ++i)
      rows.push_back({tokens[i], sequence, static_cast<uint32_t>(i), i + 1 < window});
    double sum = 0;
    Status failed;
    const Status status = engine.step(rows, [&](size_t row, std::span<const float> logits) {
      if (!failed.ok()) return;
      const auto position = static_cast<uint32_t>(row + 1);
      const auto nll = negative_log_likelihood(logits, tokens[row + 1], position);
      if (!nll.ok()) {
        failed = nll.error();
        return;
      }
      sum += *nll;
      if (writer || comparison) {
        failed = log_softmax(logits, scores, position);
        if (failed.ok() && comparison) comparison->add(scored, scores);
        if (failed.ok() && writer) {
          format_row(Format::kF16).encode(scores.data(), halves.data(), vocab);
          failed = writer->write(halves);
        }
      }
      ++scored;
    });
    engine.close(sequence);
    PHIDIAS_CHECK_OK(status);
    PHIDIAS_CHECK_OK(failed);
    result.windows.push_back(sum);
    total += sum;
  }
  if (options.progress) options.progress(count, count);
  if (writer) PHIDIAS_CHECK_OK(writer->commit());
  if (comparison) comparison->finish(result);
  result.perplexity = std::exp(total / static_cast<double>(result.tokens));
  return result;
}

}  // namespace phidias
