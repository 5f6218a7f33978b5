#include "trace/value_table.h"

#include <array>

namespace phidias {
namespace {

using enum ValueId;
using L = Layout;

constexpr ValueInfo kInfos[] = {
    {kInputIds, "input_ids", Module::kModel, L::kTokens, true, true, "the model's input",
     "The token ids that the model runs on"},
    {kAttentionMask, "attention_mask", Module::kModel, L::kTokens, true, true, "the model's input",
     "1 for every position that may be seen; a 0 hides it from all queries"},
    {kInputSize, "input_size", Module::kModel, L::kSize, true, false, "the shape of input_ids",
     "The number of sequences and of positions"},
    {kTokenEmbeddings, "token_embeddings", Module::kModel, L::kResidual, true, true,
     "embed_tokens.output", "The rows of the embedding for the tokens"},
    {kMergedEmbeddings, "merged_embeddings", Module::kModel, L::kResidual, false, true,
     "vision_embed_tokens.output",
     "The embeddings with the images' rows in their places: layer_input of layer 0"},
    {kLayerInput, "layer_input", Module::kLayer, L::kResidual, true, true, "input",
     "The residual stream entering the block"},
    {kAttentionNormScale, "attention_norm_scale", Module::kLayer, L::kScale, false, false,
     "inside input_layernorm", "What the norm before the attention multiplies the stream with"},
    {kAttentionNormOutput, "attention_norm_output", Module::kLayer, L::kResidual, true, true,
     "input_layernorm.output", "The normed stream, as the attention reads it"},
    {kQkvOutput, "qkv_output", Module::kAttention, L::kProjection, false, true,
     "self_attn.qkv_proj.output", "Queries, keys and values as the fused projection gives them"},
    {kAttentionQueriesPreRotary, "attention_queries_pre_rotary", Module::kAttention, L::kQueries,
     false, true, "a slice of self_attn.qkv_proj.output", "The queries before they are rotated"},
    {kAttentionKeysPreRotary, "attention_keys_pre_rotary", Module::kAttention, L::kKeys, false,
     true, "a slice of self_attn.qkv_proj.output", "The keys before they are rotated"},
    {kRotaryCos, "rotary_cos", Module::kAttention, L::kRotation, false, false, "rotary_emb.output",
     "The cosines that the row was rotated with, LongRoPE's magnitude in them"},
    {kRotarySin, "rotary_sin", Module::kAttention, L::kRotation, false, false, "rotary_emb.output",
     "The sines, likewise"},
    {kRotaryFactorSet, "rotary_factor_set", Module::kAttention, L::kTokens, false, false,
     "inside rotary_emb", "The list that the row was rotated with: 0 plain, 1 short, 2 long"},
    {kVisibleBlocks, "visible_blocks", Module::kAttention, L::kBlocks, false, false,
     "the block mask",
     "1 where a head sees a block of keys from a position, as far as they come before it"},
    {kAttentionQueries, "attention_queries", Module::kAttention, L::kQueries, true, true,
     "the attention call's arguments", "The queries, rotated"},
    {kAttentionKeys, "attention_keys", Module::kAttention, L::kKeys, true, true,
     "the attention call's arguments", "The keys, rotated, as the cache holds them"},
    {kAttentionValues, "attention_values", Module::kAttention, L::kValues, true, true,
     "the attention call's arguments", "The values, as the cache holds them"},
    {kAttentionScores, "attention_scores", Module::kAttention, L::kPattern, true, true,
     "what enters the softmax", "Scaled products of queries and keys; hidden ones are lowest"},
    {kAttentionProbabilities, "attention_probabilities", Module::kAttention, L::kPattern, true,
     true, "what leaves the softmax", "The attention pattern that the values are mixed with"},
    {kAttentionHeadOutputs, "attention_head_outputs", Module::kAttention, L::kHeadOutputs, true,
     true, "the attention call's result", "What each head mixes"},
    {kAttentionPremix, "attention_premix", Module::kAttention, L::kHeadOutputs, true, true,
     "self_attn.o_proj.input", "All heads' outputs, as the output projection reads them"},
    {kAttentionHeadContributions, "attention_head_contributions", Module::kAttention,
     L::kContributions, false, false, "slices of self_attn.o_proj",
     "What each head adds to the stream; without a bias, their sum is attention_output"},
    {kAttentionOutput, "attention_output", Module::kAttention, L::kResidual, true, true,
     "self_attn.o_proj.output", "What the attention adds to the stream"},
    {kLayerMid, "layer_mid", Module::kLayer, L::kResidual, true, true,
     "post_attention_layernorm.input", "The residual stream after the attention was added"},
    {kMlpNormScale, "mlp_norm_scale", Module::kLayer, L::kScale, false, false,
     "inside post_attention_layernorm", "What the norm before the MLP multiplies the stream with"},
    {kMlpNormOutput, "mlp_norm_output", Module::kLayer, L::kResidual, true, true,
     "post_attention_layernorm.output", "The normed stream"},
    {kMlpInput, "mlp_input", Module::kLayer, L::kResidual, true, true, "mlp.input",
     "What the MLP reads"},
    {kRouterLogits, "router_logits", Module::kMlp, L::kExperts, false, true, "mlp.gate.output",
     "The router's logit of every expert; the choice follows what is written"},
    {kRouterExperts, "router_experts", Module::kMlp, L::kPicks, false, false, "inside mlp",
     "The experts that the row passes, the first pick first"},
    {kRouterWeights, "router_weights", Module::kMlp, L::kPicks, false, true, "inside mlp",
     "What their outputs are multiplied with"},
    {kGateUpOutput, "gate_up_output", Module::kMlp, L::kProjection, false, true,
     "mlp.gate_up_proj.output", "Gate and up as the fused projection gives them"},
    {kMlpGate, "mlp_gate", Module::kMlp, L::kNeurons, false, true,
     "a slice of mlp.gate_up_proj.output", "The gate before its activation"},
    {kMlpUp, "mlp_up", Module::kMlp, L::kNeurons, false, true, "a slice of mlp.gate_up_proj.output",
     "What the activated gate is multiplied with"},
    {kMlpActivation, "mlp_activation", Module::kMlp, L::kNeurons, true, true,
     "mlp.activation_fn.output", "The activated gate"},
    {kMlpNeurons, "mlp_neurons", Module::kMlp, L::kNeurons, true, true, "mlp.down_proj.input",
     "The neurons' activations, as the down projection reads them"},
    {kMlpOutput, "mlp_output", Module::kMlp, L::kResidual, true, true, "mlp.output",
     "What the MLP adds to the stream"},
    {kLayerOutput, "layer_output", Module::kLayer, L::kResidual, true, true, "output",
     "The residual stream leaving the block"},
    {kFinalNormScale, "final_norm_scale", Module::kModel, L::kScale, false, false, "inside norm",
     "What the final norm multiplies the stream with"},
    {kFinalNormOutput, "final_norm_output", Module::kModel, L::kResidual, true, true, "norm.output",
     "The stream after the final norm, as the head reads it"},
    {kLmHeadOutput, "lm_head_output", Module::kModel, L::kLogits, true, true, "lm_head.output",
     "The head's output"},
    {kLogits, "logits", Module::kModel, L::kLogits, true, true, "the model's output",
     "The logits, after whatever the model does to the head's output"},
    {kNextTokenProbs, "next_token_probs", Module::kModel, L::kNextTokenProbs, true, false,
     "softmax of the last logits", "The distribution of the token after the prompt"},
    {kPatchEmbeddings, "patch_embeddings", Module::kVision, L::kPatches, false, true,
     "pre_layrnorm.output",
     "Class token and patches of each tile as they enter the tower, the whole image first"},
    {kBlockOutput, "block_output", Module::kVisionLayer, L::kPatches, false, true,
     "encoder.layers.output", "The same leaving a layer of the tower"},
    {kMergedPatches, "merged_patches", Module::kVision, L::kImageRows, false, true,
     "img_projection.input", "Lines of merged patches and separators, before the projection"},
    {kImageFeatures, "image_features", Module::kVision, L::kImageRows, false, true,
     "img_projection.output", "The rows that stand where embeddings would"},
};
static_assert(std::size(kInfos) == kValueCount);

Segment flat(size_t width) { return {0, 1, width, width, 1}; }
Segment heads(size_t offset, size_t count, size_t dim) { return {offset, count, dim, dim, 1}; }

Segment residual(const ModelSpec& s) { return flat(s.width); }
Segment qkv(const ModelSpec& s) { return flat(s.attention.qkv_width()); }
Segment queries(const ModelSpec& s) { return heads(0, s.attention.heads, s.attention.head_dim); }
// Of the fused row, which lies as all queries, all keys, all values.
Segment fused_keys(const ModelSpec& s) {
  return heads(s.attention.query_width(), s.attention.kv_heads, s.attention.head_dim);
}
Segment key_heads(const ModelSpec& s) {
  return heads(0, s.attention.kv_heads, s.attention.head_dim);
}
Segment contributions(const ModelSpec& s) { return heads(0, s.attention.heads, s.width); }
Segment pattern(const ModelSpec& s) { return heads(0, s.attention.heads, 0); }
Segment gate_up(const ModelSpec& s) { return flat(size_t{2} * s.ffn_width); }
// GEGLU's gate and up rows lie in turn.
Segment branch(const ModelSpec& s, size_t index) {
  const bool in_turn = s.gating == Gating::kGegelu;
  return {in_turn ? index : index * s.ffn_width, 1, 0, s.ffn_width, in_turn ? 2UL : 1UL};
}
Segment gate(const ModelSpec& s) { return branch(s, 0); }
Segment up(const ModelSpec& s) { return branch(s, 1); }
Segment neurons(const ModelSpec& s) { return flat(s.ffn_width); }
Segment vocabulary(const ModelSpec& s) { return flat(s.vocab); }
Segment one(const ModelSpec&) { return flat(1); }
Segment rotation(const ModelSpec& s) { return flat(s.rope.rotary_dims / 2); }
Segment experts(const ModelSpec& s) { return flat(s.experts ? s.experts->count : 0); }
Segment picks(const ModelSpec&) { return flat(ExpertsSpec::kPerRow); }
Segment patch_row(const ModelSpec& s) { return flat(s.vision ? s.vision->width : 0); }
Segment merged_patch(const ModelSpec& s) { return flat(s.vision ? s.vision->merged_width() : 0); }

constexpr ValueSource kSources[] = {
    {Site::kTokenEmbeddings, Extract::kPass, one},  // input_ids
    {Site::kTokenEmbeddings, Extract::kPass, one},
    {Site::kTokenEmbeddings, Extract::kPass, one},
    {Site::kTokenEmbeddings, Extract::kRows, residual},
    {Site::kLayerInput, Extract::kRows, residual},  // of layer 0: merged_embeddings
    {Site::kLayerInput, Extract::kRows, residual},
    {Site::kLayerInput, Extract::kNormScale, one},
    {Site::kAttentionNormOutput, Extract::kRows, residual},
    {Site::kQkvOutput, Extract::kRows, qkv},
    {Site::kPreRotary, Extract::kRows, queries},
    {Site::kPreRotary, Extract::kRows, fused_keys},
    {Site::kQkvOutput, Extract::kPass, rotation},
    {Site::kQkvOutput, Extract::kPass, rotation},
    {Site::kQkvOutput, Extract::kPass, one},
    {Site::kQkvOutput, Extract::kPass, pattern},
    {Site::kAttentionQueries, Extract::kRows, queries},
    {Site::kAttentionKeys, Extract::kRows, key_heads},
    {Site::kAttentionValues, Extract::kRows, key_heads},
    {Site::kAttentionScores, Extract::kPattern, pattern},
    {Site::kAttentionProbabilities, Extract::kPattern, pattern},
    {Site::kAttentionHeadOutputs, Extract::kRows, queries},
    {Site::kAttentionPremix, Extract::kRows, queries},
    {Site::kAttentionPremix, Extract::kContributions, contributions},
    {Site::kAttentionOutput, Extract::kRows, residual},
    {Site::kLayerMid, Extract::kRows, residual},
    {Site::kLayerMid, Extract::kNormScale, one},
    {Site::kMlpNormOutput, Extract::kRows, residual},
    {Site::kMlpInput, Extract::kRows, residual},
    {Site::kRouterLogits, Extract::kRows, experts},
    {Site::kRouterExperts, Extract::kRows, picks},
    {Site::kRouterWeights, Extract::kRows, picks},
    {Site::kGateUpOutput, Extract::kRows, gate_up},
    {Site::kGateUpOutput, Extract::kRows, gate},
    {Site::kGateUpOutput, Extract::kRows, up},
    {Site::kMlpActivation, Extract::kRows, neurons},
    {Site::kMlpNeurons, Extract::kRows, neurons},
    {Site::kMlpOutput, Extract::kRows, residual},
    {Site::kLayerOutput, Extract::kRows, residual},
    {Site::kLayerOutput, Extract::kNormScale, one},
    {Site::kFinalNormOutput, Extract::kRows, residual},
    {Site::kLmHeadOutput, Extract::kRows, vocabulary},
    {Site::kLogits, Extract::kRows, vocabulary},
    {Site::kLogits, Extract::kNextTokenProbs, vocabulary},
    // Site means nothing here: ImageSite.
    {Site::kTokenEmbeddings, Extract::kImage, patch_row},
    {Site::kTokenEmbeddings, Extract::kImage, patch_row},
    {Site::kTokenEmbeddings, Extract::kImage, merged_patch},
    {Site::kTokenEmbeddings, Extract::kImage, residual},
};
static_assert(std::size(kSources) == kValueCount);

using Axes = std::span<const std::string_view>;
constexpr std::string_view kTokensAxes[] = {"batch", "seq"};
constexpr std::string_view kSizeAxes[] = {"axis"};
constexpr std::string_view kResidualAxes[] = {"batch", "seq", "hidden_size"};
constexpr std::string_view kQueriesAxes[] = {"batch", "num_heads", "seq", "qk_head_dim"};
constexpr std::string_view kKeysAxes[] = {"batch", "num_kv_heads", "seq", "qk_head_dim"};
constexpr std::string_view kValuesAxes[] = {"batch", "num_kv_heads", "seq", "head_dim"};
constexpr std::string_view kPatternAxes[] = {"batch", "num_heads", "query", "key"};
constexpr std::string_view kHeadOutputsAxes[] = {"batch", "seq", "num_heads", "head_dim"};
constexpr std::string_view kContributionsAxes[] = {"batch", "seq", "num_heads", "hidden_size"};
constexpr std::string_view kNeuronsAxes[] = {"batch", "seq", "intermediate_size"};
constexpr std::string_view kLogitsAxes[] = {"batch", "seq", "vocab_size"};
constexpr std::string_view kProbsAxes[] = {"batch", "vocab_size"};
constexpr std::string_view kProjectionAxes[] = {"batch", "seq", "rows"};
constexpr std::string_view kScaleAxes[] = {"batch", "seq", "one"};
constexpr std::string_view kRotationAxes[] = {"batch", "seq", "rotary_pairs"};
constexpr std::string_view kExpertsAxes[] = {"batch", "seq", "num_experts"};
constexpr std::string_view kPicksAxes[] = {"batch", "seq", "experts_per_token"};
constexpr std::string_view kBlocksAxes[] = {"batch", "num_heads", "seq", "key_blocks"};
constexpr std::string_view kPatchesAxes[] = {"tile", "patch", "tower_size"};
constexpr std::string_view kImageRowsAxes[] = {"batch", "token", "width"};

struct LayoutRow {
  std::string_view name;
  Axes axes;
};
constexpr LayoutRow kLayouts[] = {
    {"Tokens", kTokensAxes},
    {"Size", kSizeAxes},
    {"Residual", kResidualAxes},
    {"Queries", kQueriesAxes},
    {"Keys", kKeysAxes},
    {"Values", kValuesAxes},
    {"Pattern", kPatternAxes},
    {"HeadOutputs", kHeadOutputsAxes},
    {"Contributions", kContributionsAxes},
    {"Neurons", kNeuronsAxes},
    {"Logits", kLogitsAxes},
    {"NextTokenProbs", kProbsAxes},
    {"Projection", kProjectionAxes},
    {"Scale", kScaleAxes},
    {"Rotation", kRotationAxes},
    {"Experts", kExpertsAxes},
    {"Picks", kPicksAxes},
    {"Blocks", kBlocksAxes},
    {"Patches", kPatchesAxes},
    {"ImageRows", kImageRowsAxes},
};

}  // namespace

std::string_view name_of(Layout layout) { return kLayouts[static_cast<size_t>(layout)].name; }
std::span<const std::string_view> axes_of(Layout layout) {
  return kLayouts[static_cast<size_t>(layout)].axes;
}
std::span<const ValueInfo> value_infos() { return kInfos; }
const ValueInfo& info_of(ValueId id) { return kInfos[static_cast<size_t>(id)]; }
const ValueSource& source_of(ValueId id) { return kSources[static_cast<size_t>(id)]; }

std::optional<std::string> missing_value(ValueId id, const ModelSpec& spec) {
  switch (id) {
    case kGateUpOutput:
    case kMlpGate:
    case kMlpUp:
    case kMlpActivation:
    case kMlpNeurons:
      if (spec.experts) return "exists per expert only in a model with experts; read mlp_output";
      break;
    case kAttentionQueriesPreRotary:
    case kAttentionKeysPreRotary:
      if (spec.grouped_qkv) return "lies in pieces between others in this model; read qkv_output";
      break;
    case kRouterLogits:
    case kRouterExperts:
    case kRouterWeights:
      if (!spec.experts) return "this model has no experts";
      break;
    case kVisibleBlocks:
      if (!spec.mask.blocks) return "this model's attention is not cut into blocks";
      break;
    case kMergedEmbeddings:
    case kPatchEmbeddings:
    case kBlockOutput:
    case kMergedPatches:
    case kImageFeatures:
      if (!spec.vision) return "this model sees no images";
      break;
    default:
      break;
  }
  return std::nullopt;
}

uint64_t key_blocks(const ModelSpec& spec, uint64_t rows) {
  const uint64_t block = spec.mask.blocks ? spec.mask.blocks->block : 1;
  return rows / block + (rows % block == 0 ? 0 : 1);
}

std::vector<uint64_t> shape_of(ValueId id, const ModelSpec& spec, uint64_t rows) {
  const Segment segment = source_of(id).segment(spec);
  switch (info_of(id).layout) {
    case L::kTokens:
      return {1, rows};
    case L::kSize:
      return {2};
    case L::kQueries:
    case L::kKeys:
    case L::kValues:
      return {1, segment.groups, rows, segment.inner};
    case L::kPattern:
      return {1, segment.groups, rows, rows};
    case L::kHeadOutputs:
    case L::kContributions:
      return {1, rows, segment.groups, segment.inner};
    case L::kBlocks:
      return {1, segment.groups, rows, key_blocks(spec, rows)};
    case L::kPatches:
      return {rows, spec.vision ? spec.vision->positions() : 0, segment.inner};
    case L::kNextTokenProbs:
      return {1, segment.inner};
    default:
      return {1, rows, segment.inner};
  }
}

}  // namespace phidias
