#include "phidias/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "api/model_impl.h"
#include "base/cpu.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "base/try.h"
#include "phidias/engine.h"

namespace phidias {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kBatchPrompt = 128;  // ids of each sequence's prompt where several decode
constexpr uint32_t kBatchSteps = 32;
constexpr uint32_t kCompared = 64;  // positions at the prompt's end that exact numerics repeat

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<TokenId> random_ids(size_t count, uint32_t vocab, uint64_t seed) {
  std::vector<uint32_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0U);
  std::vector<uint64_t> bits(count);
  draw_bits(draw_key(seed, 0, 0), indices, bits);
  std::vector<TokenId> ids;
  for (const uint64_t drawn : bits) ids.push_back(static_cast<TokenId>(drawn % vocab));
  return ids;
}

// Peak of this process's resident memory since the last reset; 0 where the system does not say.
uint64_t peak_resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  char line[256];
  unsigned long long kilobytes = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmHWM: %llu", &kilobytes) == 1) break;
  }
  std::fclose(file);
  return kilobytes * 1024;
}

void reset_peak_resident() {
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
}

// What the machine must do for one row: bytes of weights and cache, and operations.
class Limits {
 public:
  Limits(const Model& model, const Engine& engine)
      : spec_(model.impl().spec),
        weight_bytes_(static_cast<double>(model.info().bytes_per_token)),
        cache_bytes_(static_cast<double>(engine.memory().cache_per_position)),
        integer_(uses_integers(model, engine)) {
    const double width = spec_.width;
    const double ffns = spec_.experts ? ExpertsSpec::kPerRow : 1;
    head_ops_ = 2 * width * spec_.vocab;
    layer_ops_ =
        2 * spec_.layers * width *
        (spec_.attention.qkv_width() + spec_.attention.query_width() + 3 * ffns * spec_.ffn_width);
  }

  void read(const MachineReading& a, const MachineReading& b) {
    bandwidth_ = std::max(a.read_bytes_s, b.read_bytes_s);
    operations_ = integer_ ? std::max(a.integer_ops_s, b.integer_ops_s)
                           : std::max(a.float_ops_s, b.float_ops_s);
  }
  // Rows a second of a prompt: bound by arithmetic. The head is multiplied for the last alone.
  double prefill(uint32_t prompt) const {
    return operations_ * prompt / (layer_ops_ * prompt + head_ops_);
  }
  // Tokens a second of `batch` sequences at about `depth` positions each: the slower of memory and
  // arithmetic.
  double decode(uint32_t depth, uint32_t batch) const {
    const double seen = spec_.mask.window == 0 ? depth : std::min(depth, spec_.mask.window);
    const double memory = bandwidth_ * batch / (weight_bytes_ + batch * seen * cache_bytes_);
    return std::min(memory, operations_ / (layer_ops_ + head_ops_));
  }

 private:
  static bool uses_integers(const Model& model, const Engine& engine) {
    if (engine.options().numerics == Numerics::kExact) return false;
    for (const auto& [type, bytes] : model.info().weight_types) {
      // A format of single values is multiplied in floats.
      if (format_row(*format_from_name(type)).block_values > 1) return true;
    }
    return false;
  }

  const ModelSpec& spec_;
  double weight_bytes_, cache_bytes_;
  bool integer_;
  double head_ops_ = 0, layer_ops_ = 0;
  double bandwidth_ = 0, operations_ = 0;
};

class Bench {
 public:
  Bench(Engine& engine, const BenchOptions& options, std::vector<TokenId> ids, uint32_t total)
      : engine_(engine), options_(options), ids_(std::move(ids)), total_(total) {}

  std::vector<BenchRow> rows;

  // Time to the first token, the prompt's rate, and the rate of the tokens after it.
  Status prompt_and_decode() {
    const uint32_t prompt = options_.prompt_tokens;
    std::vector<double> first, decode;
    for (uint32_t rep = 0; rep < options_.repetitions; ++rep) {
      PHIDIAS_CHECK_OK(report("prompt", rep));
      const SequenceId sequence = engine_.open({.prompt_tokens = prompt});
      const auto start = Clock::now();
      PHIDIAS_TRY(const TokenId token, feed(sequence, prompt));
      first.push_back(seconds_since(start));
      PHIDIAS_CHECK_OK(report("decode", rep));
      PHIDIAS_TRY(const double rate, decode_rate(sequence, token, options_.new_tokens));
      decode.push_back(rate);
      engine_.close(sequence);
    }
    std::vector<double> prefill;
    for (const double seconds : first) prefill.push_back(prompt / seconds);
    add("first_token_s", 0, 1, first);
    add("prefill_tok_s", 0, 1, prefill);
    add("decode_tok_s", 0, 1, decode);
    return {};
  }

