// From the paths by which people name values to handles, and back.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/ascii.h"
#include "base/invalid.h"
#include "base/try.h"
#include "phidias/values.h"

namespace phidias {
namespace {

// Other names of the same places, behind `layers[i].` or at the front. `on_layer` tells which.
struct Alias {
  std::string_view name;
  ValueId id;
};
using enum ValueId;
constexpr Alias kLayerAliases[] = {
    {"input", kLayerInput},
    {"output", kLayerOutput},
    {"input_layernorm.input", kLayerInput},
    {"input_layernorm.output", kAttentionNormOutput},
    {"self_attn.input", kAttentionNormOutput},
    {"self_attn.qkv_proj.input", kAttentionNormOutput},
    {"self_attn.qkv_proj.output", kQkvOutput},
    {"self_attn.o_proj.input", kAttentionPremix},
    {"self_attn.o_proj.output", kAttentionOutput},
    {"self_attn.output", kAttentionOutput},
    {"resid_attn_dropout.output", kAttentionOutput},
    {"post_attention_layernorm.input", kLayerMid},
    {"post_attention_layernorm.output", kMlpNormOutput},
    {"mlp.input", kMlpInput},
    {"mlp.gate_up_proj.input", kMlpInput},
    {"mlp.gate_up_proj.output", kGateUpOutput},
    {"mlp.act_fn.input", kMlpGate},
    {"mlp.act_fn.output", kMlpActivation},
    {"mlp.activation_fn.input", kMlpGate},
    {"mlp.activation_fn.output", kMlpActivation},
    {"mlp.down_proj.input", kMlpNeurons},
    {"mlp.down_proj.output", kMlpOutput},
    {"mlp.output", kMlpOutput},
    {"resid_mlp_dropout.output", kMlpOutput},
};
constexpr Alias kModelAliases[] = {
    {"embed_tokens.output", kTokenEmbeddings},
    {"norm.output", kFinalNormOutput},
    {"lm_head.input", kFinalNormOutput},
    {"lm_head.output", kLmHeadOutput},
    {"output.logits", kLogits},
};
// TransformerLens' hook points, of models whose weights are not folded.
constexpr Alias kHookAliases[] = {
    {"hook_resid_pre", kLayerInput},
    {"ln1.hook_normalized", kAttentionNormOutput},
    {"attn.hook_q", kAttentionQueriesPreRotary},
    {"attn.hook_k", kAttentionKeysPreRotary},
    {"attn.hook_rot_q", kAttentionQueries},
    {"attn.hook_rot_k", kAttentionKeys},
    {"attn.hook_v", kAttentionValues},
    {"attn.hook_attn_scores", kAttentionScores},
    {"attn.hook_pattern", kAttentionProbabilities},
    {"attn.hook_z", kAttentionPremix},
    {"attn.hook_result", kAttentionHeadContributions},
    {"hook_attn_out", kAttentionOutput},
    {"hook_resid_mid", kLayerMid},
    {"ln2.hook_normalized", kMlpNormOutput},
    {"hook_mlp_in", kMlpInput},
    {"mlp.hook_pre", kMlpGate},
    {"mlp.hook_pre_linear", kMlpUp},
    {"mlp.hook_post", kMlpNeurons},
    {"hook_mlp_out", kMlpOutput},
    {"hook_resid_post", kLayerOutput},
};
constexpr Alias kModelHookAliases[] = {{"hook_embed", kTokenEmbeddings},
                                       {"ln_final.hook_normalized", kFinalNormOutput}};

const Alias* find(std::span<const Alias> aliases, std::string_view name) {
  const auto at = std::find_if(aliases.begin(), aliases.end(),
                               [&](const Alias& alias) { return alias.name == name; });
  return at == aliases.end() ? nullptr : &*at;
}

bool consume(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

Result<int32_t> index_from(std::string_view text, std::string_view path) {
  int32_t index = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), index);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size())
    return invalid("\"" + std::string(text) + "\" is no index", path);
  return index;
}

// "3", "-1", "*", "2:5".
Result<LayerRange> layers_from(std::string_view text, std::string_view path) {
  if (text == "*" || text == ":") return LayerRange{false, 0};
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    PHIDIAS_TRY(const int32_t layer, index_from(text, path));
    return LayerRange{true, layer};
  }
  LayerRange range{false, 0};
  if (colon > 0) {
    PHIDIAS_TRY(range.begin, index_from(text.substr(0, colon), path));
  }
  if (colon + 1 < text.size()) {
    PHIDIAS_TRY(range.end, index_from(text.substr(colon + 1), path));
  }
  return range;
}

