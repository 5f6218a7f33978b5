// What looking into a run costs: steps and prompts of one model with reads and edits of several
// kinds, each beside the same work untraced.
//   tracing_bench MODEL | SHAPE:LAYERS [prompt] [steps]
// All kinds take turns, step by step, so that what else the machine does meets all alike; of each
// the median is shown, and its ratio to the untraced one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "api/model_impl.h"
#include "base/thread_pool.h"
#include "engine/stepper.h"
#include "phidias/bench.h"
#include "phidias/trace.h"
#include "trace/sequence_trace.h"

namespace phidias {
namespace {

using Clock = std::chrono::steady_clock;

struct Kind {
  const char* name;
  std::vector<const char*> reads;
  Edits edits;
  std::vector<double> seconds{};
};

void fail(const Error& error) {
  std::fprintf(stderr, "tracing_bench: %s\n", error.to_string().c_str());
  std::exit(1);
}

std::shared_ptr<const Model> open(const std::string& name) {
  const size_t colon = name.find(':');
  RandomModelOptions shape;
  shape.shape = name.substr(0, colon);
  if (colon != std::string::npos)
    shape.layers = static_cast<uint32_t>(std::atoi(name.c_str() + colon + 1));
  auto model = colon == std::string::npos ? Model::load(name) : random_model(shape);
  if (!model.ok()) fail(model.error());
  return *model;
}

class Bench {
 public:
  Bench(const Model& model, uint32_t prompt, uint32_t steps)
      : model_(model),
        steps_(steps),
        threads_(usable_cores()),
        stepper_(model.impl().spec, model.impl().weights, best_table(), threads_,
                 {.context = prompt + steps, .cache_budget = uint64_t{4} << 30}) {
    std::mt19937 random(1);
    for (uint32_t i = 0; i < prompt; ++i)
      prompt_.push_back(static_cast<TokenId>(random() % model.info().vocab_size));
  }

  void prompts(std::vector<Kind> kinds, int repetitions) {
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      for (size_t i = 0; i < kinds.size(); ++i) {
        Kind& kind = kinds[(i + static_cast<size_t>(repetition)) % kinds.size()];
        const auto since = Clock::now();
        const Run run = start(kind, prompt_.size());
        kind.seconds.push_back(std::chrono::duration<double>(Clock::now() - since).count());
        stepper_.close(run.sequence);
      }
    }
    print("prompt", kinds, static_cast<double>(prompt_.size()));
  }

  void steps(std::vector<Kind> kinds) {
    std::vector<Run> runs;
    for (const Kind& kind : kinds) runs.push_back(start(kind, prompt_.size() + steps_));
    for (uint32_t step = 0; step < steps_; ++step) {
      for (size_t turn = 0; turn < kinds.size(); ++turn) {
        const size_t i = (turn + step) % kinds.size();
        const Row row{prompt_[step % prompt_.size()], runs[i].sequence,
                      static_cast<uint32_t>(prompt_.size() + step), true};
        const auto since = Clock::now();
        if (const auto done = stepper_.step({&row, 1}, [](auto...) {}); !done.ok())
          fail(done.error());
        kinds[i].seconds.push_back(std::chrono::duration<double>(Clock::now() - since).count());
      }
    }
    for (const Run& run : runs) stepper_.close(run.sequence);
    print("step", kinds, 1);
  }

 private:
  struct Run {
    SequenceId sequence;
    std::unique_ptr<SequenceTrace> taps;
  };

