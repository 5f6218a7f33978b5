// Where the time of a step goes: the forward pass of a real or random model with every kernel of
// the table and every parallel part timed, the engine unchanged.
//   forward_phases_bench MODEL | SHAPE:LAYERS [--isa=NAME] [--threads=N] [--rows=512,16] [--reps=3]
//                        [--weights=RECIPE]
// Up to 64 rows are sequences that decode together, each at 128 positions; more are one prompt. A
// line is a kind of kernel: its time, the mean of all threads, its share, the time that threads
// wait at the end of parallel parts which end with it, and for products the operations a second of
// all threads while it ran, beside the machine's integer peak around that very step, since both
// swing together. "outside" is what one thread does while no others have work.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>

#include "api/model_impl.h"
#include "base/thread_pool.h"
#include "engine/stepper.h"
#include "kernels/probes.h"
#include "phidias/bench.h"

namespace phidias {
namespace {

using Clock = std::chrono::steady_clock;

enum Phase : size_t {
  kQkv,
  kOutput,
  kGateUp,
  kDown,
  kHead,
  kOtherProduct,
  kNorm,
  kRounding,
  kRope,
  kStore,
  kAttention,
  kActivation,
  kAdd,
  kPhases
};
constexpr std::array<const char*, kPhases> kNames = {
    "qkv",   "attention output", "gate and up", "down",           "head",      "other product",
    "norm",  "rounding",         "rotation",    "into the cache", "attention", "activation",
    "adding"};

struct Counts {
  double seconds[kPhases] = {};
  double operations[kPhases] = {};
  double busy = 0;
};

constexpr size_t kMostThreads = 64;
struct alignas(64) Slot : Counts {};
Slot slots[kMostThreads];
thread_local size_t this_thread = 0;
Phase latest = kNorm;  // of the calling thread
KernelTable plain;
std::map<const std::byte*, Phase> places;  // where a matrix begins

Phase phase_of(const std::byte* weights) {
  const auto after = places.upper_bound(weights);
  return after == places.begin() ? kOtherProduct : std::prev(after)->second;
}

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Call>
auto timed(Phase phase, Call&& call) {
  const auto start = Clock::now();
  call();
  slots[this_thread].seconds[phase] += since(start);
  if (this_thread == 0) latest = phase;
}

// The function at `kMember` of the table, timed; a product counts under its matrix.
template <auto kMember, Phase kPhase, class... Arguments>
void wrap(KernelTable& table, void (*KernelTable::*)(Arguments...)) {
  table.*kMember = [](Arguments... arguments) {
    timed(kPhase, [&] { (plain.*kMember)(arguments...); });
  };
}

void count_product(const MatmulArgs& args, MatmulFn function) {
  const Phase phase = phase_of(args.weights);
  timed(phase, [&] { function(args); });
  slots[this_thread].operations[phase] +=
      2.0 * static_cast<double>((args.out_end - args.out_begin) * args.rows * args.cols);
}

template <size_t... kFormats>
void wrap_products(KernelTable& table, std::index_sequence<kFormats...>) {
  const auto wrap_one = [](MatmulFn& function, MatmulFn with) {
    if (function != nullptr) function = with;
  };
  (wrap_one(table.matmul_q8[kFormats],
            [](const MatmulArgs& args) { count_product(args, plain.matmul_q8[kFormats]); }),
   ...);
  (wrap_one(table.matmul_f32[kFormats],
            [](const MatmulArgs& args) { count_product(args, plain.matmul_f32[kFormats]); }),
   ...);
}

template <size_t... kTypes>
void wrap_cache(KernelTable& table, std::index_sequence<kTypes...>) {
  ((
       table.attention[kTypes] =
           [](const AttentionArgs& args) {
             timed(kAttention, [&] { plain.attention[kTypes](args); });
           },
       table.store_key[kTypes] =
           [](const float* src, std::byte* page, size_t slot, size_t dim) {
             timed(kStore, [&] { plain.store_key[kTypes](src, page, slot, dim); });
           },
       table.store_value[kTypes] =
           [](const float* src, std::byte* page, size_t slot, size_t dim) {
             timed(kStore, [&] { plain.store_value[kTypes](src, page, slot, dim); });
           }),
   ...);
}

KernelTable timed_table(const KernelTable& of) {
  plain = of;
  KernelTable table = of;
  wrap_products(table, std::make_index_sequence<kFormatCount>());
  wrap_cache(table, std::make_index_sequence<kKvTypeCount>());
  if (of.matmul_bf16 != nullptr)
    table.matmul_bf16 = [](const MatmulArgs& args) { count_product(args, plain.matmul_bf16); };
  wrap<&KernelTable::rms_norm, kNorm>(table, &KernelTable::rms_norm);
  wrap<&KernelTable::layer_norm, kNorm>(table, &KernelTable::layer_norm);
  wrap<&KernelTable::rope, kRope>(table, &KernelTable::rope);
  wrap<&KernelTable::silu_mul, kActivation>(table, &KernelTable::silu_mul);
  wrap<&KernelTable::gegelu, kActivation>(table, &KernelTable::gegelu);
  wrap<&KernelTable::add, kAdd>(table, &KernelTable::add);
  wrap<&KernelTable::quantize_q8, kRounding>(table, &KernelTable::quantize_q8);
  wrap<&KernelTable::round_bf16, kRounding>(table, &KernelTable::round_bf16);
  return table;
}

class TimedThreads : public ParallelFor {
 public:
  explicit TimedThreads(size_t threads) : pool_(threads) {}
  size_t threads() const override { return pool_.threads(); }
  void run(size_t count, size_t grain, ParallelBody body) override {
    const auto start = Clock::now();
    double before = 0, after = 0;
    for (size_t thread = 0; thread < threads(); ++thread) before += slots[thread].busy;
    pool_.run(count, grain, [&](size_t begin, size_t end, size_t thread) {
      this_thread = thread;
      const auto since_begin = Clock::now();
      body(begin, end, thread);
      slots[thread].busy += since(since_begin);
    });
    this_thread = 0;
    const double seconds = since(start);
    for (size_t thread = 0; thread < threads(); ++thread) after += slots[thread].busy;
    waiting[latest] += seconds * static_cast<double>(threads()) - (after - before);
    parallel += seconds;
    ++parts;
  }
  void reset() {
    parallel = 0;
    parts = 0;
    waiting.fill(0);
  }
  // Integer operations a second that the threads can do just now.
  double peak(const PeakProbe& probe) {
    constexpr size_t kRounds = 6000000;  // some tens of milliseconds
    const auto start = Clock::now();
    pool_.run(threads(), 1, [&](size_t, size_t, size_t) { probe.run(kRounds); });
    return static_cast<double>(threads() * kRounds) * probe.operations_per_round / since(start);
  }

