// phidias inspect.
#include <nlohmann/json.hpp>

#include "commands.h"
#include "output.h"
#include "phidias/inspect.h"
#include "run_options.h"

namespace phidias::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectArguments {
  ModelOption model;
  uint32_t context = 0;
  bool json = false;
};

Json sparse_attention(const ModelInfo& info) {
  if (info.sparse_block == 0) return {};
  return {{"block", info.sparse_block},
          {"local_blocks", info.sparse_local_blocks},
          {"stride", info.sparse_stride},
          {"layers", info.sparse_layers}};
}

Json to_json(const VisionInfo& vision) {
  return {{"num_layers", vision.num_layers},
          {"hidden_size", vision.hidden_size},
          {"intermediate_size", vision.intermediate_size},
          {"num_heads", vision.num_heads},
          {"tile_size", vision.tile_size},
          {"patch_size", vision.patch_size},
          {"crops", vision.crops},
          {"max_tokens", vision.max_tokens}};
}

Json to_json(const Inspection& inspection) {
  const ModelInfo& info = inspection.info;
  Json json = {{"type", info.type},
               {"path", info.path},
               {"num_layers", info.num_layers},
               {"hidden_size", info.hidden_size},
               {"num_heads", info.num_heads},
               {"num_kv_heads", info.num_kv_heads},
               {"head_dim", info.head_dim},
               {"qk_head_dim", info.qk_head_dim},
               {"vocab_size", info.vocab_size},
               {"intermediate_size", info.intermediate_size},
               {"max_context", info.max_context},
               {"original_context", info.original_context},
               {"sliding_window", info.window == 0 ? Json() : Json(info.window)},
               {"sparse_attention", sparse_attention(info)},
               {"experts", info.experts},
               {"experts_per_token", info.experts_per_token},
               {"rotary_dim", info.rotary_dim},
               {"rope_theta", info.rope_theta},
               {"rope_magnitude", info.rope_magnitude},
               {"rope_factors_digest",
                info.rope_factors_digest.empty() ? Json() : Json(info.rope_factors_digest)},
               {"tied_head", info.tied_head},
               {"vision", info.vision ? to_json(*info.vision) : Json()},
               {"parameters", info.parameters},
               {"tensors", info.tensors},
               {"weight_bytes", info.weight_bytes},
               {"bytes_per_token", info.bytes_per_token},
               {"kv_bytes_per_position", Json::object()},
               {"files", info.files},
               {"stop_ids", info.stop_ids},
               {"tokenizer", inspection.tokenizer},
               {"chat_template", inspection.chat_template},
               {"notices", info.notices},
               {"problems", inspection.problems}};
  for (const auto& [type, bytes] : inspection.kv_bytes_per_position)
    json["kv_bytes_per_position"][type] = bytes;
  Json types = Json::object();
  for (const auto& [type, bytes] : info.weight_types) types[type] = bytes;
  json["weight_types"] = types;
  json["config"] =
      inspection.config_json.empty() ? Json() : Json::parse(inspection.config_json, nullptr, false);
  return json;
}

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string gibibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::string to_text(const Inspection& inspection, uint32_t context) {
  const ModelInfo& info = inspection.info;
  std::string text;
  auto line = [&text](const std::string& name, const std::string& value) {
    text += name + std::string(18 - std::min<size_t>(name.size(), 17), ' ') + value + "\n";
  };
  line("model type", info.type);
  line("layers", std::to_string(info.num_layers) + ", width " + std::to_string(info.hidden_size) +
                     ", feed-forward " + std::to_string(info.intermediate_size));
  line("heads", std::to_string(info.num_heads) + " x " + std::to_string(info.head_dim) +
                    ", sharing " + std::to_string(info.num_kv_heads) + " key-value heads");
  line("vocabulary", std::to_string(info.vocab_size) + " rows" +
                         (info.tied_head ? ", head tied to the embedding" : ""));
  line("context",
       std::to_string(info.max_context) +
           (info.window > 0 ? ", each position sees the last " + std::to_string(info.window) : ""));
  if (info.sparse_block > 0) {
    line("sparse attention", std::to_string(info.sparse_layers) + " layers: blocks of " +
                                 std::to_string(info.sparse_block) + ", the last " +
                                 std::to_string(info.sparse_local_blocks) + " and one of " +
                                 std::to_string(info.sparse_stride) + " before");
  }
  if (info.experts > 0) {
    line("experts", std::to_string(info.experts) + " a layer, " +
                        std::to_string(info.experts_per_token) + " for each position");
  }
  char rope[160];
  std::snprintf(rope, sizeof rope, "theta %g, %u of %u dimensions", info.rope_theta,
                info.rotary_dim, info.head_dim);
  line("rotation", rope);
  if (info.original_context > 0) {
    std::snprintf(rope, sizeof rope, "original context %u, magnitude %.7g, factors %.12s",
                  info.original_context, info.rope_magnitude, info.rope_factors_digest.c_str());
    line("LongRoPE", rope);
  }
  if (const auto& vision = info.vision) {
    line("vision tower", std::to_string(vision->num_layers) + " layers, width " +
                             std::to_string(vision->hidden_size) + ", feed-forward " +
                             std::to_string(vision->intermediate_size) + ", " +
                             std::to_string(vision->num_heads) + " heads");
    line("images", "at most " + std::to_string(vision->crops) + " tiles of " +
                       std::to_string(vision->tile_size) + " pixels in patches of " +
                       std::to_string(vision->patch_size) + ", " +
                       std::to_string(vision->max_tokens) + " tokens");
  }
  if (info.weight_bytes > 0) {
    line("parameters",
         grouped(info.parameters) + " in " + std::to_string(info.tensors) + " tensors");
    std::string types;
    for (const auto& [type, bytes] : info.weight_types)
      types += (types.empty() ? "" : ", ") + type + " " + grouped(bytes);
    line("weights", grouped(info.weight_bytes) + " bytes (" + types + ")");
    line("read per token", grouped(info.bytes_per_token) + " bytes of weights");
  } else if (info.tensors == 0) {
    line("weights", "none in this folder");
  }
  const uint32_t positions = context > 0 ? context : info.max_context;
  for (const auto& [type, bytes] : inspection.kv_bytes_per_position) {
    line("cache, " + type, grouped(bytes) + " bytes a position, " + gibibytes(bytes * positions) +
                               " at " + std::to_string(positions));
  }
  line("tokenizer", inspection.tokenizer);
  line("chat template", inspection.chat_template);
  std::string stops;
  for (size_t i = 0; i < info.stop_ids.size(); ++i) {
    stops += (i > 0 ? ", " : "") + std::to_string(info.stop_ids[i]);
    if (i < inspection.stop_texts.size() && !inspection.stop_texts[i].empty())
      stops += " " + inspection.stop_texts[i];
  }
  line("stop ids", stops.empty() ? "none" : stops);
  for (const std::string& file : info.files) line("file", file);
  for (const std::string& notice : info.notices) line("note", notice);
  for (const std::string& problem : inspection.problems) line("PROBLEM", problem);
  if (inspection.problems.empty() && info.weight_bytes > 0)
    line("checked", "every tensor's name, shape, type and place");
  return text;
}

Result<int> run(const InspectArguments& arguments) {
  auto path = arguments.model.find();
  if (!path.ok()) return std::move(path).error();
  auto inspection = inspect(*path);
  if (!inspection.ok()) return std::move(inspection).error();
  print(arguments.json
            ? to_json(*inspection).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
            : to_text(*inspection, arguments.context));
  if (inspection->problems.empty()) return kExitOk;
  return Error{Code::kCorrupt,
               "the checkpoint has " + std::to_string(inspection->problems.size()) +
                   " problem(s), listed above",
               {path->string(), {}, {}}};
}

}  // namespace

std::function<Result<int>()> setup_inspect(CommandOptions& command) {
  auto arguments = std::make_shared<InspectArguments>();
  arguments->model.declare(command);
  command.add_option("--ctx", arguments->context,
                     "State the cache's size at so many positions; default: what the model states");
  command.add_flag("--json", arguments->json, "Everything as one JSON object");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
