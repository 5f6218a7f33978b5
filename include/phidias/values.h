// Every internal value of the network has a name. A name is a place, not a moment: a handle exists
// without a run and costs nothing; the same path works in C++, in files and on the command line.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// Axes of a value as it is served. The first axis is always a batch of 1.
enum class Layout : uint8_t {
  kTokens,          // [batch, seq], integers
  kSize,            // [2]: batch and seq, integers
  kResidual,        // [batch, seq, hidden_size]
  kQueries,         // [batch, num_heads, seq, qk_head_dim]
  kKeys,            // [batch, num_kv_heads, seq, qk_head_dim]
  kValues,          // [batch, num_kv_heads, seq, head_dim]
  kPattern,         // [batch, num_heads, query, key]
  kHeadOutputs,     // [batch, seq, num_heads, head_dim]
  kContributions,   // [batch, seq, num_heads, hidden_size]
  kNeurons,         // [batch, seq, intermediate_size]
  kLogits,          // [batch, seq, vocab_size]
  kNextTokenProbs,  // [batch, vocab_size]
  kProjection,      // [batch, seq, rows of the matrix]
  kScale,           // [batch, seq, 1]
  kRotation,        // [batch, seq, rotary_dim / 2]
  kExperts,         // [batch, seq, num_experts]
  kPicks,           // [batch, seq, experts_per_token]
  kBlocks,          // [batch, num_heads, seq, key_blocks], integers
  kPatches,         // [tile, patch, tower_size]
  kImageRows,       // [batch, token, width]
};
// "Residual", and the names of its axes.
std::string_view name_of(Layout layout);
std::span<const std::string_view> axes_of(Layout layout);

// Where a value lives in the tree of modules. Those of the tower are computed when an image is
// encoded, before any pass (phidias/image_trace.h).
enum class Module : uint8_t { kModel, kLayer, kAttention, kMlp, kVision, kVisionLayer };
constexpr bool has_layers(Module module) {
  return module != Module::kModel && module != Module::kVision;
}
constexpr bool of_images(Module module) { return module >= Module::kVision; }

// In the order in which a pass meets them; those of images behind all others.
enum class ValueId : uint8_t {
  kInputIds,
  kAttentionMask,
  kInputSize,
  kTokenEmbeddings,
  kMergedEmbeddings,
  kLayerInput,
  kAttentionNormScale,
  kAttentionNormOutput,
  kQkvOutput,
  kAttentionQueriesPreRotary,
  kAttentionKeysPreRotary,
  kRotaryCos,
  kRotarySin,
  kRotaryFactorSet,
  kVisibleBlocks,
  kAttentionQueries,
  kAttentionKeys,
  kAttentionValues,
  kAttentionScores,
  kAttentionProbabilities,
  kAttentionHeadOutputs,
  kAttentionPremix,
  kAttentionHeadContributions,
  kAttentionOutput,
  kLayerMid,
  kMlpNormScale,
  kMlpNormOutput,
  kMlpInput,
  kRouterLogits,
  kRouterExperts,
  kRouterWeights,
  kGateUpOutput,
  kMlpGate,
  kMlpUp,
  kMlpActivation,
  kMlpNeurons,
  kMlpOutput,
  kLayerOutput,
  kFinalNormScale,
  kFinalNormOutput,
  kLmHeadOutput,
  kLogits,
  kNextTokenProbs,
  kPatchEmbeddings,
  kBlockOutput,
  kMergedPatches,
  kImageFeatures,
};
inline constexpr size_t kValueCount = 47;

struct ValueInfo {
  ValueId id;
  std::string_view name;  // "attention_queries"
  Module module;
  Layout layout;
  bool standard;  // one of the 25 of nnterp's pages
  bool writable;
  std::string_view native;   // where transformers has it
  std::string_view meaning;  // one line
};
std::span<const ValueInfo> value_infos();  // by ValueId
const ValueInfo& info_of(ValueId id);