// Edits that turn one name into another (Levenshtein).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

// Before a value's name; the layer's index goes into the brackets.
std::string_view prefix_of(Module module) {
  switch (module) {
    case Module::kModel:
      return "";
    case Module::kLayer:
      return "layers[].";
    case Module::kAttention:
      return "layers[].self_attn.";
    case Module::kMlp:
      return "layers[].mlp.";
    case Module::kVision:
      return "vision.";
    case Module::kVisionLayer:
      return "vision.layers[].";
  }
  return "";
}

std::string path_of(const ValueInfo& info, std::string_view layer) {
  std::string path(prefix_of(info.module));
  const size_t bracket = path.find(']');
  if (bracket != std::string::npos) path.insert(bracket, layer);
  return path + std::string(info.name);
}

Error unknown(std::string_view name, std::string_view path) {
  constexpr size_t kShown = 3;
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const ValueInfo& info : value_infos())
    near.emplace_back(distance(name, info.name), info.name);
  std::partial_sort(near.begin(), near.begin() + kShown, near.end());
  std::string names;
  for (size_t i = 0; i < kShown; ++i) names += (i > 0 ? ", " : "") + std::string(near[i].second);
  return invalid("there is no value \"" + std::string(name) + "\"; near it are " + names +
                     " (`phidias support` lists all)",
                 path);
}

// One "name=value" of a selector.
Status select(std::string_view key, std::string_view value, Selection& selection,
              std::string_view path) {
  const auto indices = [&](std::vector<int32_t>& list) -> Status {
    while (true) {
      const size_t comma = std::min(value.find(','), value.size());
      PHIDIAS_TRY(const int32_t index, index_from(trimmed(value.substr(0, comma)), path));
      list.push_back(index);
      if (comma == value.size()) return {};
      value.remove_prefix(comma + 1);
    }
  };
  if (key == "head" || key == "heads") return indices(selection.heads);
  if (key == "neuron" || key == "neurons" || key == "channel" || key == "channels")
    return indices(selection.channels);
  auto positions = Positions::parse(value);
  if (!positions.ok()) {
    Error error = std::move(positions).error();
    error.place.item = path;
    return error;
  }
  if (key == "at" || key == "query" || key == "queries") {
    selection.at = std::move(*positions);
  } else if (key == "key" || key == "keys") {
    selection.keys = std::move(*positions);
  } else {
    return invalid(
        "\"" + std::string(key) + "\" is no axis; write at, head, query, key, neuron or channel",
        path);
  }
  return {};
}

// Takes "[head=7, at=2,5]" off the end of the path; a comma may part indices or selectors.
Status take_selectors(std::string_view& rest, Selection& selection, std::string_view path) {
  while (rest.ends_with(']')) {
    const size_t open = rest.rfind('[');
    if (open == std::string_view::npos) return invalid("a bracket is not opened", path);
    std::string_view inside = rest.substr(open + 1, rest.size() - open - 2);
    if (inside.find('=') == std::string_view::npos) return {};  // an index of layers
    while (!inside.empty()) {
      const size_t equals = inside.find('=');
      if (equals == std::string_view::npos)
        return invalid("\"" + std::string(inside) + "\" is not of the form axis=choice", path);
      // The choice ends before the last comma in front of the next '='.
      const size_t next = inside.find('=', equals + 1);
      size_t end = inside.size();
      if (next != std::string_view::npos) end = inside.rfind(',', next);
      if (end == std::string_view::npos || end < equals)
        return invalid("a comma is missing between two choices", path);
      PHIDIAS_CHECK_OK(select(trimmed(inside.substr(0, equals)),
                              trimmed(inside.substr(equals + 1, end - equals - 1)), selection,
                              path));
      inside.remove_prefix(std::min(end + 1, inside.size()));
    }
    rest.remove_suffix(rest.size() - open);
  }
  return {};
}