  // The whole prompt, with a trace that is compiled and given its memory here.
  Run start(const Kind& kind, size_t rows) {
    Run run;
    run.sequence =
        stepper_.open({.prompt_tokens = static_cast<uint32_t>(prompt_.size()), .images = {}});
    if (!kind.reads.empty() || !kind.edits.empty()) {
      std::vector<Read> reads;
      for (const char* path : kind.reads) {
        auto parsed = parse_read(path, model_);
        if (!parsed.ok()) fail(parsed.error());
        reads.insert(reads.end(), parsed->begin(), parsed->end());
      }
      auto taps = SequenceTrace::compile(
          {.reads = reads,
           .edits = &kind.edits,
           .prompt = prompt_,
           .rows = rows,
           .step_rows = stepper_.options().step_rows,
           .max_bytes = uint64_t{8} << 30},
          {&model_.impl().spec, &model_.impl().weights, &stepper_.rope(), stepper_.options().kv});
      if (!taps.ok()) fail(taps.error());
      if (const auto room = taps->allocate(); !room.ok()) fail(room.error());
      run.taps = std::make_unique<SequenceTrace>(std::move(*taps));
      stepper_.attach(run.sequence, run.taps.get());
    }
    std::vector<Row> step;
    for (uint32_t i = 0; i < prompt_.size(); ++i)
      step.push_back({prompt_[i], run.sequence, i, i + 1 == prompt_.size()});
    if (const auto done = stepper_.step(step, [](auto...) {}); !done.ok()) fail(done.error());
    return run;
  }

  static void print(const char* what, std::vector<Kind>& kinds, double tokens) {
    const auto median = [](std::vector<double>& seconds) {
      std::sort(seconds.begin(), seconds.end());
      return seconds[seconds.size() / 2];
    };
    const double untraced = median(kinds.front().seconds);
    for (Kind& kind : kinds) {
      const double seconds = median(kind.seconds);
      std::printf("%-7s %-38s %9.3f ms  %9.1f tokens/s  %+6.2f %%\n", what, kind.name,
                  1e3 * seconds, tokens / seconds, 100 * (seconds / untraced - 1));
    }
  }

  const Model& model_;
  uint32_t steps_;
  ThreadPool threads_;
  Stepper stepper_;
  std::vector<TokenId> prompt_;
};

int run(const std::string& name, uint32_t prompt, uint32_t steps) {
  const auto model = open(name);
  Edits steering;
  steering += kValues.layers.all().layer_output +=
      std::vector<float>(model->info().hidden_size, 1e-3F);
  Edits silenced;
  silenced += kValues.layers.all().self_attn.attention_probabilities.head(0) = 0.0F;
  Edits silenced_once;
  silenced_once += kValues.layers[1].self_attn.attention_probabilities.head(0) = 0.0F;
#ifdef PHIDIAS_WITHOUT_TAPS
  const std::vector<Kind> common = {{"no taps compiled in", {}, {}}};
#else
  const std::vector<Kind> common = {
      {"untraced", {}, {}},
      {"untraced, again", {}, {}},
      {"a vector added to every layer", {}, steering},
      {"streams of all layers, read", {"layers[*].layer_output"}, {}},
      {"15 values of one layer, read",
       {"layers[1].layer_input", "layers[1].attention_norm_output", "layers[1].attention_queries",
        "layers[1].attention_keys", "layers[1].attention_values",
        "layers[1].attention_head_outputs", "layers[1].attention_premix",
        "layers[1].attention_output", "layers[1].layer_mid", "layers[1].mlp_norm_output",
        "layers[1].mlp_input", "layers[1].mlp_activation", "layers[1].mlp_neurons",
        "layers[1].mlp_output", "layers[1].layer_output"},
       {}},
      {"pattern of one layer, read", {"layers[1].attention_probabilities"}, {}},
      {"patterns of all layers, read", {"layers[*].attention_probabilities"}, {}},
      {"pattern of one layer, edited", {}, silenced_once},
      {"patterns of all layers, edited", {}, silenced},
  };
#endif
  Bench bench(*model, prompt, steps);
  bench.steps(common);
  bench.prompts(common, 5);
  return 0;
}

}  // namespace
}  // namespace phidias

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: tracing_bench MODEL | SHAPE:LAYERS [prompt] [steps]\n");
    return 2;
  }
  const auto number = [&](int i, int otherwise) {
    return static_cast<uint32_t>(argc > i ? std::max(1, std::atoi(argv[i])) : otherwise);
  };
  return phidias::run(argv[1], number(2, 256), number(3, 64));
}