// Which positions of a sequence. With a prompt of P tokens, negative positions count back from P.
struct Positions {
  enum class Kind : uint8_t {
    kAll,
    kPrompt,  // 0 .. P-1
    kDecode,  // from P on
    kLast,    // P-1
    kRange,   // [begin, end); without an end: all from there on
    kList,
    kToken,  // where the token is `token`
  };
  Kind kind = Kind::kAll;
  int64_t begin = 0;
  std::optional<int64_t> end;
  std::vector<int64_t> list;
  TokenId token = 0;

  Positions() = default;
  Positions(Kind of) : kind(of) {}  // NOLINT(google-explicit-constructor): .at(kLast)
  Positions(int64_t position)       // NOLINT(google-explicit-constructor): .at(3)
      : kind(Kind::kList), list{position} {}
  Positions(std::initializer_list<int64_t> positions) : kind(Kind::kList), list(positions) {}
  explicit Positions(std::vector<int64_t> positions)
      : kind(Kind::kList), list(std::move(positions)) {}
  static Positions range(int64_t begin, std::optional<int64_t> end = {});
  static Positions where_token(TokenId token);
  // "all", "prompt", "decode", "last", "4:", ":3", "1:3", "-1", "2,5". Errors: kInvalidArgument.
  static Result<Positions> parse(std::string_view text);
  std::string to_string() const;

  bool operator==(const Positions&) const = default;
};
inline constexpr Positions::Kind kAllPositions = Positions::Kind::kAll;
inline constexpr Positions::Kind kPrompt = Positions::Kind::kPrompt;
inline constexpr Positions::Kind kDecode = Positions::Kind::kDecode;
inline constexpr Positions::Kind kLast = Positions::Kind::kLast;

// A part of a value. Empty lists and kAll select everything on their axis.
struct Selection {
  Positions at;                   // the seq axis; the query axis of a pattern
  std::vector<int32_t> heads;     // key-value heads for keys and values
  Positions keys;                 // the key axis of a pattern
  std::vector<int32_t> channels;  // the last axis: neurons, hidden dimensions, token ids

  bool operator==(const Selection&) const = default;
};

// Layers a handle stands for. Negative numbers count back from the last.
struct LayerRange {
  bool single = true;
  int32_t begin = 0;
  int32_t end = std::numeric_limits<int32_t>::max();  // of a range: exclusive

  bool operator==(const LayerRange&) const = default;
};

// A value, or one value of several layers, or a part of it: plain data.
struct ValueRef {
  ValueId id = ValueId::kLogits;
  LayerRange layers;  // means nothing for values on the model
  Selection selection;

  // "layers[3].self_attn.attention_queries[head=7, at=last]".
  std::string to_string() const;
  bool operator==(const ValueRef&) const = default;
};

// Reads a path: `layers[3].mlp.mlp_neurons`, `layers.3.mlp_neurons`, `layers[*].layer_output`,
// `layers[2:5]...`, with any of [at=..] [head=..] [key=..] [neuron=..] [channel=..] [query=..]
// behind it (one bracket may hold several, with commas between), and the names by which
// transformers' modules (`model.layers.3.self_attn.o_proj.input`) and TransformerLens
// (`blocks.3.hook_resid_post`) know the same values. Errors: kInvalidArgument with the names that
// come nearest.
Result<ValueRef> parse_value(std::string_view path);

// The name that files use: "layers.3.self_attn.attention_queries".
std::string value_name(ValueId id, size_t layer);

template <Layout kLayout>
class Value;

inline constexpr bool has_heads(Layout layout) {
  return layout == Layout::kQueries || layout == Layout::kKeys || layout == Layout::kValues ||
         layout == Layout::kPattern || layout == Layout::kHeadOutputs ||
         layout == Layout::kContributions || layout == Layout::kBlocks;
}

class Edit;
class Operand;