  Status decode_at(uint32_t depth) {
    const SequenceId sequence = engine_.open({.prompt_tokens = depth});
    PHIDIAS_TRY(const TokenId token, feed(sequence, depth));
    std::vector<double> rates;
    for (uint32_t rep = 0; rep < options_.repetitions; ++rep) {
      PHIDIAS_CHECK_OK(report("decode at depth " + std::to_string(depth), rep));
      PHIDIAS_TRY(const double rate, decode_rate(sequence, token, options_.new_tokens));
      rates.push_back(rate);
      PHIDIAS_CHECK_OK(engine_.truncate(sequence, depth));
    }
    engine_.close(sequence);
    add("decode_tok_s", depth, 1, rates);
    return {};
  }

  Status decode_together(uint32_t batch) {
    const uint32_t prompt = std::min(options_.prompt_tokens, kBatchPrompt);
    const uint32_t steps = std::min(options_.new_tokens, kBatchSteps);
    std::vector<SequenceId> sequences;
    std::vector<TokenId> tokens;
    for (uint32_t s = 0; s < batch; ++s) {
      sequences.push_back(engine_.open({.prompt_tokens = prompt}));
      PHIDIAS_TRY(const TokenId token, feed(sequences.back(), prompt));
      tokens.push_back(token);
    }
    std::vector<double> rates;
    for (uint32_t rep = 0; rep < options_.repetitions; ++rep) {
      PHIDIAS_CHECK_OK(report("batch of " + std::to_string(batch), rep));
      std::vector<TokenId> next = tokens;
      const auto start = Clock::now();
      for (uint32_t step = 0; step < steps; ++step) {
        std::vector<Row> rows_of_step;
        for (uint32_t s = 0; s < batch; ++s)
          rows_of_step.push_back({next[s], sequences[s], prompt + step, true});
        PHIDIAS_CHECK_OK(engine_.step(rows_of_step, [&](size_t row, std::span<const float> logits) {
          next[row] = best(logits);
        }));
      }
      rates.push_back(batch * steps / seconds_since(start));
      for (const SequenceId sequence : sequences)
        PHIDIAS_CHECK_OK(engine_.truncate(sequence, prompt));
    }
    for (const SequenceId sequence : sequences) engine_.close(sequence);
    add("batch_decode_tok_s", 0, batch, rates);
    return {};
  }

  // Logits of the last positions of a prompt.
  static Result<std::vector<float>> logits(Engine& engine, std::span<const TokenId> ids) {
    const auto count = static_cast<uint32_t>(ids.size());
    const SequenceId sequence = engine.open({.prompt_tokens = count});
    std::vector<Row> rows_of_step;
    for (uint32_t i = 0; i < count; ++i) rows_of_step.push_back({ids[i], sequence, i, true});
    std::vector<float> all;
    const Status status = engine.step(rows_of_step, [&](size_t, std::span<const float> row) {
      all.insert(all.end(), row.begin(), row.end());
    });
    engine.close(sequence);
    PHIDIAS_CHECK_OK(status);
    return all;
  }

  Status report(const std::string& what, uint32_t rep) {
    if (!options_.progress || options_.progress(what, done_ + rep, total_)) return {};
    return Error{Code::kCancelled, "was interrupted", {}};
  }
  void advance() { done_ += options_.repetitions; }

  void add(const char* metric, uint32_t depth, uint32_t batch, std::vector<double> values) {
    std::sort(values.begin(), values.end());
    BenchRow row;
    row.metric = metric;
    row.prompt = options_.prompt_tokens;
    row.new_tokens = options_.new_tokens;
    row.depth = depth;
    row.batch = batch;
    row.median = values.size() % 2 == 1
                     ? values[values.size() / 2]
                     : (values[values.size() / 2 - 1] + values[values.size() / 2]) / 2;
    row.min = values.front();
    row.max = values.back();
    rows.push_back(std::move(row));
  }

