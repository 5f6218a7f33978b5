#include <algorithm>
#include <chrono>
#include <cstring>

#include "api/random_weights.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "base/try.h"
#include "model/blocks/linear.h"
#include "phidias/bench.h"

namespace phidias {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kWidth = 3072;              // of Phi-3-mini
constexpr size_t kDecodeBytes = 256U << 20;  // of weights: far beyond every cache
constexpr size_t kRows = 512;
constexpr double kSeconds = 0.25;  // for each figure
constexpr size_t kDepth = 2048, kHeads = 32, kHeadDim = 96, kPage = 64;

// Seconds of one call; the best of as many as fit the time, at least two.
template <typename Work>
double best_seconds(const Work& work) {
  double best = 1e30, total = 0;
  for (int calls = 0; calls < 2 || total < kSeconds; ++calls) {
    const auto start = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

void fill_with_waves(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 2654435761U % 2001) - 1000) / 1000.0F;
}

KernelBenchRow time_linear(const char* kernel, RunContext& context, const Matrix& matrix,
                           size_t rows) {
  Activations activations;
  fill_with_waves(activations.resize(rows, matrix.cols), rows * matrix.cols);
  std::vector<float> out(rows * matrix.rows);
  const double seconds =
      best_seconds([&] { linear(context, matrix, activations, out.data(), matrix.rows); });
  KernelBenchRow row;
  row.kernel = kernel;
  row.format = format_row(matrix.blocks.front().format).name;
  row.bytes_s = static_cast<double>(matrix.bytes()) / seconds;
  row.ops_s = 2.0 * static_cast<double>(rows * matrix.rows * matrix.cols) / seconds;
  return row;
}

// One query a head over kDepth positions, in as many layers as no cache holds.
KernelBenchRow time_attention(RunContext& context, KvType type) {
  const size_t vector = kv_type_row(type).block_bytes(kHeadDim) / kKvBlock;
  const size_t layer_bytes = 2 * kDepth * kHeads * vector;
  const size_t layers = std::max<size_t>(1, kDecodeBytes / layer_bytes);
  AlignedBuffer<std::byte> cache(layers * layer_bytes);
  std::memset(cache.data(), 0x11, cache.size());
  std::vector<const std::byte*> pages(cache.size() / (kPage * vector));
  for (size_t p = 0; p < pages.size(); ++p) pages[p] = cache.data() + p * kPage * vector;
  std::vector<float> queries(kHeads * kHeadDim);
  fill_with_waves(queries.data(), queries.size());
  std::vector<float> out(queries.size());
  const uint32_t first = 0, end = kDepth;
  context.reserve_scratch(attention_scratch_floats(kDepth, kHeadDim));
  const double seconds = best_seconds([&] {
    for (size_t layer = 0; layer < layers; ++layer) {
      context.threads->run(kHeads, 1, [&](size_t begin, size_t last, size_t thread) {
        for (size_t head = begin; head < last; ++head) {
          AttentionArgs args;
          args.key_pages = pages.data() + (layer * kHeads + head) * 2 * (kDepth / kPage);
          args.value_pages = args.key_pages + kDepth / kPage;
          args.page_positions = kPage;
          args.head_dim = kHeadDim;
          args.group = 1;
          args.queries = queries.data() + head * kHeadDim;
          args.query_stride = kHeads * kHeadDim;
          args.out = out.data() + head * kHeadDim;
          args.out_stride = kHeads * kHeadDim;
          args.rows = 1;
          args.first_key = &first;
          args.end_key = &end;
          args.scale = 0.1F;
          args.scratch = context.scratch[thread].data();
          context.kernels->attention[index_of(type)](args);
        }
      });
    }
  });
  KernelBenchRow row;
  row.kernel = "attention";
  row.format = kv_type_row(type).name;
  row.bytes_s = static_cast<double>(cache.size()) / seconds;
  row.ops_s = 4.0 * static_cast<double>(kDepth * kHeads * kHeadDim * layers) / seconds;
  return row;
}

}  // namespace

Result<KernelBenchReport> bench_kernels(
    const EngineOptions& options,
    const std::function<bool(std::string_view what, uint32_t done, uint32_t total)>& progress) {
  const KernelTable* table = options.isa.empty() ? &best_table() : table_by_name(options.isa);
  if (table == nullptr) {
    return Error{Code::kInvalidArgument,
                 "\"" + options.isa + "\" is not a kernel table that this CPU can run",
                 {{}, {}, "isa"}};
  }
  ThreadPool threads(options.threads == 0 ? usable_cores() : options.threads);
  RunContext context(*table, threads, options.numerics);
  KernelBenchReport report;
  report.cpu = cpu_name();
  report.isa = table->name;
  report.threads = threads.threads();
  report.before = read_machine(threads.threads(), report.isa);
  const auto total = static_cast<uint32_t>(kFormatCount + kKvTypeCount);
  uint32_t done = 0;
  const auto advance = [&](std::string_view what) -> Status {
    if (!progress || progress(what, done++, total)) return {};
    return Error{Code::kCancelled, "was interrupted", {}};
  };
  for (const FormatRow& format : format_rows()) {
    PHIDIAS_CHECK_OK(advance(format.name));
    const size_t rows = kDecodeBytes / format.matrix_bytes(64, kWidth) * 64;
    PHIDIAS_TRY(const Matrix large, random_matrix(rows, kWidth, format.format, 1, threads));
    report.rows.push_back(time_linear("decode", context, large, 1));
    PHIDIAS_TRY(const Matrix square, random_matrix(kWidth, kWidth, format.format, 1, threads));
    report.rows.push_back(time_linear("rows_16", context, square, 16));
    report.rows.push_back(time_linear("prefill", context, square, kRows));
  }
  for (size_t type = 0; type < kKvTypeCount; ++type) {
    const auto kv = static_cast<KvType>(type);
    PHIDIAS_CHECK_OK(advance(kv_type_row(kv).name));
    report.rows.push_back(time_attention(context, kv));
  }
  report.after = read_machine(threads.threads(), report.isa);
  const double bandwidth = std::max(report.before.read_bytes_s, report.after.read_bytes_s);
  for (KernelBenchRow& row : report.rows) {
    const auto format = format_from_name(row.format);
    const bool integers = row.kernel != "attention" && options.numerics == Numerics::kFast &&
                          format && format_row(*format).block_values > 1;
    const double peak = integers ? std::max(report.before.integer_ops_s, report.after.integer_ops_s)
                                 : std::max(report.before.float_ops_s, report.after.float_ops_s);
    row.share_of_bandwidth = row.bytes_s / bandwidth;
    row.share_of_peak = row.ops_s / peak;
  }
  return report;
}

}  // namespace phidias