  double parallel = 0;
  size_t parts = 0;
  std::array<double, kPhases> waiting{};

 private:
  ThreadPool pool_;
};

void place(const Matrix& matrix, Phase phase) {
  for (const RowBlock& block : matrix.blocks) places[block.data] = phase;
}

void place_all(const ModelWeights& weights) {
  for (const LayerWeights& layer : weights.layers) {
    place(layer.qkv, kQkv);
    place(layer.attention_output, kOutput);
    place(layer.gate_up, kGateUp);
    place(layer.down, kDown);
  }
  place(weights.head, kHead);
}

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "forward_phases_bench: %s\n", status.error().to_string().c_str());
  std::exit(1);
}

constexpr uint32_t kMostSequences = 64;
constexpr uint32_t kPositions = 128;

// Seconds of one step of so many rows.
double step(Stepper& stepper, uint32_t rows, uint32_t vocab) {
  std::mt19937 random(1);
  std::vector<SequenceId> sequences;
  std::vector<Row> step_rows;
  for (uint32_t i = 0; i < rows; ++i) {
    const auto token = static_cast<TokenId>(random() % vocab);
    if (rows > kMostSequences) {
      if (i == 0) sequences.push_back(stepper.open({.prompt_tokens = rows}));
      step_rows.push_back({token, sequences[0], i, i + 1 == rows});
    } else {
      sequences.push_back(stepper.open({.prompt_tokens = kPositions}));
      must(stepper.occupy(sequences.back(), kPositions));
      step_rows.push_back({token, sequences.back(), kPositions, true});
    }
  }
  for (Slot& slot : slots) static_cast<Counts&>(slot) = {};
  const auto start = Clock::now();
  must(stepper.step(step_rows, [](size_t, std::span<const float>) {}));
  const double seconds = since(start);
  for (const SequenceId sequence : sequences) stepper.close(sequence);
  return seconds;
}