// A typed handle. Assigning to it builds an Edit (phidias/edits.h) and changes nothing by itself.
template <Layout kLayout>
class Value {
 public:
  explicit Value(ValueId id, LayerRange layers = {}) : ref_{id, layers, {}} {}
  Value(const Value&) = default;
  Value& operator=(const Value&) = delete;  // what it would mean is told by the ones below

  Value at(Positions positions) const { return with(&Selection::at, std::move(positions)); }
  Value query(Positions positions) const requires(kLayout == Layout::kPattern) {
    return at(std::move(positions));
  }
  Value key(Positions positions) const requires(kLayout == Layout::kPattern) {
    return with(&Selection::keys, std::move(positions));
  }
  Value head(int32_t index) const requires(has_heads(kLayout)) { return heads({index}); }
  Value heads(std::vector<int32_t> indices) const requires(has_heads(kLayout)) {
    return with(&Selection::heads, std::move(indices));
  }
  Value neuron(int32_t index) const requires(kLayout == Layout::kNeurons) {
    return channels({index});
  }
  Value neurons(std::vector<int32_t> indices) const requires(kLayout == Layout::kNeurons) {
    return channels(std::move(indices));
  }
  Value channels(std::vector<int32_t> indices) const
      requires(kLayout != Layout::kPattern && kLayout != Layout::kTokens) {
    return with(&Selection::channels, std::move(indices));
  }

  [[nodiscard]] Edit operator=(const Operand& operand) const;
  [[nodiscard]] Edit operator+=(const Operand& operand) const;
  [[nodiscard]] Edit operator-=(const Operand& operand) const;
  [[nodiscard]] Edit operator*=(const Operand& operand) const;
  [[nodiscard]] Edit clamp(double low, double high) const;

  const ValueRef& ref() const { return ref_; }
  operator const ValueRef&() const { return ref_; }  // NOLINT(google-explicit-constructor)

 private:
  template <typename T>
  Value with(T Selection::*member, T selected) const {
    Value copy(*this);
    copy.ref_.selection.*member = std::move(selected);
    return copy;
  }

  ValueRef ref_;
};

struct AttentionValues {
  explicit AttentionValues(LayerRange of) : layers(of) {}
  LayerRange layers;
  Value<Layout::kProjection> qkv_output{ValueId::kQkvOutput, layers};
  Value<Layout::kQueries> attention_queries_pre_rotary{ValueId::kAttentionQueriesPreRotary, layers};
  Value<Layout::kKeys> attention_keys_pre_rotary{ValueId::kAttentionKeysPreRotary, layers};
  Value<Layout::kRotation> rotary_cos{ValueId::kRotaryCos, layers};
  Value<Layout::kRotation> rotary_sin{ValueId::kRotarySin, layers};
  Value<Layout::kTokens> rotary_factor_set{ValueId::kRotaryFactorSet, layers};
  Value<Layout::kBlocks> visible_blocks{ValueId::kVisibleBlocks, layers};
  Value<Layout::kQueries> attention_queries{ValueId::kAttentionQueries, layers};
  Value<Layout::kKeys> attention_keys{ValueId::kAttentionKeys, layers};
  Value<Layout::kValues> attention_values{ValueId::kAttentionValues, layers};
  Value<Layout::kPattern> attention_scores{ValueId::kAttentionScores, layers};
  Value<Layout::kPattern> attention_probabilities{ValueId::kAttentionProbabilities, layers};
  Value<Layout::kHeadOutputs> attention_head_outputs{ValueId::kAttentionHeadOutputs, layers};
  Value<Layout::kHeadOutputs> attention_premix{ValueId::kAttentionPremix, layers};
  Value<Layout::kContributions> attention_head_contributions{ValueId::kAttentionHeadContributions,
                                                             layers};
  Value<Layout::kResidual> attention_output{ValueId::kAttentionOutput, layers};
};

