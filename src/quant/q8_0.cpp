#include "quant/q8_0.h"

#include <cmath>

#include "quant/blocks.h"

namespace phidias {

void Q8_0::decode(const std::byte* src, float* dst, size_t values) {
  decode_blocks<Block>(src, dst, values, kBlockValues, [](const Block& block, float* out) {
    const float scale = decode_f16(block.scale);
    for (size_t i = 0; i < kBlockValues; ++i) out[i] = scale * static_cast<float>(block.quants[i]);
  });
}

// The same bytes as ggml's quantize_row_q8_0_ref: ties away from zero, by the unrounded scale.
void Q8_0::encode(const float* src, std::byte* dst, size_t values) {
  encode_blocks<Block>(src, dst, values, kBlockValues, [](const float* in, Block& block) {
    float largest = 0;
    for (size_t i = 0; i < kBlockValues; ++i) largest = std::fmax(largest, std::fabs(in[i]));
    const float scale = largest / 127.0F;
    const float inverse = inverse_of(scale);
    block.scale = encode_scale(scale);
    for (size_t i = 0; i < kBlockValues; ++i) {
      const uint8_t magnitude = truncate_to(std::round(std::fabs(in[i] * inverse)), 127);
      block.quants[i] = static_cast<int8_t>(in[i] < 0 ? -magnitude : magnitude);
    }
  });
}

}  // namespace phidias
