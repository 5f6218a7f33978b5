// phidias bench: speed, beside what the machine can do.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "interrupt.h"
#include "output.h"
#include "phidias/bench.h"
#include "run_options.h"
#include "start_time.h"
#include "terminal/progress_bar.h"
#include "terminal/table.h"

namespace phidias::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchArguments {
  ModelOption model;
  std::string what;  // "kernels", "machine" or empty
  RandomModelOptions random;
  Option shape_option;
  Option weights_option;
  std::string numerics = "fast";
  std::string save;
  std::string output;
  BenchOptions options;
  bool no_load = false;
  bool no_exact = false;
  bool json = false;
};

// A file that goes away with this.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

 private:
  std::filesystem::path path_;
};

// Writes weights that have no file to one, to start from. Empty where there is no room, or where
// GGUF has no layout for them.
Result<std::string> saved_for_starts(const Model& model, const RandomModelOptions& options) {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  const auto space = std::filesystem::space(folder, error);
  const uint64_t needed = model.info().weight_bytes + (64U << 20);
  if (error || space.available < needed) {
    std::fprintf(stderr,
                 "phidias bench: starting from a file is left out: %s has no room for %.1f GB\n",
                 folder.c_str(), static_cast<double>(needed) / 1e9);
    return std::string();
  }
  const auto file = folder / ("phidias-bench-" + std::to_string(::getpid()) + ".gguf");
  const Status saved = save_random_model(options, file);
  if (saved.ok()) return file.string();
  if (saved.error().code != Code::kUnsupported) return saved.error();
  std::fputs("phidias bench: starting from a file is left out: no file of this shape is written\n",
             stderr);
  return std::string();
}

BenchRow start_row(const char* metric, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  BenchRow row;
  row.metric = metric;
  row.prompt = row.new_tokens = 1;
  row.median = seconds[seconds.size() / 2];
  row.min = seconds.front();
  row.max = seconds.back();
  return row;
}

Status add_starts(const std::string& path, const std::vector<std::string>& files,
                  const BenchArguments& arguments, BenchReport& report) {
  auto times =
      measure_starts(path, files, arguments.random.weights, arguments.options.engine.threads);
  if (!times.ok()) return std::move(times).error();
  std::vector<BenchRow> rows;
  if (times->cold.empty()) {
    std::fputs("phidias bench: load_cold_s is left out: the system keeps the file in memory\n",
               stderr);
  } else {
    rows.push_back(start_row("load_cold_s", times->cold));
  }
  rows.push_back(start_row("load_warm_s", times->warm));
  report.rows.insert(report.rows.begin(), rows.begin(), rows.end());
  return {};
}

Json to_json(const MachineReading& before, const MachineReading& after, const std::string& cpu,
             const std::string& isa, size_t threads) {
  return {
      {"cpu", cpu},
      {"isa", isa},
      {"threads", threads},
      {"read_bandwidth_bytes_s", {{"before", before.read_bytes_s}, {"after", after.read_bytes_s}}},
      {"read_pattern", {{"before", before.read_pattern}, {"after", after.read_pattern}}},
      {"int8_ops_s", std::max(before.integer_ops_s, after.integer_ops_s)},
      {"int8_instructions", before.integer_instructions},
      {"fma_flops", std::max(before.float_ops_s, after.float_ops_s)},
      {"fma_instructions", before.float_instructions}};
}

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string percent(double share) { return share > 0 ? number("%.0f %%", 100 * share) : ""; }

std::string machine_text(const MachineReading& before, const MachineReading& after,
                         const std::string& cpu, const std::string& isa, size_t threads) {
  return cpu + ", " + isa + ", " + std::to_string(threads) + " threads\n" + "memory reads " +
         number("%.1f", before.read_bytes_s / 1e9) + " GB/s before (" + before.read_pattern +
         "), " + number("%.1f", after.read_bytes_s / 1e9) + " after (" + after.read_pattern +
         "); " + number("%.0f", std::max(before.integer_ops_s, after.integer_ops_s) / 1e9) +
         " GOP/s (" + before.integer_instructions + "); " +
         number("%.0f", std::max(before.float_ops_s, after.float_ops_s) / 1e9) + " GFLOP/s (" +
         before.float_instructions + ")\n";
}

