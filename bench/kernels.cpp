// Speed of the kernels of every table, on all usable cores.
//   decode/<table>/<format>      one activation row against weights that no cache holds
//   rows/<n>/<table>/<format>    n rows against one matrix of 3072 x 3072
//   cached/<n>/<table>/<format>  n rows against one of 512 x 3072, by the time of one thread: what
//   a
//                                kernel does while memory keeps up and others use the machine
//   attend/<n>/<table>/<type>    n queries a head over 2048 positions, from memory
//   ..._exact                    the same in exact numerics
//   fork_join                    an empty parallel part
// --threads=N and --outliers=S (the share of activation groups with a second term) come first.
// read_bandwidth is what the memory gives to a plain loop: compare a decode figure with a reading
// of the same run. --benchmark_filter picks some.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/table.h"

namespace phidias {
namespace {

constexpr size_t kHidden = 3072;
constexpr size_t kWorkingSet = size_t{1} << 30;
constexpr size_t kPrefillRows = 512;

size_t threads = 0;        // set once, before the pool is asked for
double outlier_share = 0;  // of groups of activations that get a second term

ThreadPool& pool() {
  static ThreadPool instance(threads == 0 ? usable_cores() : threads);
  return instance;
}

std::vector<float> normal_floats(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// `bytes` of weights in rows of kHidden: a few encoded rows, repeated.
AlignedBuffer<std::byte> weights_of(Format format, size_t bytes) {
  constexpr size_t kDistinct = 16;
  const FormatRow& row = format_row(format);
  const std::vector<float> values = normal_floats(kDistinct * kHidden);
  std::vector<std::byte> distinct(row.matrix_bytes(kDistinct, kHidden));
  for (size_t i = 0; i < kDistinct; i += row.tile_rows) {
    row.encode_tile(values.data() + i * kHidden, row.tile_rows, nullptr,
                    distinct.data() + i / row.tile_rows * row.tile_bytes(kHidden), kHidden);
  }
  AlignedBuffer<std::byte> weights(bytes);
  // Each thread touches what it will read.
  pool().run(bytes, distinct.size(), [&](size_t begin, size_t end, size_t) {
    for (size_t i = begin; i < end; i += distinct.size()) {
      std::memcpy(weights.data() + i, distinct.data(), std::min(distinct.size(), end - i));
    }
  });
  return weights;
}

// Activations in both forms, and scratch for each thread.
struct Activations {
  explicit Activations(size_t rows)
      : x(rows * kHidden), values(2 * rows * kHidden), numbers(4 * rows * kHidden / kQuantGroup) {
    const std::vector<float> source = normal_floats(rows * kHidden);
    std::copy(source.begin(), source.end(), x.data());
    for (size_t g = 0; g < x.size() / kQuantGroup; ++g) {
      if (static_cast<double>(g % 1000) < 1000 * outlier_share)
        x[g * kQuantGroup] = g % 2 == 0 ? 40.0F : -40.0F;
    }
    const size_t count = rows * kHidden;
    const size_t groups = count / kQuantGroup;
    float* n = numbers.data();
    q = {values.data(), n, n + groups, values.data() + count, n + 2 * groups, n + 3 * groups};
    for (size_t r = 0; r < rows; ++r) {
      best_table().quantize_q8(x.data() + r * kHidden, q.from(r, kHidden), kHidden);
    }
    for (size_t t = 0; t < pool().threads(); ++t) {
      scratch.emplace_back(matmul_scratch_floats(kHidden));
    }
  }
  AlignedBuffer<float> x;
  AlignedBuffer<int8_t> values;
  AlignedBuffer<float> numbers;
  QuantizedRows q;
  std::vector<AlignedBuffer<float>> scratch;
};

MatmulArgs arguments(Format format, const std::byte* weights, size_t outs, Activations& activations,
                     size_t rows, float* y) {
  MatmulArgs args;
  args.weights = weights;
  args.row_bytes = format_row(format).tile_bytes(kHidden);
  args.cols = kHidden;
  args.out_end = outs;
  args.x = activations.x.data();
  args.x_stride = kHidden;
  args.q = activations.q;
  args.rows = rows;
  args.y = y;
  args.y_stride = outs;
  args.scratch = activations.scratch[0].data();
  return args;
}

void multiply(MatmulFn matmul, Format format, const std::byte* weights, size_t outs,
              Activations& activations, size_t rows, float* y) {
  pool().run(outs, 16, [&](size_t begin, size_t end, size_t thread) {
    MatmulArgs args = arguments(format, weights, outs, activations, rows, y);
    args.out_begin = begin;
    args.out_end = end;
    args.scratch = activations.scratch[thread].data();
    matmul(args);
  });
}

void decode(benchmark::State& state, MatmulFn matmul, Format format) {
  const FormatRow& row = format_row(format);
  const size_t outs = kWorkingSet / row.matrix_bytes(16, kHidden) * 16;
  const AlignedBuffer<std::byte> weights = weights_of(format, row.matrix_bytes(outs, kHidden));
  Activations activations(1);
  std::vector<float> y(outs);
  for (auto _ : state) {
    multiply(matmul, format, weights.data(), outs, activations, 1, y.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(weights.size()));
}

void count_operations(benchmark::State& state, size_t rows, size_t outs) {
  const double operations = 2.0 * static_cast<double>(rows * outs * kHidden);
  state.counters["ops"] = benchmark::Counter(operations * static_cast<double>(state.iterations()),
                                             benchmark::Counter::kIsRate);
}

void prefill(benchmark::State& state, MatmulFn matmul, Format format, size_t rows) {
  const AlignedBuffer<std::byte> weights =
      weights_of(format, format_row(format).matrix_bytes(kHidden, kHidden));
  Activations activations(rows);
  std::vector<float> y(rows * kHidden);
  for (auto _ : state) {
    multiply(matmul, format, weights.data(), kHidden, activations, rows, y.data());
    benchmark::ClobberMemory();
  }
  count_operations(state, rows, kHidden);
}

void cached(benchmark::State& state, MatmulFn matmul, Format format, size_t rows) {
  constexpr size_t kOuts = 512;
  const AlignedBuffer<std::byte> weights =
      weights_of(format, format_row(format).matrix_bytes(kOuts, kHidden));
  Activations activations(rows);
  std::vector<float> y(rows * kOuts);
  for (auto _ : state) {
    matmul(arguments(format, weights.data(), kOuts, activations, rows, y.data()));
    benchmark::ClobberMemory();
  }
  count_operations(state, rows, kOuts);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(weights.size()));
}

// 32 heads of 96, as in Phi-3-mini; enough layers that no cache holds them.
void attend(benchmark::State& state, AttentionFn attention, KvType type, size_t rows) {
  constexpr size_t kDepth = 2048, kHeads = 32, kDim = 96, kPage = 64;
  const size_t bytes = kv_type_row(type).block_bytes(kDim) / kKvBlock;
  const size_t layer_bytes = 2 * kDepth * kHeads * bytes;
  const size_t layers = std::max<size_t>(1, kWorkingSet / 2 / layer_bytes);
  AlignedBuffer<std::byte> cache(layers * layer_bytes);
  std::memset(cache.data(), 0x11, cache.size());
  std::vector<const std::byte*> pages(cache.size() / (kPage * bytes));
  for (size_t p = 0; p < pages.size(); ++p) pages[p] = cache.data() + p * kPage * bytes;
  constexpr size_t kPagesOfHead = kDepth / kPage;

  const std::vector<float> queries = normal_floats(rows * kHeads * kDim);
  std::vector<float> out(queries.size());
  std::vector<uint32_t> first(rows, 0), end(rows);
  for (size_t r = 0; r < rows; ++r) end[r] = static_cast<uint32_t>(kDepth - rows + r + 1);
  std::vector<AlignedBuffer<float>> scratch;
  for (size_t t = 0; t < pool().threads(); ++t) {
    scratch.emplace_back(attention_scratch_floats(kDepth, kDim));
  }
  for (auto _ : state) {
    for (size_t layer = 0; layer < layers; ++layer) {
      pool().run(kHeads, 1, [&](size_t begin, size_t last, size_t thread) {
        for (size_t head = begin; head < last; ++head) {
          AttentionArgs args;
          args.key_pages = pages.data() + (layer * kHeads + head) * 2 * kPagesOfHead;
          args.value_pages = args.key_pages + kPagesOfHead;
          args.page_positions = kPage;
          args.head_dim = kDim;
          args.group = 1;
          args.queries = queries.data() + head * kDim;
          args.query_stride = kHeads * kDim;
          args.out = out.data() + head * kDim;
          args.out_stride = kHeads * kDim;
          args.rows = rows;
          args.first_key = first.data();
          args.end_key = end.data();
          args.scale = 0.1F;
          args.scratch = scratch[thread].data();
          attention(args);
        }
      });
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(cache.size()));
  const double operations = 4.0 * static_cast<double>(rows * kDepth * kHeads * kDim * layers);
  state.counters["ops"] = benchmark::Counter(operations * static_cast<double>(state.iterations()),
                                             benchmark::Counter::kIsRate);
}

// What a parallel part costs beside its work.
void fork_join(benchmark::State& state) {
  for (auto _ : state) {
    pool().run(pool().threads(), 1,
               [](size_t begin, size_t, size_t) { benchmark::DoNotOptimize(begin); });
  }
}

void read_bandwidth(benchmark::State& state) {
  AlignedBuffer<uint64_t> memory(kWorkingSet / sizeof(uint64_t));
  pool().run(memory.size(), 1 << 18, [&](size_t begin, size_t end, size_t) {
    std::memset(memory.data() + begin, 1, (end - begin) * sizeof(uint64_t));
  });
  for (auto _ : state) {
    pool().run(memory.size(), 64, [&](size_t begin, size_t end, size_t) {
      uint64_t sums[8] = {};
      for (size_t i = begin; i < end; i += 8) {
        for (size_t k = 0; k < 8; ++k) sums[k] += memory[i + k];
      }
      uint64_t sum = 0;
      for (const uint64_t part : sums) sum += part;
      benchmark::DoNotOptimize(sum);
    });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kWorkingSet));
}

template <typename... Args>
void add(const std::string& name, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), args...)->UseRealTime()->Unit(benchmark::kMillisecond);
}

void register_all() {
  add("read_bandwidth", read_bandwidth);
  add("fork_join", fork_join);
  for (const KernelTable* table : available_tables()) {
    const std::string name(table->name);
    for (const FormatRow& format : format_rows()) {
      const size_t i = index_of(format.format);
      const std::string tail = name + "/" + std::string(format.name);
      const MatmulFn fast =
          table->matmul_q8[i] != nullptr ? table->matmul_q8[i] : table->matmul_f32[i];
      add("decode/" + tail, decode, fast, format.format);
      for (const size_t rows :
           {size_t{2}, size_t{4}, size_t{8}, size_t{16}, size_t{32}, kPrefillRows}) {
        add("rows/" + std::to_string(rows) + "/" + tail, prefill, fast, format.format, rows);
      }
      for (const size_t rows : {size_t{1}, size_t{4}, size_t{16}, size_t{192}}) {
        benchmark::RegisterBenchmark(("cached/" + std::to_string(rows) + "/" + tail).c_str(),
                                     cached, fast, format.format, rows);
      }
      if (table->matmul_q8[i] == nullptr) continue;
      add("decode_exact/" + tail, decode, table->matmul_f32[i], format.format);
      add("rows_exact/512/" + tail, prefill, table->matmul_f32[i], format.format, kPrefillRows);
    }
    for (size_t type = 0; type < kKvTypeCount; ++type) {
      const KvTypeRow& row = kv_type_row(static_cast<KvType>(type));
      for (const size_t rows : {size_t{1}, size_t{64}}) {
        add("attend/" + std::to_string(rows) + "/" + name + "/" + std::string(row.name), attend,
            table->attention[type], row.type, rows);
      }
    }
    for (const size_t rows : {size_t{1}, size_t{64}}) {
      add("attend_exact/" + std::to_string(rows) + "/" + name, attend, table->attention_exact,
          KvType::kF32, rows);
    }
  }
}

}  // namespace
}  // namespace phidias

int main(int argc, char** argv) {
  phidias::register_all();
  // Ours first: the library refuses arguments that it does not know.
  for (; argc > 1; ++argv, --argc) {
    const std::string option = argv[1];
    if (option.starts_with("--threads=")) {
      phidias::threads = std::stoul(option.substr(10));
    } else if (option.starts_with("--outliers=")) {
      phidias::outlier_share = std::stod(option.substr(11));
    } else {
      break;
    }
    argv[1] = argv[0];
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
