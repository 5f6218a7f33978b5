// The weights of a vision tower and of the projection into the decoder.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "model/vision/spec.h"
#include "weights/binder.h"
#include "weights/matrix.h"

namespace phidias {

// A norm, or a projection: with a bias.
struct NormWeights {
  std::vector<float> weight;
  std::vector<float> bias;
};
struct ProjectionWeights {
  Matrix weight;
  std::vector<float> bias;
};

// Letters: W width of the tower, F its ffn_width, D width of the decoder.
struct VisionLayerWeights {
  NormWeights attention_norm;          // [W]
  ProjectionWeights qkv;               // [3 W, W]: queries, keys, values
  ProjectionWeights attention_output;  // [W, W]
  NormWeights ffn_norm;                // [W]
  ProjectionWeights up;                // [F, W]
  ProjectionWeights down;              // [W, F]
};

struct VisionWeights {
  Matrix patch;                        // [W, 3 patch^2]: channel, row, column
  std::vector<float> class_embedding;  // [W]
  std::vector<float> positions;        // [positions, W]
  NormWeights first_norm;              // [W]
  std::vector<VisionLayerWeights> layers;
  std::vector<float> line_separator;            // [4 W]: ends each line
  std::vector<float> image_separator;           // [4 W]: between the tiles and the whole image
  std::array<ProjectionWeights, 2> projection;  // [D, 4 W], [D, D]

  // Every matrix once.
  template <typename Visit>
  void for_each_matrix(Visit&& visit) {
    visit(patch);
    for (VisionLayerWeights& layer : layers) {
      for (ProjectionWeights* part :
           {&layer.qkv, &layer.attention_output, &layer.up, &layer.down}) {
        visit(part->weight);
      }
    }
    for (ProjectionWeights& part : projection) visit(part.weight);
  }
  // Values of embeddings, separators, norms and biases.
  size_t vector_values() const;
  size_t bytes() const;
};

// Asks the binder for every tensor, under the names of Hugging Face's checkpoints; what is wrong
// with them is found out by binder.finish().
//   decoder_width   D
VisionWeights bind_vision(const VisionSpec& spec, uint32_t decoder_width, size_t tensor_count,
                          Binder& binder);

// Whether a tensor of that name is a matrix of the tower or of the projection: Keeps::kEightBits.
bool is_vision_matrix(std::string_view name);

}  // namespace phidias