const char* format_of(const std::string& metric) {
  if (metric.ends_with("_bytes")) return "%.0f";
  return metric.ends_with("_tok_s") || metric.starts_with("load_") ? "%.2f" : "%.4f";
}

Status put(const BenchArguments& arguments, const std::string& text) {
  if (arguments.output.empty()) {
    print(text);
    return {};
  }
  std::ofstream file(arguments.output, std::ios::binary);
  file << text;
  file.close();
  if (file) return {};
  return Error{Code::kIo, "cannot be written", {arguments.output, {}, {}}};
}

// The machine's limits alone, for scripts that run other programs beside this one.
Result<int> run_machine(const BenchArguments& arguments) {
  const MachineReading reading =
      read_machine(arguments.options.engine.threads, arguments.options.engine.isa);
  const Json json = {{"read_bandwidth_bytes_s", reading.read_bytes_s},
                     {"read_pattern", reading.read_pattern},
                     {"int8_ops_s", reading.integer_ops_s},
                     {"int8_instructions", reading.integer_instructions},
                     {"fma_flops", reading.float_ops_s},
                     {"fma_instructions", reading.float_instructions}};
  const std::string text =
      "memory reads " + number("%.1f", reading.read_bytes_s / 1e9) + " GB/s (" +
      reading.read_pattern + "); " + number("%.0f", reading.integer_ops_s / 1e9) + " GOP/s (" +
      reading.integer_instructions + "); " + number("%.0f", reading.float_ops_s / 1e9) +
      " GFLOP/s (" + reading.float_instructions + ")\n";
  const Status written = put(arguments, arguments.json ? json.dump(2) + "\n" : text);
  if (!written.ok()) return written.error();
  return kExitOk;
}

Result<int> run_kernels(const BenchArguments& arguments) {
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kCount);
  const auto report = bench_kernels(arguments.options.engine,
                                    [&](std::string_view what, uint32_t done, uint32_t total) {
                                      bar.update(what, done, total);
                                      return !interrupted();
                                    });
  bar.finish();
  if (!report.ok()) {
    if (report.error().code == Code::kCancelled) return kExitInterrupted;
    return report.error();
  }
  std::string text;
  if (arguments.json) {
    Json rows = Json::array();
    for (const KernelBenchRow& row : report->rows) {
      rows.push_back({{"kernel", row.kernel},
                      {"format", row.format},
                      {"bytes_s", row.bytes_s},
                      {"ops_s", row.ops_s},
                      {"share_of_bandwidth", row.share_of_bandwidth},
                      {"share_of_peak", row.share_of_peak}});
    }
    text = Json({{"machine", to_json(report->before, report->after, report->cpu, report->isa,
                                     report->threads)},
                 {"rows", rows}})
               .dump(2) +
           "\n";
  } else {
    Table table({{"kernel"},
                 {"type"},
                 {"GB/s", Align::kRight},
                 {"of memory", Align::kRight},
                 {"GOP/s", Align::kRight},
                 {"of peak", Align::kRight}});
    for (const KernelBenchRow& row : report->rows) {
      table.add({row.kernel, row.format, number("%.1f", row.bytes_s / 1e9),
                 percent(row.share_of_bandwidth), number("%.0f", row.ops_s / 1e9),
                 percent(row.share_of_peak)});
    }
    text = machine_text(report->before, report->after, report->cpu, report->isa, report->threads) +
           table.to_string(Style(Terminal::of(1)));
  }
  const Status written = put(arguments, text);
  if (!written.ok()) return written.error();
  return kExitOk;
}