// "layers[3]." or "layers.3." at the front; nothing where it is not there.
Result<std::optional<LayerRange>> take_layers(std::string_view& rest, std::string_view word,
                                              std::string_view path) {
  if (!rest.starts_with(word) || rest.size() <= word.size()) return std::optional<LayerRange>();
  const char mark = rest[word.size()];
  if (mark != '[' && mark != '.') return std::optional<LayerRange>();
  const size_t begin = word.size() + 1;
  const size_t end = rest.find(mark == '[' ? ']' : '.', begin);
  if (end == std::string_view::npos) return invalid("the layer's index is not complete", path);
  PHIDIAS_TRY(const LayerRange layers, layers_from(rest.substr(begin, end - begin), path));
  rest.remove_prefix(end + (mark == '[' ? 1 : 0));
  if (!consume(rest, ".")) return invalid("a value's name must follow the layer", path);
  return std::optional<LayerRange>(layers);
}

}  // namespace

Result<ValueRef> parse_value(std::string_view path) {
  ValueRef ref;
  std::string_view rest = trimmed(path);
  PHIDIAS_CHECK_OK(take_selectors(rest, ref.selection, path));
  consume(rest, "model.");
  const bool vision = consume(rest, "vision.");
  PHIDIAS_TRY(const auto blocks, take_layers(rest, "blocks", path));
  std::optional<LayerRange> layers = blocks;
  if (!blocks) {
    PHIDIAS_TRY(layers, take_layers(rest, "layers", path));
  }
  if (layers) ref.layers = *layers;

  const Alias* alias = blocks ? find(kHookAliases, rest) : nullptr;
  if (!vision) {
    if (alias == nullptr && layers) alias = find(kLayerAliases, rest);
    if (alias == nullptr && !layers) alias = find(kModelAliases, rest);
    if (alias == nullptr && !layers) alias = find(kModelHookAliases, rest);
  }
  if (alias != nullptr) {
    ref.id = alias->id;
    return ref;
  }
  const std::string_view module = rest.starts_with("self_attn.") ? "self_attn."
                                  : rest.starts_with("mlp.")     ? "mlp."
                                                                 : "";
  const std::string_view name = rest.substr(module.size());
  for (const ValueInfo& info : value_infos()) {
    if (info.name != name) continue;
    if (of_images(info.module) != vision) {
      return invalid(vision ? "is no value of the vision tower: leave \"vision.\" out"
                            : "is a value of the vision tower: write " + path_of(info, "3"),
                     path);
    }
    const bool fits =
        module.empty() || info.module == (module == "mlp." ? Module::kMlp : Module::kAttention);
    if (!fits) break;
    if (has_layers(info.module) != layers.has_value()) {
      return invalid(layers ? "is a value of the model: leave the layer out"
                            : "is a value of a layer: write " + path_of(info, "3") + ", or " +
                                  path_of(info, "*") + " for all",
                     path);
    }
    ref.id = info.id;
    return ref;
  }
  return unknown(name, path);
}

std::string value_name(ValueId id, size_t layer) {
  const ValueInfo& info = info_of(id);
  std::string name(prefix_of(info.module));
  const size_t mark = name.find("[]");
  if (mark != std::string::npos) name.replace(mark, 2, "." + std::to_string(layer));
  return name + std::string(info.name);
}

std::string ValueRef::to_string() const {
  const ValueInfo& info = info_of(id);
  std::string layer;
  if (layers.single) {
    layer = std::to_string(layers.begin);
  } else if (layers == LayerRange{false, 0}) {
    layer = "*";
  } else {
    layer = std::to_string(layers.begin) + ":";
    if (layers.end != LayerRange{}.end) layer += std::to_string(layers.end);
  }
  std::string text = path_of(info, layer);
  std::string chosen;
  const auto add = [&](std::string_view axis, const std::string& choice) {
    chosen += (chosen.empty() ? "" : ", ") + std::string(axis) + "=" + choice;
  };
  const auto listed = [](const std::vector<int32_t>& list) {
    std::string all;
    for (const int32_t index : list) all += (all.empty() ? "" : ",") + std::to_string(index);
    return all;
  };
  if (selection.at != Positions()) add("at", selection.at.to_string());
  if (!selection.heads.empty()) add("head", listed(selection.heads));
  if (selection.keys != Positions()) add("key", selection.keys.to_string());
  if (!selection.channels.empty()) {
    add(info.layout == Layout::kNeurons ? "neuron" : "channel", listed(selection.channels));
  }
  return chosen.empty() ? text : text + "[" + chosen + "]";
}

}  // namespace phidias
