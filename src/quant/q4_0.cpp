#include "quant/q4_0.h"

#include "quant/blocks.h"
#include "quant/nibbles.h"

namespace phidias {

void Q4_0::decode(const std::byte* src, float* dst, size_t values) {
  decode_blocks<Block>(src, dst, values, kBlockValues, [](const Block& block, float* out) {
    const float scale = decode_f16(block.scale);
    uint8_t quants[kBlockValues];
    unpack_nibbles(block.quants, quants);
    for (size_t i = 0; i < kBlockValues; ++i) out[i] = scale * static_cast<float>(quants[i] - 8);
  });
}

// The same bytes as ggml's quantize_row_q4_0_ref.
void Q4_0::encode(const float* src, std::byte* dst, size_t values) {
  encode_blocks<Block>(src, dst, values, kBlockValues, [](const float* in, Block& block) {
    const float scale = signed_peak(in, kBlockValues) / -8.0F;
    const float inverse = inverse_of(scale);
    block.scale = encode_scale(scale);
    uint8_t quants[kBlockValues];
    for (size_t i = 0; i < kBlockValues; ++i) {
      quants[i] = truncate_to(in[i] * inverse + 8.5F, 15);
    }
    pack_nibbles(quants, block.quants);
  });
}

}  // namespace phidias
