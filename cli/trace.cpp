// phidias trace: named values of one run, to a safetensors file.
#include "phidias/trace.h"

#include "commands.h"
#include "edit_option.h"
#include "images.h"
#include "input_options.h"
#include "interrupt.h"
#include "metric_option.h"
#include "phidias/runs.h"
#include "phidias/tensors.h"
#include "run_options.h"

namespace phidias::cli {
namespace {

struct TraceArguments {
  RunOptions run;
  InputOptions input;
  ImageArguments images;
  uint32_t generate = 0;
  uint32_t chunk = 0;
  std::vector<std::string> reads;
  std::vector<std::string> gradients;
  std::string metric;
  std::vector<std::string> edits;
  uint64_t max_mib = 8192;
  bool plan = false;
  std::string runs;
  std::string output;
  Option output_option;
};

Error in_option(Error error, const char* option) {
  if (error.place.item.empty()) error.place.item = option;
  return error;
}

// Several reads of one value under one name are an error, unless they ask for the same.
Result<std::vector<Read>> reads_of(const TraceArguments& arguments, const Model& model) {
  std::vector<Read> reads;
  for (const std::string& path : arguments.reads) {
    auto parsed = parse_read(path, model);
    if (!parsed.ok()) return in_option(std::move(parsed).error(), "--read");
    for (Read& read : *parsed) reads.push_back(std::move(read));
  }
  for (const std::string& path : arguments.gradients) {
    auto parsed = parse_gradient(path, model);
    if (!parsed.ok()) return in_option(std::move(parsed).error(), "--grad");
    for (Read& read : *parsed) reads.push_back(std::move(read));
  }
  return reads;
}

Result<Metric> metric_of(const TraceArguments& arguments, const Model& model) {
  if (arguments.gradients.empty()) return Metric();
  if (arguments.metric.empty()) {
    return Error{
        Code::kInvalidArgument,
        "gradients need a metric; give --metric, such as 'logit_diff(11,22)' or a file of JSON",
        {{}, {}, "--grad"}};
  }
  return read_metric(arguments.metric, model);
}

void print_plan(const TracePlan& plan) {
  for (const TracePlan::Entry& entry : plan.entries) {
    std::string shape;
    for (const uint64_t extent : entry.shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    std::printf("%s [%s] %llu bytes\n", entry.name.c_str(), shape.c_str(),
                static_cast<unsigned long long>(entry.bytes));
  }
  std::printf("%llu bytes in all", static_cast<unsigned long long>(plan.bytes));
  std::printf("; layers whose attention leaves the fast path: %zu\n", plan.explicit_layers.size());
}

// What a run or an image's encoding was asked for, and what came of it.
struct Part {
  std::vector<Read> reads;
  Edits edits;
  std::vector<size_t> edit_numbers;  // in the list that was given
  std::string prefix = {};           // of the tensors' names: of an image's, of a run's
  Traced traced = {};
};

// Values of images are computed before the run.
std::pair<Part, Part> image_and_run(const std::vector<Read>& reads, const Edits& edits) {
  Part image, run;
  for (const Read& read : reads)
    (of_images(info_of(read.value.id).module) ? image : run).reads.push_back(read);
  for (size_t i = 0; i < edits.size(); ++i) {
    Part& part = of_images(info_of(edits[i].value.id).module) ? image : run;
    part.edits += edits[i];
    part.edit_numbers.push_back(i + 1);
  }
  return {std::move(image), std::move(run)};
}

void warn(const Part& part) {
  for (size_t i = 0; i < part.edits.size(); ++i) {
    if (part.traced.edits[i].rows > 0) continue;
    std::fprintf(stderr, "warning: %sedit %zu touched no position\n", part.prefix.c_str(),
                 part.edit_numbers[i]);
  }
  if (part.traced.all_hidden > 0) {
    std::fprintf(stderr, "note: edits hid every key from %zu queries; their probabilities are 0\n",
                 part.traced.all_hidden);
  }
}

Status save(const std::vector<Part>& parts, const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (const Part& part : parts) {
    std::vector<std::pair<std::string, size_t>> taken;  // names, and the reads they came from
    for (const Traced::Entry& entry : part.traced.entries) {
      bool again = false;
      for (const auto& [name, read] : taken) {
        if (name != entry.name) continue;
        again = true;
        if (part.reads[read].value.selection != part.reads[entry.read].value.selection) {
          return Error{Code::kInvalidArgument,
                       "is read twice, with different selections",
                       {{}, {}, entry.name}};
        }
      }
      if (again) continue;
      taken.emplace_back(entry.name, entry.read);
      tensors.push_back(
          {part.prefix + entry.name, entry.tensor.type, entry.tensor.shape, entry.tensor.data()});
    }
  }
  std::vector<std::vector<int64_t>> tokens;
  for (const Part& part : parts) {
    if (part.traced.tokens.empty()) continue;
    tokens.emplace_back(part.traced.tokens.begin(), part.traced.tokens.end());
    tensors.push_back(
        {part.prefix + "tokens", TensorType::kI64, {tokens.back().size()}, tokens.back().data()});
  }
  return save_tensors(path, tensors);
}

// Encodes the images; a part for each that is looked into, whose names have the image's number in
// front where there are several.
Result<std::vector<ImageHandle>> encode(const ImageArguments& arguments, Engine& engine,
                                        const Part& image, std::vector<Part>& parts) {
  if (image.reads.empty() && image.edits.empty()) return arguments.encode(engine);
  if (arguments.files.empty()) {
    return Error{Code::kInvalidArgument,
                 "is of an image; show one with --image",
                 {{},
                  {},
                  image.reads.empty() ? image.edits[0].value.to_string()
                                      : image.reads.front().value.to_string()}};
  }
  auto traced = arguments.trace(engine, image.reads, image.edits);
  if (!traced.ok()) return std::move(traced).error();
  std::vector<ImageHandle> images;
  for (ImageTraced& one : *traced) {
    images.push_back(std::move(one.image));
    parts.push_back(image);
    if (traced->size() > 1) parts.back().prefix = "images." + std::to_string(images.size()) + ".";
    parts.back().traced = std::move(one.traced);
  }
  return images;
}

// A document of runs: a part for each, whose names have the run's in front.
Result<int> trace_document(const TraceArguments& arguments, Engine& engine) {
  if (arguments.input.given() || !arguments.reads.empty() || !arguments.gradients.empty() ||
      !arguments.edits.empty() || !arguments.images.files.empty() || arguments.plan) {
    return Error{Code::kInvalidArgument,
                 "is a whole document: texts, reads and edits of its runs stand in it",
                 {{}, {}, "--runs"}};
  }
  auto text = read_input(arguments.runs);
  if (!text.ok()) return std::move(text).error();
  auto runs = runs_from_json(*text, engine.model(), TensorFiles::kAllowed, arguments.runs);
  if (!runs.ok()) return std::move(runs).error();
  const auto policy = arguments.run.rope_policy();
  if (!policy.ok()) return policy.error();
  for (NamedRun& run : *runs) {
    run.options.rope_switch = *policy;
    run.options.max_bytes = arguments.max_mib << 20;
  }
  auto traced = trace_runs(engine, *runs);
  if (!traced.ok()) return std::move(traced).error();
  std::vector<Part> parts;
  for (size_t i = 0; i < runs->size(); ++i) {
    NamedRun& run = (*runs)[i];
    Part& part = parts.emplace_back();
    part.reads = std::move(run.reads);
    part.edits = std::move(run.edits);
    for (size_t e = 0; e < part.edits.size(); ++e) part.edit_numbers.push_back(e + 1);
    part.prefix = run.name + ".";
    part.traced = std::move((*traced)[i]);
    warn(part);
  }
  const Status saved = save(parts, arguments.output);
  if (!saved.ok()) return saved.error();
  return kExitOk;
}

Result<int> trace(const TraceArguments& arguments) {
  if (!arguments.output_option.given() && !arguments.plan)
    std::fputs("note: the values are written nowhere; -o FILE keeps them\n", stderr);
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  const Model& model = (*engine)->model();
  install_interrupt_handler();
  if (!arguments.runs.empty()) return trace_document(arguments, **engine);
  auto reads = reads_of(arguments, model);
  if (!reads.ok()) return std::move(reads).error();
  auto edits = read_edits(arguments.edits);
  if (!edits.ok()) return std::move(edits).error();
  auto [image, run_part] = image_and_run(*reads, *edits);
  std::vector<Part> parts;
  auto images = encode(arguments.images, **engine, image, parts);
  if (!images.ok()) {
    if (images.error().code == Code::kCancelled) return kExitInterrupted;
    return std::move(images).error();
  }
  auto ids = arguments.input.read_ids(model.tokenizer().get(), *images);
  if (!ids.ok()) return std::move(ids).error();
  auto metric = metric_of(arguments, model);
  if (!metric.ok()) return std::move(metric).error();
  auto policy = arguments.run.rope_policy();
  if (!policy.ok()) return std::move(policy).error();

  TraceOptions options;
  options.generate = arguments.generate;
  options.chunk = arguments.chunk;
  options.rope_switch = *policy;
  options.images = std::move(*images);
  options.max_bytes = arguments.max_mib << 20;
  Trace run(**engine, std::move(*ids), std::move(options));
  for (const Read& read : run_part.reads) run.read(read);
  run.edit(run_part.edits);
  run.metric(*metric);
  if (arguments.plan) {
    const auto plan = run.plan();
    if (!plan.ok()) return plan.error();
    print_plan(*plan);
    return kExitOk;
  }
  auto traced = run.run();
  if (!traced.ok()) return std::move(traced).error();
  run_part.traced = std::move(*traced);
  parts.push_back(std::move(run_part));
  for (const Part& part : parts) warn(part);
  const Status saved = save(parts, arguments.output);
  if (!saved.ok()) return saved.error();
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_trace(CommandOptions& command) {
  auto arguments = std::make_shared<TraceArguments>();
  arguments->run.declare(command);
  arguments->input.declare(command);
  arguments->images.declare(command);
  declare_steps(command, arguments->generate, arguments->chunk);
  command
      .add_option("--read", arguments->reads,
                  "A value, such as logits, layers[*].layer_output or "
                  "'layers[3].attention_probabilities[head=7, at=last]'; all: every standard one. "
                  "Repeatable; `phidias support` lists them")
      .one_at_a_time();
  command
      .add_option("--grad", arguments->gradients,
                  "A value whose gradient of the metric is written as grad.<value>; all: of every "
                  "value that has one. Repeatable")
      .one_at_a_time();
  declare_metric(command, arguments->metric);
  declare_edits(command, arguments->edits);
  command.add_option(
      "--runs", arguments->runs,
      "In place of a text, reads and edits: a JSON document of several runs, of which "
      "edits may take each other's values; names in the file have the run's in front");
  command.add_option("--max-mib", arguments->max_mib, "Refuse reads that take more memory")
      .show_default()
      .in_range(uint64_t{1}, uint64_t{1} << 30);
  command.add_flag("--plan", arguments->plan, "Say what would be kept, and run nothing");
  arguments->output_option =
      command.add_option("-o,--output", arguments->output, "The safetensors file to write")
          .default_value("/dev/null");
  return [arguments] { return trace(*arguments); };
}

}  // namespace phidias::cli