Result<int> show(const BenchArguments& arguments, const BenchReport& report,
                 const std::string& shape, const std::string& weights, uint64_t file_bytes) {
  std::string text;
  if (arguments.json) {
    Json rows = Json::array();
    for (const BenchRow& row : report.rows) {
      rows.push_back({{"metric", row.metric},
                      {"prompt", row.prompt},
                      {"new", row.new_tokens},
                      {"depth", row.depth},
                      {"batch", row.batch},
                      {"median", row.median},
                      {"min", row.min},
                      {"max", row.max},
                      {"limit", row.limit},
                      {"share_of_limit", row.share_of_limit}});
    }
    text = Json({{"machine",
                  to_json(report.before, report.after, report.cpu, report.isa, report.threads)},
                 {"model",
                  {{"shape", shape},
                   {"weights", weights},
                   {"kv", report.kv},
                   {"file_bytes", file_bytes},
                   {"weight_bytes", report.weight_bytes},
                   {"bytes_per_token", report.bytes_per_token},
                   {"cache_bytes_per_position", report.cache_bytes_per_position}}},
                 {"rows", rows}})
               .dump(2) +
           "\n";
  } else {
    Table table({{"metric"},
                 {"prompt", Align::kRight},
                 {"new", Align::kRight},
                 {"depth", Align::kRight},
                 {"batch", Align::kRight},
                 {"median", Align::kRight},
                 {"min", Align::kRight},
                 {"max", Align::kRight},
                 {"limit", Align::kRight},
                 {"of limit", Align::kRight}});
    for (const BenchRow& row : report.rows) {
      const char* format = format_of(row.metric);
      table.add({row.metric, std::to_string(row.prompt), std::to_string(row.new_tokens),
                 std::to_string(row.depth), std::to_string(row.batch), number(format, row.median),
                 number(format, row.min), number(format, row.max),
                 row.limit > 0 ? number(format, row.limit) : "", percent(row.share_of_limit)});
    }
    text = machine_text(report.before, report.after, report.cpu, report.isa, report.threads) +
           shape + ", weights " + weights + ", cache " + report.kv + ": " +
           number("%.3f", static_cast<double>(report.bytes_per_token) / 1e9) +
           " GB of weights read per token\n" + table.to_string(Style(Terminal::of(1)));
  }
  const Status written = put(arguments, text);
  if (!written.ok()) return written.error();
  return kExitOk;
}

Result<int> run(BenchArguments arguments) {
  install_interrupt_handler();
  auto numerics = numerics_from_name(arguments.numerics);
  if (!numerics.ok()) return std::move(numerics).error();
  EngineOptions& engine = arguments.options.engine;
  engine.numerics = *numerics;
  if (arguments.what == "kernels") return run_kernels(arguments);
  if (arguments.what == "machine") return run_machine(arguments);

  std::shared_ptr<const Model> model;
  std::string path;
  std::string shape = arguments.random.shape;
  std::string weights = arguments.random.weights;
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kCount);
  if (arguments.model.name.empty()) {
    arguments.random.threads = engine.threads;
    if (arguments.save.empty()) {
      bar.update("making random weights", 0, 0);
      auto made = random_model(arguments.random);
      if (!made.ok()) return std::move(made).error();
      model = std::move(*made);
    } else {  // it is measured as it lies in the file
      bar.update("writing random weights", 0, 0);
      const Status saved = save_random_model(arguments.random, arguments.save);
      if (!saved.ok()) return saved.error();
      path = arguments.save;
      arguments.random.weights = "file";
    }
  } else {
    auto found = arguments.model.find();
    if (!found.ok()) return std::move(found).error();
    path = found->string();
    shape = found->filename().string();
    if (!arguments.weights_option.given()) arguments.random.weights = weights = "file";
  }
  uint64_t file_bytes = 0;
  if (!path.empty()) {
    auto loaded =
        Model::load(path, {.weights = arguments.random.weights, .threads = engine.threads});
    if (!loaded.ok()) return std::move(loaded).error();
    model = std::move(*loaded);
    for (const std::string& file : model->info().files) {
      std::error_code ignored;
      file_bytes += std::filesystem::file_size(file, ignored);
    }
  }
  uint32_t deepest = arguments.options.prompt_tokens;
  for (const uint32_t depth : arguments.options.depths) deepest = std::max(deepest, depth);
  if (engine.context == 0) {
    engine.context =
        std::min(model->info().max_context, deepest + arguments.options.new_tokens + 1);
  }
  arguments.options.compare_with_exact = !arguments.no_exact;
  arguments.options.progress = [&](std::string_view what, uint32_t done, uint32_t total) {
    bar.update(what, done, total);
    return !interrupted();
  };
  auto report = bench(model, arguments.options);
  if (!report.ok()) {
    bar.finish();
    if (report.error().code == Code::kCancelled) return kExitInterrupted;
    return std::move(report).error();
  }
  if (!arguments.no_load) {
    bar.update("starting from the file", 0, 0);
    std::vector<std::string> files = model->info().files;
    std::string written;
    if (path.empty()) {
      auto saved = saved_for_starts(*model, arguments.random);
      if (!saved.ok()) return std::move(saved).error();
      path = written = *saved;
      files = {path};
      arguments.random.weights = "file";
    }
    const TemporaryFile removed(written);
    model = nullptr;  // nothing may hold its pages
    const Status measured = path.empty() ? Status() : add_starts(path, files, arguments, *report);
    if (!measured.ok()) return measured.error();
  }
  bar.finish();
  return show(arguments, *report, shape, weights, file_bytes);
}

}  // namespace

