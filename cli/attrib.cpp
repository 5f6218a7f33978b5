// phidias attrib: how much each value matters to a metric, estimated from gradients; or, exactly,
// what each part adds to a logit.
#include <algorithm>

#include "commands.h"
#include "layer_table.h"
#include "metric_option.h"
#include "phidias/attribution.h"
#include "phidias/lens.h"
#include "phidias/patching.h"
#include "phidias/tensors.h"
#include "run_options.h"
#include "sweep_columns.h"
#include "text_pair.h"

namespace phidias::cli {
namespace {

struct AttribArguments {
  RunOptions run;
  TextPairArguments texts;
  std::string method = "atp";
  std::string value;
  std::string by;
  bool drop = false;
  uint32_t steps = 16;
  std::string metric;
  std::string html;
  std::string output;
};

Error invalid(std::string message, std::string option) {
  return {Code::kInvalidArgument, std::move(message), {{}, {}, std::move(option)}};
}

size_t axis_named(Layout layout, std::string_view a, std::string_view b) {
  const auto axes = axes_of(layout);
  return static_cast<size_t>(
      std::find_if(axes.begin(), axes.end(),
                   [&](std::string_view axis) { return axis == a || axis == b; }) -
      axes.begin());
}

// Sums over all axes but one.
std::vector<double> sums_along(const Tensor& tensor, size_t axis) {
  std::vector<double> sums(tensor.shape[axis]);
  uint64_t inner = 1;
  for (size_t a = axis + 1; a < tensor.shape.size(); ++a) inner *= tensor.shape[a];
  for (size_t i = 0; i < tensor.floats.size(); ++i)
    sums[i / inner % sums.size()] += static_cast<double>(tensor.floats[i]);
  return sums;
}

Result<LayerTable> table_of(const Attribution& attribution, ValueId value, SweepAxis by,
                            const std::vector<std::string>& positions) {
  const Layout layout = info_of(value).layout;
  LayerTable table;
  table.layers = attribution.entries.size();
  for (const Traced::Entry& entry : attribution.entries) {
    const size_t axis = by == SweepAxis::kHeads ? axis_named(layout, "num_heads", "num_kv_heads")
                                                : axis_named(layout, "seq", "query");
    if (by == SweepAxis::kHeads && axis >= entry.tensor.shape.size())
      return invalid("the value has no heads; take positions or layers", "--by");
    std::vector<double> sums = sums_along(entry.tensor, axis);
    if (by == SweepAxis::kLayers) {
      double all = 0;
      for (const double sum : sums) all += sum;
      sums = {all};
    }
    table.values.insert(table.values.end(), sums.begin(), sums.end());
    table.columns = sweep_columns(by, sums.size(), positions);
  }
  return table;
}

Status save(const Attribution& attribution, const std::string& path) {
  if (path.empty()) return {};
  std::vector<NamedTensor> tensors;
  for (const Traced::Entry& entry : attribution.entries) {
    tensors.push_back(
        {entry.name, entry.tensor.type, entry.tensor.shape, entry.tensor.floats.data()});
  }
  return save_tensors(path, tensors);
}

Result<int> by_gradients(const AttribArguments& arguments, Engine& engine) {
  const auto tokenizer = engine.model().tokenizer();
  AttributionOptions options;
  options.method = arguments.method == "atp"    ? AttributionMethod::kPatching
                   : arguments.method == "atp*" ? AttributionMethod::kStar
                                                : AttributionMethod::kIntegrated;
  options.drop = arguments.drop;
  options.steps = arguments.steps;
  if (!arguments.texts.has_corrupt())
    return invalid("values of two texts are compared; give the other one", "--corrupt");
  auto texts = arguments.texts.read(tokenizer.get());
  if (!texts.ok()) return std::move(texts).error();
  auto metric = read_metric(arguments.metric, engine.model());
  if (!metric.ok()) return std::move(metric).error();
  const std::string path = arguments.value.empty() ? "layers[*].layer_output"
                           : arguments.value.find('.') == std::string::npos &&
                                   arguments.value.find('[') == std::string::npos
                               ? "layers[*]." + arguments.value
                               : arguments.value;
  auto value = parse_value(path);
  if (!value.ok()) return std::move(value).error();
  const bool heads = std::ranges::any_of(axes_of(info_of(value->id).layout), [](auto axis) {
    return axis == "num_heads" || axis == "num_kv_heads";
  });
  auto by = sweep_axis_from_name(!arguments.by.empty() ? arguments.by
                                 : heads               ? "heads"
                                                       : "positions");
  if (!by.ok()) return std::move(by).error();
  const auto policy = arguments.run.rope_policy();
  if (!policy.ok()) return policy.error();
  options.rope_switch = *policy;
  const auto attribution =
      attribute(engine, texts->clean, texts->corrupt, *metric, std::span(&*value, 1), options);
  if (!attribution.ok()) return attribution.error();
  auto table = table_of(*attribution, value->id, *by,
                        token_labels(tokenizer.get(), texts->clean, texts->corrupt));
  if (!table.ok()) return std::move(table).error();
  char note[160];
  std::snprintf(note, sizeof note,
                "metric: clean %.4f, corrupt %.4f; estimated change when the clean value is put in",
                attribution->clean, attribution->corrupt);
  table->note = note;
  table->title = "Attribution (" + arguments.method + ") to " + value->to_string();
  const Status saved = save(*attribution, arguments.output);
  if (!saved.ok()) return saved.error();
  const Status shown = show(*table, arguments.html);
  if (!shown.ok()) return shown.error();
  return kExitOk;
}

// The tokens of a metric that is a logit, or the difference of two.
struct Logits {
  TokenId token = 0;
  std::optional<TokenId> other;
};
Result<Logits> logits_of(const Metric& metric) {
  Logits logits;
  const auto& terms = metric.terms();
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool plain = terms[i].kind == MetricTerm::Kind::kLogit &&
                       terms[i].at == Positions(kLast) && terms[i].weight == (i == 0 ? 1.0 : -1.0);
    if (!plain || i > 1)
      return invalid("direct attribution is of logit(A) or logit_diff(A,B) at the last position",
                     "--metric");
    if (i == 0) logits.token = terms[i].token;
    if (i == 1) logits.other = terms[i].token;
  }
  return logits;
}

// Layers downwards; the heads, then the MLP across. What comes before the layers is told apart.
Result<int> direct(const AttribArguments& arguments, Engine& engine) {
  if (arguments.texts.has_corrupt())
    return invalid("direct attribution is of one text, the clean one", "--corrupt");
  auto texts = arguments.texts.read(engine.model().tokenizer().get());
  if (!texts.ok()) return std::move(texts).error();
  auto metric = read_metric(arguments.metric, engine.model());
  if (!metric.ok()) return std::move(metric).error();
  const auto logits = logits_of(*metric);
  if (!logits.ok()) return logits.error();
  const auto parts = direct_attribution(engine, texts->clean, logits->token, logits->other);
  if (!parts.ok()) return parts.error();
  LayerTable table;
  table.layers = engine.model().info().num_layers;
  const size_t heads = engine.model().info().num_heads;
  for (size_t h = 0; h < heads; ++h) table.columns.push_back("head " + std::to_string(h));
  table.columns.emplace_back("mlp");
  const auto is_bias = [](const DirectAttribution::Part& part) {
    return part.name.starts_with("layers.") && part.name.ends_with(".bias");
  };
  if (std::any_of(parts->parts.begin(), parts->parts.end(), is_bias))
    table.columns.emplace_back("bias");
  const size_t columns = table.columns.size();
  table.values.resize(table.layers * columns);
  double outside = 0;
  std::vector<size_t> seen(table.layers);
  for (const DirectAttribution::Part& part : parts->parts) {
    size_t layer = 0;
    if (std::sscanf(part.name.c_str(), "layers.%zu.", &layer) != 1) {
      outside += part.value;
      continue;
    }
    const bool mlp = part.name.ends_with("mlp_output");
    const size_t column = is_bias(part) ? heads + 1 : mlp ? heads : seen[layer]++;
    table.values[layer * columns + column] = part.value;
  }
  char note[160];
  std::snprintf(
      note, sizeof note,
      "what each part adds to the metric %.4f, the final norm frozen; outside the layers %+.4f, "
      "sum of all %.4f",
      parts->logit, outside, parts->total);
  table.note = note;
  table.title = "Direct attribution";
  const Status shown = show(table, arguments.html);
  if (!shown.ok()) return shown.error();
  return kExitOk;
}

Result<int> run(const AttribArguments& arguments) {
  auto engine = arguments.run.start();
  if (!engine.ok()) return std::move(engine).error();
  return arguments.method == "direct" ? direct(arguments, **engine)
                                      : by_gradients(arguments, **engine);
}

}  // namespace

std::function<Result<int>()> setup_attrib(CommandOptions& command) {
  auto arguments = std::make_shared<AttribArguments>();
  arguments->run.declare(command);
  arguments->texts.declare(command);
  command
      .add_option("--method", arguments->method,
                  "atp: attribution patching; atp*: exact through the softmax of queries and keys; "
                  "ig: integrated gradients; direct: what each part adds to a logit of --clean")
      .one_of({"atp", "atp*", "ig", "direct"})
      .show_default();
  command.add_option("--value", arguments->value,
                     "What is attributed to: layer_output, attention_head_outputs, "
                     "layers[3].attention_queries, ...; default layer_output");
  command.add_option(
      "--by", arguments->by,
      "The table's columns: heads, positions, or layers for one; default heads where "
      "the value has them");
  command.add_flag("--drop", arguments->drop,
                   "AtP*'s GradDrop: one backward pass a layer, so that effects that cancel show");
  command.add_option("--steps", arguments->steps, "Points of ig").show_default();
  declare_metric(command, arguments->metric).required();
  command.add_option("--html", arguments->html, "Write one self-contained page in place of text");
  command.add_option("-o,--output", arguments->output,
                     "A safetensors file of every entry's attribution");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