struct MlpValues {
  explicit MlpValues(LayerRange of) : layers(of) {}
  LayerRange layers;
  Value<Layout::kExperts> router_logits{ValueId::kRouterLogits, layers};
  Value<Layout::kPicks> router_experts{ValueId::kRouterExperts, layers};
  Value<Layout::kPicks> router_weights{ValueId::kRouterWeights, layers};
  Value<Layout::kProjection> gate_up_output{ValueId::kGateUpOutput, layers};
  Value<Layout::kNeurons> mlp_gate{ValueId::kMlpGate, layers};
  Value<Layout::kNeurons> mlp_up{ValueId::kMlpUp, layers};
  Value<Layout::kNeurons> mlp_activation{ValueId::kMlpActivation, layers};
  Value<Layout::kNeurons> mlp_neurons{ValueId::kMlpNeurons, layers};
  Value<Layout::kResidual> mlp_output{ValueId::kMlpOutput, layers};
};

struct LayerValues {
  explicit LayerValues(LayerRange of) : layers(of) {}
  LayerRange layers;
  Value<Layout::kResidual> layer_input{ValueId::kLayerInput, layers};
  Value<Layout::kScale> attention_norm_scale{ValueId::kAttentionNormScale, layers};
  Value<Layout::kResidual> attention_norm_output{ValueId::kAttentionNormOutput, layers};
  Value<Layout::kResidual> layer_mid{ValueId::kLayerMid, layers};
  Value<Layout::kScale> mlp_norm_scale{ValueId::kMlpNormScale, layers};
  Value<Layout::kResidual> mlp_norm_output{ValueId::kMlpNormOutput, layers};
  Value<Layout::kResidual> mlp_input{ValueId::kMlpInput, layers};
  Value<Layout::kResidual> layer_output{ValueId::kLayerOutput, layers};
  AttentionValues self_attn{layers};
  MlpValues mlp{layers};
};

// model->layers[3].layer_output, model->layers.all().layer_output.
struct LayersValues {
  LayerValues operator[](int32_t layer) const { return LayerValues({true, layer}); }
  LayerValues range(int32_t begin, int32_t end) const { return LayerValues({false, begin, end}); }
  LayerValues all() const { return LayerValues({false, 0}); }
};

struct VisionLayerValues {
  explicit VisionLayerValues(LayerRange of) : block_output{ValueId::kBlockOutput, of} {}
  Value<Layout::kPatches> block_output;
};

// vision.layers[3].block_output: the tower's layers, not the decoder's.
struct VisionLayersValues {
  VisionLayerValues operator[](int32_t layer) const { return VisionLayerValues({true, layer}); }
  VisionLayerValues range(int32_t begin, int32_t end) const {
    return VisionLayerValues({false, begin, end});
  }
  VisionLayerValues all() const { return VisionLayerValues({false, 0}); }
};

struct VisionValues {
  Value<Layout::kPatches> patch_embeddings{ValueId::kPatchEmbeddings};
  VisionLayersValues layers;
  Value<Layout::kImageRows> merged_patches{ValueId::kMergedPatches};
  Value<Layout::kImageRows> image_features{ValueId::kImageFeatures};
};

// The handles of any model. `Model` has them as its own members.
struct ModelValues {
  Value<Layout::kTokens> input_ids{ValueId::kInputIds};
  Value<Layout::kTokens> attention_mask{ValueId::kAttentionMask};
  Value<Layout::kSize> input_size{ValueId::kInputSize};
  Value<Layout::kResidual> token_embeddings{ValueId::kTokenEmbeddings};
  Value<Layout::kResidual> merged_embeddings{ValueId::kMergedEmbeddings};
  LayersValues layers;
  Value<Layout::kScale> final_norm_scale{ValueId::kFinalNormScale};
  Value<Layout::kResidual> final_norm_output{ValueId::kFinalNormOutput};
  Value<Layout::kLogits> lm_head_output{ValueId::kLmHeadOutput};
  Value<Layout::kLogits> logits{ValueId::kLogits};
  Value<Layout::kNextTokenProbs> next_token_probs{ValueId::kNextTokenProbs};
  VisionValues vision;
};
inline const ModelValues kValues;

}  // namespace phidias