std::function<Result<int>()> setup_bench(CommandOptions& command) {
  auto arguments = std::make_shared<BenchArguments>();
  BenchOptions& options = arguments->options;
  command
      .add_option("what", arguments->what,
                  "kernels: the kernels alone; machine: its limits alone; default: a whole model")
      .one_of({"kernels", "machine"});
  arguments->model.declare(command, false);
  std::string shapes;
  for (const std::string_view shape : model_shapes())
    shapes += (shapes.empty() ? "" : ", ") + std::string(shape);
  arguments->shape_option =
      command
          .add_option("--shape", arguments->random.shape,
                      "Without -m: a model of this shape with random weights, one of " + shapes)
          .show_default();
  command.add_option("--layers", arguments->random.layers, "So many of the shape's layers");
  arguments->weights_option =
      command
          .add_option("--weights", arguments->random.weights,
                      "Recipe of random weights (see `phidias quantize --list`), or the type to "
                      "convert a file's to")
          .show_default();
  command.add_option("--kv", options.engine.kv, "Type of the cache; default: f16");
  command.add_option("--numerics", arguments->numerics, "exact or fast")
      .one_of({"exact", "fast"})
      .show_default();
  command.add_option("--isa", options.engine.isa, "Kernel table; default: the best of this CPU");
  declare_threads(command, options.engine.threads);
  command.add_option("--ctx", options.engine.context, "Positions; default: what the runs need");
  command.add_option("--prompt", options.prompt_tokens, "Random ids of the prompt").show_default();
  command.add_option("--new", options.new_tokens, "Tokens decoded after it").show_default();
  command
      .add_option(
          "--depth", options.depths,
          "Decode at so many positions of context, which are not run but made up; 0: after the "
          "prompt")
      .separated_by(',');
  command
      .add_option("--batch", options.batches,
                  "Sequences that decode together, each at 128 positions of its own")
      .separated_by(',');
  command
      .add_option("--images", options.image_tiles,
                  "Tiles of an image to encode, beside the whole image; for models that see images")
      .separated_by(',')
      .in_range(1, 256);
  command.add_option("--reps", options.repetitions, "Repetitions").show_default();
  command.add_option("--save", arguments->save,
                     "Write the random weights to this GGUF file and measure that");
  command.add_flag(
      "--no-load", arguments->no_load,
      "Leave out the times of starting from a file (without -m, one that is written for it)");
  command.add_flag("--no-exact", arguments->no_exact,
                   "Leave out the comparison of logits with exact numerics (of " +
                       std::to_string(kComparedPositions) + " positions, since those are slow)");
  command.add_flag("--json", arguments->json, "One JSON object");
  command.add_option("-o,--output", arguments->output, "Write to this file, not standard output");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
