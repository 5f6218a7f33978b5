// Which values a model has, told from its configuration.
#include <algorithm>

#include "api/model_files.h"
#include "api/model_impl.h"
#include "base/try.h"
#include "phidias/trace.h"
#include "trace/value_table.h"

namespace phidias {
namespace {

std::string dotted(const ValueInfo& info) {
  switch (info.module) {
    case Module::kModel:
      return std::string(info.name);
    case Module::kLayer:
      return "layers." + std::string(info.name);
    case Module::kAttention:
      return "layers.self_attn." + std::string(info.name);
    case Module::kMlp:
      return "layers.mlp." + std::string(info.name);
    case Module::kVision:
      return "vision." + std::string(info.name);
    case Module::kVisionLayer:
      return "vision.layers." + std::string(info.name);
  }
  return {};
}

std::vector<Support> support_of(const ModelSpec& spec) {
  constexpr uint64_t kRows = UINT64_MAX;  // stands for a number that a run or an image has
  std::vector<Support> all;
  for (const ValueInfo& info : value_infos()) {
    Support support{info, dotted(info), {}, missing_value(info.id, spec)};
    const char* rows = info.layout == Layout::kPatches     ? "tiles"
                       : info.layout == Layout::kImageRows ? "tokens"
                                                           : "seq";
    for (const uint64_t extent : shape_of(info.id, spec, kRows))
      support.extents.push_back(extent == kRows ? rows : std::to_string(extent));
    if (info.layout == Layout::kBlocks && spec.mask.blocks)
      support.extents.back() = "seq / " + std::to_string(spec.mask.blocks->block);
    all.push_back(std::move(support));
  }
  return all;
}

// One module of the tree: its children's lines are put in front, its values behind them.
struct Tree {
  std::string text;
  size_t depth = 0;

  void line(const std::string& content) { text += std::string(2 * depth, ' ') + content + "\n"; }
  void open(const std::string& content) {
    line(content);
    ++depth;
  }
  void close() {
    --depth;
    line(")");
  }
  void values(const std::vector<Support>& all, Module module) {
    for (const Support& support : all) {
      if (support.value.module != module) continue;
      std::string axes;
      for (const std::string_view axis : axes_of(support.value.layout))
        axes += (axes.empty() ? "" : " ") + std::string(axis);
      line("(" + std::string(support.value.name) + ") -> " +
           std::string(name_of(support.value.layout)) + " [" + axes +
           "]: " + std::string(support.value.meaning) +
           (support.missing ? " (not here: " + *support.missing + ")" : ""));
    }
  }
};

std::string linear(const char* name, uint64_t in, uint64_t out, bool bias) {
  return "(" + std::string(name) + "): Linear(in_features=" + std::to_string(in) +
         ", out_features=" + std::to_string(out) + ", bias=" + (bias ? "True" : "False") + ")";
}

std::string describe(const ModelSpec& spec) {
  const std::vector<Support> all = support_of(spec);
  const std::string width = std::to_string(spec.width);
  char epsilon[32];
  std::snprintf(epsilon, sizeof epsilon, "%g", static_cast<double>(spec.norm_epsilon));
  const std::string norm = std::string(spec.norm == Norm::kRms ? "RMSNorm" : "LayerNorm") + "((" +
                           width + ",), eps=" + epsilon + ")";
  Tree tree;
  tree.open(spec.type + "(");
  tree.line(linear("lm_head", spec.width, spec.vocab, spec.bias.head) +
            (spec.tied_head ? ", tied to embed_tokens" : ""));
  tree.line("(embed_tokens): Embedding(" + std::to_string(spec.vocab) + ", " + width + ")");
  tree.open("(layers): (");
  tree.open("(0-" + std::to_string(spec.layers - 1) + "): " + std::to_string(spec.layers) +
            " x Layer(");
  tree.open("(self_attn): Attention(");
  tree.line(linear("o_proj", spec.attention.query_width(), spec.width, spec.bias.attention_output));
  tree.line(linear("qkv_proj", spec.width, spec.attention.qkv_width(), spec.bias.qkv));
  tree.values(all, Module::kAttention);
  tree.close();
  tree.open("(mlp): " + (spec.experts ? std::to_string(spec.experts->count) + " experts("
                                      : std::string("MLP(")));
  tree.line(linear("gate_up_proj", spec.width, uint64_t{2} * spec.ffn_width, spec.bias.ffn));
  tree.line(linear("down_proj", spec.ffn_width, spec.width, spec.bias.ffn));
  tree.line("(act_fn/activation_fn): " +
            std::string(spec.gating == Gating::kSilu ? "SiLU()" : "GEGLU()"));
  tree.values(all, Module::kMlp);
  tree.close();
  tree.line("(input_layernorm): " + norm);
  tree.line("(post_attention_layernorm): " + norm);
  tree.values(all, Module::kLayer);
  tree.close();
  tree.close();
  tree.line("(norm): " + norm);
  tree.values(all, Module::kModel);
  if (spec.vision) {
    tree.open("(vision): Tower(");
    tree.open("(layers): " + std::to_string(spec.vision->layers) + " x Layer(");
    tree.values(all, Module::kVisionLayer);
    tree.close();
    tree.values(all, Module::kVision);
    tree.close();
  }
  tree.close();
  for (const auto& [name, size] : {std::pair<const char*, uint32_t>{"num_layers", spec.layers},
                                   {"hidden_size", spec.width},
                                   {"num_heads", spec.attention.heads},
                                   {"num_kv_heads", spec.attention.kv_heads},
                                   {"head_dim", spec.attention.head_dim},
                                   {"qk_head_dim", spec.attention.head_dim},
                                   {"vocab_size", spec.vocab},
                                   {"intermediate_size", spec.ffn_width}}) {
    tree.line("model." + std::string(name) + " " + std::to_string(size));
  }
  return tree.text;
}

}  // namespace

std::vector<Support> support(const Model& model) { return support_of(model.impl().spec); }
std::string describe(const Model& model) { return describe(model.impl().spec); }

Result<std::vector<Support>> support(const std::filesystem::path& path) {
  PHIDIAS_TRY(const ModelFiles files, open_model_files(path));
  return support_of(files.spec);
}
Result<std::string> describe(const std::filesystem::path& path) {
  PHIDIAS_TRY(const ModelFiles files, open_model_files(path));
  return describe(files.spec);
}

}  // namespace phidias
