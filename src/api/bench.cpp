#include "phidias/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "api/bench_images.h"
#include "api/model_impl.h"
#include "base/cpu.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "base/try.h"
#include "engine/stepper.h"
#include "phidias/engine.h"

namespace phidias {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kBatchPrompt = 128;  // ids of each sequence's prompt where several decode
constexpr uint32_t kBatchSteps = 32;

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
  Limits(const Model& model, const BenchReport& report)
      : spec_(model.impl().spec),
        weight_bytes_(static_cast<double>(report.bytes_per_token)),
        cache_bytes_(static_cast<double>(report.cache_bytes_per_position)),
        integer_(report.numerics == Numerics::kFast && has_blocks(model)) {
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
  // A format of single values is multiplied in floats.
  static bool has_blocks(const Model& model) {
    const auto& types = model.info().weight_types;
    return std::any_of(types.begin(), types.end(), [](const auto& type) {
      return format_row(*format_from_name(type.first)).block_values > 1;
    });
  }

  const ModelSpec& spec_;
  double weight_bytes_, cache_bytes_;
  bool integer_;
  double head_ops_ = 0, layer_ops_ = 0;
  double bandwidth_ = 0, operations_ = 0;
};

// What a row is measured at.
struct Setting {
  uint32_t prompt = 1, new_tokens = 1, depth = 0, batch = 1;
};

BenchRow row_of(const char* metric, const Setting& setting, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  BenchRow row;
  row.metric = metric;
  row.prompt = setting.prompt;
  row.new_tokens = setting.new_tokens;
  row.depth = setting.depth;
  row.batch = setting.batch;
  row.median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  row.min = values.front();
  row.max = values.back();
  return row;
}

TokenId best(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// One setting, measured with an engine of its own, whose memory is given back behind it.
class Bench {
 public:
  Bench(const BenchOptions& options, std::span<const TokenId> ids,
        std::function<Status(const std::string&, uint32_t)> report)
      : options_(options), ids_(ids), report_(std::move(report)) {}

  std::vector<BenchRow> rows;

  // Time to the first token, the prompt's rate, and the rate of the tokens after it.
  Status prompt_and_decode(Engine& engine) {
    const Setting setting{options_.prompt_tokens, options_.new_tokens, 0, 1};
    std::vector<double> first, prefill, decode;
    for (uint32_t rep = 0; rep < options_.repetitions; ++rep) {
      PHIDIAS_CHECK_OK(report_("prompt", rep));
      const SequenceId sequence = engine.open({.prompt_tokens = setting.prompt});
      const auto start = Clock::now();
      PHIDIAS_TRY(std::vector<TokenId> next, run_prompt(engine, sequence));
      first.push_back(seconds_since(start));
      prefill.push_back(setting.prompt / first.back());
      PHIDIAS_CHECK_OK(report_("decode", rep));
      PHIDIAS_TRY(const double rate, decode_rate(engine, {{sequence}}, next, setting.new_tokens));
      decode.push_back(rate);
      engine.close(sequence);
    }
    rows.push_back(row_of("first_token_s", setting, first));
    rows.push_back(row_of("prefill_tok_s", setting, prefill));
    rows.push_back(row_of("decode_tok_s", setting, decode));
    return {};
  }

  Status decode_at(Engine& engine, uint32_t depth) {
    const Setting setting{options_.prompt_tokens, options_.new_tokens, depth, 1};
    return decode_from(engine, "decode_tok_s", "decode at depth " + std::to_string(depth), setting,
                       depth);
  }

  Status decode_together(Engine& engine, uint32_t batch) {
    const Setting setting{std::min(options_.prompt_tokens, kBatchPrompt),
                          std::min(options_.new_tokens, kBatchSteps), 0, batch};
    return decode_from(engine, "batch_decode_tok_s", "batch of " + std::to_string(batch), setting,
                       setting.prompt);
  }

 private:
  // Runs the ids into an empty sequence; the likeliest next token.
  Result<std::vector<TokenId>> run_prompt(Engine& engine, SequenceId sequence) {
    std::vector<Row> rows_of_step;
    for (uint32_t i = 0; i < ids_.size(); ++i)
      rows_of_step.push_back({ids_[i], sequence, i, i + 1 == ids_.size()});
    std::vector<TokenId> next(1);
    PHIDIAS_CHECK_OK(engine.step(
        rows_of_step, [&](size_t, std::span<const float> logits) { next[0] = best(logits); }));
    return next;
  }

  // After positions that are there, whatever they hold.
  Status decode_from(Engine& engine, const char* metric, const std::string& what,
                     const Setting& setting, uint32_t positions) {
    std::vector<SequenceId> sequences;
    for (uint32_t s = 0; s < setting.batch; ++s) {
      sequences.push_back(engine.open({.prompt_tokens = positions}));
      PHIDIAS_CHECK_OK(engine.stepper().occupy(sequences.back(), positions));
    }
    std::vector<double> rates;
    for (uint32_t rep = 0; rep < options_.repetitions; ++rep) {
      PHIDIAS_CHECK_OK(report_(what, rep));
      std::vector<TokenId> next(setting.batch);
      for (uint32_t s = 0; s < setting.batch; ++s) next[s] = ids_[s % ids_.size()];
      PHIDIAS_TRY(const double rate, decode_rate(engine, sequences, next, setting.new_tokens));
      rates.push_back(rate);
      for (const SequenceId sequence : sequences)
        PHIDIAS_CHECK_OK(engine.truncate(sequence, positions));
    }
    rows.push_back(row_of(metric, setting, rates));
    return {};
  }

  // Tokens a second, of all sequences; each is read before the next step.
  static Result<double> decode_rate(Engine& engine, std::span<const SequenceId> sequences,
                                    std::vector<TokenId>& next, uint32_t steps) {
    const uint32_t begin = engine.length(sequences.front());
    const auto start = Clock::now();
    for (uint32_t step = 0; step < steps; ++step) {
      std::vector<Row> rows_of_step;
      for (size_t s = 0; s < sequences.size(); ++s)
        rows_of_step.push_back({next[s], sequences[s], begin + step, true});
      PHIDIAS_CHECK_OK(engine.step(rows_of_step, [&](size_t row, std::span<const float> logits) {
        next[row] = best(logits);
      }));
    }
    return static_cast<double>(sequences.size() * steps) / seconds_since(start);
  }

  const BenchOptions& options_;
  std::span<const TokenId> ids_;
  std::function<Status(const std::string&, uint32_t)> report_;
};

// Logits of all positions of a prompt.
Result<std::vector<float>> logits_of(const std::shared_ptr<const Model>& model,
                                     const EngineOptions& options, std::span<const TokenId> ids) {
  PHIDIAS_TRY(const auto engine, Engine::create(model, options));
  const auto count = static_cast<uint32_t>(ids.size());
  const SequenceId sequence = engine->open({.prompt_tokens = count});
  std::vector<Row> rows_of_step;
  for (uint32_t i = 0; i < count; ++i) rows_of_step.push_back({ids[i], sequence, i, true});
  std::vector<float> all;
  PHIDIAS_CHECK_OK(engine->step(rows_of_step, [&](size_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
  }));
  return all;
}

Result<double> distance_from_exact(const std::shared_ptr<const Model>& model,
                                   const EngineOptions& options, std::span<const TokenId> ids) {
  EngineOptions exact_options = options;
  exact_options.numerics = Numerics::kExact;
  exact_options.kv.clear();
  PHIDIAS_TRY(const auto fast, logits_of(model, options, ids));
  PHIDIAS_TRY(const auto exact, logits_of(model, exact_options, ids));
  double largest = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    largest =
        std::max(largest, std::abs(static_cast<double>(exact[i]) - static_cast<double>(fast[i])));
  }
  return largest;
}

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
      const uint32_t before = row.depth > 0 ? row.depth : row.prompt;
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
  BenchReport report;
  uint64_t cache_bytes = 0;
  {
    PHIDIAS_TRY(const auto engine, Engine::create(model, options.engine));
    PHIDIAS_CHECK_OK(check(options, engine->context()));
    report.cpu = cpu_name();
    report.isa = engine->options().isa;
    report.kv = engine->options().kv;
    report.threads = engine->options().threads;
    report.numerics = engine->options().numerics;
    cache_bytes = engine->memory().cache_per_position;
  }
  report.weight_bytes = model->info().weight_bytes;
  report.bytes_per_token = model->info().bytes_per_token;
  report.cache_bytes_per_position = cache_bytes;
  report.before = read_machine(report.threads, report.isa);

