#include "quant/bf16.h"

#include "quant/blocks.h"

namespace phidias {

void BF16::decode(const std::byte* src, float* dst, size_t values) {
  decode_blocks<Block>(src, dst, values, kBlockValues,
                       [](const Block& bits, float* value) { *value = decode_bf16(bits); });
}

void BF16::encode(const float* src, std::byte* dst, size_t values) {
  encode_blocks<Block>(src, dst, values, kBlockValues,
                       [](const float* value, Block& bits) { bits = encode_bf16(*value); });
}

}  // namespace phidias
