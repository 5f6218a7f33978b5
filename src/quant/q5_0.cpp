#include "quant/q5_0.h"

#include "quant/blocks.h"
#include "quant/nibbles.h"

namespace phidias {

void Q5_0::decode(const std::byte* src, float* dst, size_t values) {
  decode_blocks<Block>(src, dst, values, kBlockValues, [](const Block& block, float* out) {
    const float scale = decode_f16(block.scale);
    uint8_t quants[kBlockValues];
    unpack_nibbles(block.quants, quants);
    unpack_fifth_bits(block.high, quants);
    for (size_t i = 0; i < kBlockValues; ++i) out[i] = scale * static_cast<float>(quants[i] - 16);
  });
}

// The same bytes as ggml's quantize_row_q5_0_ref.
void Q5_0::encode(const float* src, std::byte* dst, size_t values) {
  encode_blocks<Block>(src, dst, values, kBlockValues, [](const float* in, Block& block) {
    const float scale = signed_peak(in, kBlockValues) / -16.0F;
    const float inverse = inverse_of(scale);
    block.scale = encode_scale(scale);
    uint8_t quants[kBlockValues];
    for (size_t i = 0; i < kBlockValues; ++i) {
      quants[i] = truncate_to(in[i] * inverse + 16.5F, 31);
    }
    pack_nibbles(quants, block.quants);
    pack_fifth_bits(quants, block.high);
  });
}

}  // namespace phidias
