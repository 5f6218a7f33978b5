#include "quant/q4_1.h"

#include "quant/blocks.h"
#include "quant/nibbles.h"

namespace phidias {

void Q4_1::decode(const std::byte* src, float* dst, size_t values) {
  decode_blocks<Block>(src, dst, values, kBlockValues, [](const Block& block, float* out) {
    const float scale = decode_f16(block.scale);
    const float minimum = decode_f16(block.minimum);
    uint8_t quants[kBlockValues];
    unpack_nibbles(block.quants, quants);
    for (size_t i = 0; i < kBlockValues; ++i) {
      out[i] = scale * static_cast<float>(quants[i]) + minimum;
    }
  });
}

// The same bytes as ggml's quantize_row_q4_1_ref.
void Q4_1::encode(const float* src, std::byte* dst, size_t values) {
  encode_blocks<Block>(src, dst, values, kBlockValues, [](const float* in, Block& block) {
    const Range range = range_of(in, kBlockValues);
    const float scale = (range.high - range.low) / 15.0F;
    const float inverse = inverse_of(scale);
    block.scale = encode_scale(scale);
    block.minimum = encode_scale(range.low);
    uint8_t quants[kBlockValues];
    for (size_t i = 0; i < kBlockValues; ++i) {
      quants[i] = truncate_to((in[i] - range.low) * inverse + 0.5F, 15);
    }
    pack_nibbles(quants, block.quants);
  });
}

}  // namespace phidias