void show(uint32_t rows, double seconds, const TimedThreads& threads, double peak) {
  Counts all;
  for (const Slot& slot : slots) {
    for (size_t phase = 0; phase < kPhases; ++phase) {
      all.seconds[phase] += slot.seconds[phase];
      all.operations[phase] += slot.operations[phase];
    }
    all.busy += slot.busy;
  }
  const auto count = static_cast<double>(threads.threads());
  std::printf("\n%u rows: %.2f ms, %.1f tokens/s, %zu parallel parts, peak %.0f GOP/s\n", rows,
              1e3 * seconds, rows / seconds, threads.parts, 1e-9 * peak);
  const auto line = [&](const char* name, double of_all) {
    std::printf("%-18s %9.2f ms %6.1f %%", name, 1e3 * of_all / count,
                100 * of_all / count / seconds);
  };
  double kernels = 0, outside_parts = 0;
  for (size_t phase = 0; phase < kPhases; ++phase) {
    kernels += all.seconds[phase];
    if (all.seconds[phase] == 0) continue;
    line(kNames[phase], all.seconds[phase]);
    std::printf("  waiting %6.2f ms", 1e3 * threads.waiting[phase] / count);
    const double rate = count * all.operations[phase] / all.seconds[phase];
    if (rate > 0) std::printf("  %7.0f GOP/s, %.0f %% of the peak", 1e-9 * rate, 100 * rate / peak);
    std::printf("\n");
  }
  outside_parts = seconds - threads.parallel;
  line("waiting, all", count * threads.parallel - all.busy);
  std::printf("\n");
  line("outside", count * outside_parts);
  std::printf("\n");
  line("between kernels", all.busy - kernels);
  std::printf("\n");
}

int run(const std::string& name, const std::map<std::string, std::string>& options) {
  const auto option = [&](const char* key, const char* otherwise) {
    const auto at = options.find(key);
    return at == options.end() ? std::string(otherwise) : at->second;
  };
  const size_t colon = name.find(':');
  RandomModelOptions shape{.shape = name.substr(0, colon), .weights = option("weights", "q4")};
  if (colon != std::string::npos)
    shape.layers = static_cast<uint32_t>(std::atoi(name.c_str() + colon + 1));
  auto model = colon == std::string::npos ? Model::load(name) : random_model(shape);
  if (!model.ok()) must(model.error());
  const KernelTable* kernels =
      options.contains("isa") ? table_by_name(option("isa", "")) : &best_table();
  if (kernels == nullptr) must(Error{Code::kInvalidArgument, "there is no such table here", {}});
  const size_t asked = std::strtoul(option("threads", "0").c_str(), nullptr, 10);
  TimedThreads threads(std::min(asked == 0 ? usable_cores() : asked, kMostThreads));
  const KernelTable table = timed_table(*kernels);
  const Model::Impl& impl = (*model)->impl();
  place_all(impl.weights);
  const PeakProbe& probe = machine_probes(kernels->name).integers;
  std::printf("%s, %zu threads\n", std::string(kernels->name).c_str(), threads.threads());
  std::stringstream counts(option("rows", "512,16"));
  for (std::string text; std::getline(counts, text, ',');) {
    const auto rows = static_cast<uint32_t>(std::clamp(std::atoi(text.c_str()), 1, 4096));
    Stepper stepper(
        impl.spec, impl.weights, table, threads,
        {.context = std::max(rows, kPositions) + 64, .cache_budget = uint64_t{8} << 30});
    double seconds = 0, peak = 0;
    for (int rep = std::atoi(option("reps", "3").c_str()); rep > 0; --rep) {
      threads.reset();
      peak = threads.peak(probe) / 2;
      seconds = step(stepper, rows, impl.spec.vocab);
      peak += threads.peak(probe) / 2;
      std::printf("  %.1f ms (%.0f GOP/s)", 1e3 * seconds, 1e-9 * peak);
    }
    show(rows, seconds, threads, peak);  // of the last one: buffers are there
  }
  return 0;
}

}  // namespace
}  // namespace phidias

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s MODEL | SHAPE:LAYERS [--option=value ...]\n", arguments[0]);
    return 2;
  }
  std::map<std::string, std::string> options;
  for (int i = 2; i < count; ++i) {
    const std::string argument = arguments[i];
    const size_t equals = argument.find('=');
    if (!argument.starts_with("--") || equals == std::string::npos) {
      std::fprintf(stderr, "%s: \"%s\" is not --option=value\n", arguments[0], arguments[i]);
      return 2;
    }
    options[argument.substr(2, equals - 2)] = argument.substr(equals + 1);
  }
  return phidias::run(arguments[1], options);
}
