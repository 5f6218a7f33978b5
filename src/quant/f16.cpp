#include "quant/f16.h"

#include "quant/blocks.h"

namespace phidias {

void F16::decode(const std::byte* src, float* dst, size_t values) {
  decode_blocks<Block>(src, dst, values, kBlockValues,
                       [](const Block& bits, float* value) { *value = decode_f16(bits); });
}

void F16::encode(const float* src, std::byte* dst, size_t values) {
  encode_blocks<Block>(src, dst, values, kBlockValues,
                       [](const float* value, Block& bits) { bits = encode_f16(*value); });
}

}  // namespace phidias
