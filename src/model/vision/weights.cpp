#include "model/vision/weights.h"

#include <algorithm>
#include <string>

namespace phidias {
namespace {

constexpr const char* kPrefix = "model.vision_embed_tokens.";
constexpr const char* kTower = "model.vision_embed_tokens.img_processor.vision_model.";

NormWeights norm(Binder& binder, const std::string& name, size_t width) {
  return {binder.vector(name + ".weight", width), binder.vector(name + ".bias", width)};
}

ProjectionWeights projection(Binder& binder, const std::string& name, size_t rows, size_t cols) {
  ProjectionWeights weights{binder.matrix(name + ".weight", rows, cols),
                            binder.vector(name + ".bias", rows)};
  weights.weight.keeps = Keeps::kEightBits;
  return weights;
}

std::string layer_name(size_t layer) {
  return kTower + ("encoder.layers." + std::to_string(layer) + ".");
}

VisionLayerWeights bind_layer(const VisionSpec& spec, size_t layer, Binder& binder) {
  const std::string name = layer_name(layer);
  VisionLayerWeights weights;
  weights.attention_norm = norm(binder, name + "layer_norm1", spec.width);
  std::vector<MatrixPart> parts;
  for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
    const std::string projection = name + "self_attn." + part;
    parts.push_back({.name = projection + ".weight", .rows = spec.width});
    const std::vector<float> bias = binder.vector(projection + ".bias", spec.width);
    weights.qkv.bias.insert(weights.qkv.bias.end(), bias.begin(), bias.end());
  }
  weights.qkv.weight = binder.matrix("", parts, spec.width);
  weights.qkv.weight.keeps = Keeps::kEightBits;
  weights.attention_output =
      projection(binder, name + "self_attn.out_proj", spec.width, spec.width);
  weights.ffn_norm = norm(binder, name + "layer_norm2", spec.width);
  weights.up = projection(binder, name + "mlp.fc1", spec.ffn_width, spec.width);
  weights.down = projection(binder, name + "mlp.fc2", spec.width, spec.ffn_width);
  return weights;
}

// Layers behind the one whose output is used, the norm at the tower's end, and what some tools save
// although it follows from the configuration.
void ignore_unused(const VisionSpec& spec, size_t tensor_count, Binder& binder) {
  const size_t stored = std::min<size_t>(spec.stored_layers, tensor_count + 1);
  for (const char* kind : {".weight", ".bias"}) {
    for (size_t layer = spec.layers; layer < stored; ++layer) {
      for (const char* part : {"layer_norm1", "layer_norm2", "self_attn.q_proj", "self_attn.k_proj",
                               "self_attn.v_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2"}) {
        binder.ignore(layer_name(layer) + part + kind);
      }
    }
    binder.ignore(std::string(kTower) + "post_layernorm" + kind);
  }
  binder.ignore(std::string(kPrefix) + "wte.weight");
  binder.ignore_suffix(".embeddings.position_ids");
}

}  // namespace

VisionWeights bind_vision(const VisionSpec& spec, uint32_t decoder_width, size_t tensor_count,
                          Binder& binder) {
  const std::string embeddings = std::string(kTower) + "embeddings.";
  const std::string prefix = kPrefix;
  VisionWeights weights;
  weights.class_embedding = binder.vector(embeddings + "class_embedding", spec.width);
  weights.patch = binder.flattened(embeddings + "patch_embedding.weight",
                                   {spec.width, 3, spec.patch, spec.patch});
  // Rows of 588 values, as published, are no multiple of a block of any quantized format.
  weights.patch.keeps = Keeps::kFormat;
  weights.positions =
      binder.values(embeddings + "position_embedding.weight", {spec.positions(), spec.width});
  weights.first_norm = norm(binder, std::string(kTower) + "pre_layrnorm", spec.width);
  // A configuration may state more layers than the file could hold.
  const size_t layers = std::min<size_t>(spec.layers, tensor_count + 1);
  for (size_t i = 0; i < layers; ++i) weights.layers.push_back(bind_layer(spec, i, binder));
  weights.line_separator = binder.vector(prefix + "sub_GN", spec.merged_width());
  weights.image_separator = binder.vector(prefix + "glb_GN", spec.merged_width());
  weights.projection[0] =
      projection(binder, prefix + "img_projection.0", decoder_width, spec.merged_width());
  weights.projection[1] =
      projection(binder, prefix + "img_projection.2", decoder_width, decoder_width);
  ignore_unused(spec, tensor_count, binder);
  return weights;
}

bool is_vision_matrix(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(".weight")) return false;
  for (const char* part : {".self_attn.", ".mlp.", ".img_projection."}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

size_t VisionWeights::vector_values() const {
  size_t total =
      class_embedding.size() + positions.size() + line_separator.size() + image_separator.size();
  auto add_norm = [&total](const NormWeights& part) {
    total += part.weight.size() + part.bias.size();
  };
  add_norm(first_norm);
  for (const VisionLayerWeights& layer : layers) {
    add_norm(layer.attention_norm);
    add_norm(layer.ffn_norm);
    for (const ProjectionWeights* part :
         {&layer.qkv, &layer.attention_output, &layer.up, &layer.down}) {
      total += part->bias.size();
    }
  }
  for (const ProjectionWeights& part : projection) total += part.bias.size();
  return total;
}

size_t VisionWeights::bytes() const {
  size_t total = vector_values() * sizeof(float);
  const_cast<VisionWeights*>(this)->for_each_matrix(
      [&total](const Matrix& matrix) { total += matrix.bytes(); });
  return total;
}

}  // namespace phidias