  const std::vector<TokenId> ids =
      random_ids(options.prompt_tokens, model->info().vocab_size, options.seed);
  const auto total =
      static_cast<uint32_t>(options.depths.size() + options.batches.size()) * options.repetitions;
  uint32_t done = 0;
  Bench run(options, ids, [&](const std::string& what, uint32_t rep) -> Status {
    if (!options.progress || options.progress(what, done + rep, total)) return {};
    return Error{Code::kCancelled, "was interrupted", {}};
  });
  // Each setting is measured with an engine of its own, so that the peak of the memory is its own.
  const auto measure = [&](uint64_t positions, const auto& part) -> Status {
    reset_peak_resident();
    PHIDIAS_TRY(const auto engine, Engine::create(model, options.engine));
    PHIDIAS_CHECK_OK(part(*engine));
    BenchRow peak = run.rows.back();
    peak.metric = "peak_rss_bytes";
    peak.median = peak.min = peak.max = static_cast<double>(peak_resident_bytes());
    // What has to be held: weights and cache, and 200 MB for everything else.
    peak.limit = static_cast<double>(report.weight_bytes + positions * cache_bytes) + 200e6;
    run.rows.push_back(std::move(peak));
    done += options.repetitions;
    return {};
  };
  for (const uint32_t depth : options.depths) {
    const uint64_t before = depth == 0 ? options.prompt_tokens : depth;
    PHIDIAS_CHECK_OK(measure(before + options.new_tokens, [&](Engine& engine) {
      return depth == 0 ? run.prompt_and_decode(engine) : run.decode_at(engine, depth);
    }));
  }
  for (const uint32_t batch : options.batches) {
    if (batch == 1) {
      done += options.repetitions;  // the runs at a depth are of one sequence
      continue;
    }
    PHIDIAS_CHECK_OK(measure(uint64_t{batch} * (kBatchPrompt + kBatchSteps),
                             [&](Engine& engine) { return run.decode_together(engine, batch); }));
  }
  report.after = read_machine(report.threads, report.isa);
  for (const uint32_t tiles : options.image_tiles) {
    if (!model->info().vision) break;
    PHIDIAS_TRY(const auto engine, Engine::create(model, options.engine));
    PHIDIAS_TRY(BenchRow row, bench_image(*engine, tiles, options, report.before, report.after));
    run.rows.push_back(std::move(row));
  }

  if (options.compare_with_exact && report.numerics == Numerics::kFast) {
    if (options.progress) options.progress("comparing with exact numerics", total, total);
    const size_t compared = std::min<size_t>(kComparedPositions, ids.size());
    PHIDIAS_TRY(const double distance,
                distance_from_exact(model, options.engine, std::span(ids).first(compared)));
    run.rows.push_back(row_of("max_abs_diff", {static_cast<uint32_t>(compared), 0}, {distance}));
  }
  Limits limits(*model, report);
  limits.read(report.before, report.after);
  set_limits(run.rows, limits);
  report.rows = std::move(run.rows);
  return report;
}

}  // namespace phidias
