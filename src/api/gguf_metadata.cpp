#include "api/gguf_metadata.h"

#include <algorithm>
#include <array>
#include <string>

#include "api/recipes.h"
#include "formats/gguf_types.h"

namespace phidias {
namespace {

constexpr uint32_t kQuantizationVersion = 2;
constexpr const char* kName = "general.name";
constexpr const char* kFileType = "general.file_type";
constexpr const char* kQuantization = "general.quantization_version";

void add_storage_keys(GgufHeader& header, uint32_t file_type) {
  if (file_type != Recipe::kNoFileType) header.add(kFileType, file_type);
  header.add(kQuantization, kQuantizationVersion);
}

}  // namespace

void add_general_keys(GgufHeader& header, const ModelSpec& spec, std::string_view name,
                      uint32_t file_type) {
  header.add("general.architecture", spec.type);
  header.add("general.type", "model");
  header.add(kName, name);
  add_storage_keys(header, file_type);
}

void add_model_keys(GgufHeader& header, const ModelSpec& spec, std::string_view name,
                    uint32_t file_type) {
  add_general_keys(header, spec, name, file_type);
  const std::string prefix = spec.type + ".";
  const AttentionSpec& attention = spec.attention;
  header.add(prefix + "context_length", spec.max_context);
  header.add(prefix + "embedding_length", spec.width);
  header.add(prefix + "block_count", spec.layers);
  header.add(prefix + "feed_forward_length", spec.ffn_width);
  header.add(prefix + "vocab_size", spec.vocab);
  header.add(prefix + "attention.head_count", attention.heads);
  header.add(prefix + "attention.head_count_kv", attention.kv_heads);
  header.add(prefix + "attention.key_length", attention.head_dim);
  header.add(prefix + "attention.value_length", attention.head_dim);
  header.add(prefix + "attention.layer_norm_rms_epsilon", spec.norm_epsilon);
  header.add(prefix + "attention.sliding_window", spec.mask.window);
  header.add(prefix + "rope.dimension_count", spec.rope.rotary_dims);
  header.add(prefix + "rope.freq_base", static_cast<float>(spec.rope.theta));
  if (spec.experts) {
    header.add(prefix + "expert_count", spec.experts->count);
    header.add(prefix + "expert_used_count", ExpertsSpec::kPerRow);
  }
  if (spec.rope.long_rope) {
    const LongRope& rope = *spec.rope.long_rope;
    header.add(prefix + "rope.scaling.original_context_length", rope.original_context);
    header.add(prefix + "rope.scaling.attn_factor", static_cast<float>(rope.long_magnitude));
  }
}

void copy_keys(GgufHeader& header, const GgufFile& file, std::string_view name,
               uint32_t file_type) {
  bool storage_added = false;
  for (const auto& [key, value] : file.metadata) {
    if (key == kGgufAlignmentKey) continue;  // the header has its own
    if (key == kFileType || key == kQuantization) {
      if (!storage_added) add_storage_keys(header, file_type);
      storage_added = true;
    } else if (key == kName && !name.empty()) {
      header.add(key, name);
    } else {
      header.add_encoded(key, value.encoded);
    }
  }
  if (!storage_added) add_storage_keys(header, file_type);
  if (!name.empty() && file.find(kName) == nullptr) header.add(kName, name);
}

}  // namespace phidias