 private:
  static TokenId best(std::span<const float> logits) {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  // Runs the first `count` ids into an empty sequence; the likeliest next token.
  Result<TokenId> feed(SequenceId sequence, uint32_t count) {
    std::vector<Row> rows_of_step;
    for (uint32_t i = 0; i < count; ++i)
      rows_of_step.push_back({ids_[i % ids_.size()], sequence, i, i + 1 == count});
    TokenId token = 0;
    PHIDIAS_CHECK_OK(engine_.step(
        rows_of_step, [&](size_t, std::span<const float> logits) { token = best(logits); }));
    return token;
  }

  Result<double> decode_rate(SequenceId sequence, TokenId token, uint32_t steps) {
    const uint32_t begin = engine_.length(sequence);
    const auto start = Clock::now();
    for (uint32_t step = 0; step < steps; ++step) {
      const Row row{token, sequence, begin + step, true};
      PHIDIAS_CHECK_OK(engine_.step(
          {&row, 1}, [&](size_t, std::span<const float> logits) { token = best(logits); }));
    }
    return steps / seconds_since(start);
  }

  Engine& engine_;
  const BenchOptions& options_;
  std::vector<TokenId> ids_;
  uint32_t done_ = 0, total_ = 0;
};

Status check(const BenchOptions& options, uint32_t context) {
  if (options.repetitions == 0 || options.prompt_tokens == 0 || options.new_tokens == 0) {
    return Error{
        Code::kInvalidArgument, "prompt, new tokens and repetitions must be at least 1", {}};
  }
  uint32_t deepest = options.prompt_tokens;
  for (const uint32_t depth : options.depths) deepest = std::max(deepest, depth);
  if (uint64_t{deepest} + options.new_tokens > context) {
    return Error{Code::kCapacityExceeded,
                 std::to_string(deepest) + " positions and " + std::to_string(options.new_tokens) +
                     " new tokens do not fit into the context of " + std::to_string(context),
                 {{}, {}, "depth"}};
  }
  return {};
}

void set_limits(std::vector<BenchRow>& rows, const Limits& limits) {
  for (BenchRow& row : rows) {
    if (row.metric == "first_token_s") {
      row.limit = row.prompt / limits.prefill(row.prompt);
      row.share_of_limit = row.limit / row.median;
    } else if (row.metric.ends_with("_tok_s")) {
      const uint32_t before = row.depth > 0 ? row.depth
                              : row.metric == "batch_decode_tok_s"
                                  ? std::min(row.prompt, kBatchPrompt)
                                  : row.prompt;
      row.limit = row.metric == "prefill_tok_s"
                      ? limits.prefill(row.prompt)
                      : limits.decode(before + row.new_tokens / 2, row.batch);
      row.share_of_limit = row.median / row.limit;
    } else if (row.limit > 0) {
      row.share_of_limit = row.limit / row.median;
    }
  }
}

}  // namespace

Result<BenchReport> bench(const std::shared_ptr<const Model>& model, const BenchOptions& options) {
  PHIDIAS_TRY(const auto engine, Engine::create(model, options.engine));
  PHIDIAS_CHECK_OK(check(options, engine->context()));
  BenchReport report;
  report.cpu = cpu_name();
  report.isa = engine->options().isa;
  report.kv = engine->options().kv;
  report.threads = engine->options().threads;
  report.weight_bytes = model->info().weight_bytes;
  report.bytes_per_token = model->info().bytes_per_token;
  report.cache_bytes_per_position = engine->memory().cache_per_position;

  report.before = read_machine(report.threads, report.isa);
  reset_peak_resident();
  std::vector<TokenId> ids = random_ids(options.prompt_tokens, engine->vocab(), options.seed);
  const std::vector<TokenId> compared(
      ids.begin(), ids.begin() + std::min<std::ptrdiff_t>(kCompared, std::ssize(ids)));
  const size_t parts = options.depths.size() + options.batches.size();
  Bench run(*engine, options, std::move(ids), static_cast<uint32_t>(parts) * options.repetitions);
  uint64_t most_positions = 0;
  for (const uint32_t depth : options.depths) {
    PHIDIAS_CHECK_OK(depth == 0 ? run.prompt_and_decode() : run.decode_at(depth));
    most_positions = std::max<uint64_t>(
        most_positions, (depth == 0 ? options.prompt_tokens : depth) + options.new_tokens);
    run.advance();
  }
  for (const uint32_t batch : options.batches) {
    if (batch > 1) PHIDIAS_CHECK_OK(run.decode_together(batch));
    most_positions =
        std::max<uint64_t>(most_positions, uint64_t{batch} * (kBatchPrompt + kBatchSteps));
    run.advance();
  }
  // What has to be held: weights and cache, and 200 MB for everything else.
  run.add("peak_rss_bytes", 0, 1, {static_cast<double>(peak_resident_bytes())});
  run.rows.back().limit =
      static_cast<double>(report.weight_bytes + most_positions * report.cache_bytes_per_position) +
      200e6;
  report.after = read_machine(report.threads, report.isa);

  if (options.compare_with_exact && engine->options().numerics == Numerics::kFast) {
    PHIDIAS_TRY(const auto fast, Bench::logits(*engine, compared));
    EngineOptions exact_options = options.engine;
    exact_options.numerics = Numerics::kExact;
    exact_options.kv.clear();
    PHIDIAS_TRY(const auto exact_engine, Engine::create(model, exact_options));
    PHIDIAS_TRY(const auto exact, Bench::logits(*exact_engine, compared));
    double largest = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      largest =
          std::max(largest, std::abs(static_cast<double>(exact[i]) - static_cast<double>(fast[i])));
    }
    run.add("max_abs_diff", 0, 1, {largest});
  }
  Limits limits(*model, *engine);
  limits.read(report.before, report.after);
  set_limits(run.rows, limits);
  report.rows = std::move(run.rows);
  return report;
}

}  // namespace phidias
