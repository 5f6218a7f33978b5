#include "phidias/importance.h"

#include <cmath>
#include <cstring>

#include "api/calibration.h"
#include "api/convert_plan.h"
#include "api/engine_impl.h"
#include "api/model_impl.h"
#include "base/try.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "model/taps.h"

namespace phidias {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

// Sums of squares of every column that passes a site.
class SquareSums final : public RunTaps {
 public:
  explicit SquareSums(size_t layers) : sums_(layers * kSiteCount) {}

  struct Sums {
    std::vector<double> squares;
    uint64_t rows = 0;
  };

  SiteMask sites(size_t) const override {
    return mask_of(Site::kAttentionNormOutput) | mask_of(Site::kAttentionPremix) |
           mask_of(Site::kMlpInput) | mask_of(Site::kMlpNeurons) | mask_of(Site::kFinalNormOutput);
  }
  void visit(Site site, size_t layer, const SiteRows& rows) override {
    Sums& sums = of(site, layer);
    sums.squares.resize(rows.width);
    for (size_t r = 0; r < rows.rows; ++r) {
      const float* row = rows.data + r * rows.stride;
      for (size_t i = 0; i < rows.width; ++i)
        sums.squares[i] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    }
    sums.rows += rows.rows;
  }
  // One for all layers where the site is passed once.
  Sums& of(Site site, size_t layer) {
    const size_t row = (mask_of(site) & kModelSites) != 0 ? 0 : layer;
    return sums_[row * kSiteCount + static_cast<size_t>(site)];
  }

 private:
  std::vector<Sums> sums_;
};

}  // namespace

Result<Importance> collect_importance(Engine& engine, std::span<const TokenId> ids,
                                      const ImportanceOptions& options) {
  const Model::Impl& model = engine.model().impl();
  PHIDIAS_TRY(const ConversionPlan plan, plan_gguf(model.spec, model.weights));
  if (options.window == 0 || options.window > engine.context()) {
    return Error{Code::kInvalidArgument,
                 "must be 1 to the context in force, " + std::to_string(engine.context()),
                 {{}, {}, "window"}};
  }
  const size_t windows = ids.size() / options.window;
  if (windows == 0) {
    return Error{Code::kInvalidArgument,
                 "the text has " + std::to_string(ids.size()) +
                     " tokens, fewer than one window of " + std::to_string(options.window),
                 {{}, {}, "window"}};
  }
  SquareSums sums(model.spec.layers);
  for (size_t w = 0; w < windows; ++w) {
    if (options.progress && !options.progress(w, windows))
      return Error{Code::kCancelled, "was interrupted", {}};
    const SequenceId sequence = engine.open({.prompt_tokens = options.window});
    engine.stepper().attach(sequence, &sums);
    std::vector<Row> rows;
    for (uint32_t i = 0; i < options.window; ++i)
      rows.push_back({ids[w * options.window + i], sequence, i, true});
    const Status status = engine.step(rows, [](size_t, std::span<const float>) {});
    engine.close(sequence);
    PHIDIAS_CHECK_OK(status);
  }
  if (options.progress) options.progress(windows, windows);

  Importance importance;
  importance.tokens = windows * options.window;
  for (const PlannedTensor& tensor : plan) {
    const auto site = input_site(tensor.role);
    if (!site) continue;
    const SquareSums::Sums& seen = sums.of(*site, tensor.layer);
    if (seen.squares.size() != tensor.rows.cols || seen.rows == 0) continue;
    std::vector<float> means;
    for (const double sum : seen.squares)
      means.push_back(static_cast<float>(sum / static_cast<double>(seen.rows)));
    importance.mean_squares.emplace(tensor.name, std::move(means));
  }
  return importance;
}

Status save_importance(const Importance& importance, const std::filesystem::path& file) {
  GgufHeader header;
  header.add("general.type", "imatrix");
  const std::vector<std::string> datasets = {"text"};
  header.add_array("imatrix.datasets", std::span<const std::string>(datasets));
  header.add("imatrix.chunk_count", uint32_t{1});
  header.add("imatrix.chunk_size", static_cast<uint32_t>(importance.tokens));
  for (const auto& [name, means] : importance.mean_squares) {
    header.add_tensor(name + std::string(kSums), Format::kF32,
                      std::array{uint64_t{1}, uint64_t{means.size()}});
    header.add_tensor(name + std::string(kCounts), Format::kF32,
                      std::array{uint64_t{1}, uint64_t{1}});
  }
  PHIDIAS_TRY(GgufWriter writer, GgufWriter::create(file, header));
  const auto count = static_cast<float>(importance.tokens);
  for (const auto& [name, means] : importance.mean_squares) {
    std::vector<float> values = means;
    for (float& value : values) value *= count;
    PHIDIAS_CHECK_OK(writer.write(std::as_bytes(std::span(values))));
    PHIDIAS_CHECK_OK(writer.write(std::as_bytes(std::span(&count, 1))));
  }
  return writer.commit();
}

Result<Importance> load_importance(const std::filesystem::path& path) {
  PHIDIAS_TRY(const GgufFile file, GgufFile::open(path));
  Importance importance;
  std::map<std::string_view, const TensorEntry*> by_name;
  for (const TensorEntry& tensor : file.tensors) by_name.emplace(tensor.name, &tensor);
  for (const TensorEntry& tensor : file.tensors) {
    if (!tensor.name.ends_with(kSums)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - kSums.size());
    const auto counts = by_name.find(name + std::string(kCounts));
    const auto corrupt = [&](const char* message) {
      return Error{Code::kCorrupt, message, {path.string(), {}, tensor.name}};
    };
    if (counts == by_name.end() || counts->second->bytes < sizeof(float) ||
        counts->second->format != Format::kF32 || tensor.format != Format::kF32)
      return corrupt("must be 32-bit floats with a count beside them");
    // One matrix of stacked experts has sums for each: they are taken together.
    const size_t matrices = counts->second->bytes / sizeof(float);
    const size_t values = tensor.bytes / sizeof(float);
    if (values % matrices != 0 || values == 0) return corrupt("has values for some experts only");
    const size_t columns = values / matrices;
    std::vector<double> sums(columns);
    double rows = 0;
    for (size_t m = 0; m < matrices; ++m) {
      float count = 0;
      std::memcpy(&count, counts->second->data + m * sizeof(float), sizeof(float));
      rows += static_cast<double>(count);
      for (size_t i = 0; i < columns; ++i) {
        float sum = 0;
        std::memcpy(&sum, tensor.data + (m * columns + i) * sizeof(float), sizeof(float));
        if (!(sum >= 0) || std::isinf(sum)) return corrupt("holds what is no sum of squares");
        sums[i] += static_cast<double>(sum);
      }
    }
    if (!(rows > 0)) continue;  // never seen
    std::vector<float> means;
    for (const double sum : sums) means.push_back(static_cast<float>(sum / rows));
    importance.tokens = static_cast<uint64_t>(rows);
    importance.mean_squares.emplace(name, std::move(means));
  }
  if (importance.mean_squares.empty()) {
    return Error{Code::kCorrupt,
                 "holds no sums of squares; it is no importance matrix",
                 {path.string(), {}, {}}};
  }
  return importance;
}

}  // namespace phidias
