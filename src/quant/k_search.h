// The search for scales that Q4_K, Q5_K and Q6_K share. Their scales are two numbers multiplied:
// one float of the block and a small code of the sub-block. All searches minimise the sum of weight
// * (value - decoded)^2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

inline constexpr size_t kSuperBlockValues = 256;

// The 6-bit codes of the 8 sub-blocks of Q4_K and Q5_K, as bytes.
struct SubBlockCodes {
  uint8_t scale[8];
  uint8_t minimum[8];
};

// 12 bytes hold them: byte s has scale s, byte 4 + s has minimum s (s < 4, lower six bits); byte 8
// + s has the lower four bits of scale and minimum 4 + s; their upper two bits are the top bits of
// bytes s and 4 + s.
SubBlockCodes unpack_codes(const uint8_t (&packed)[12]);
void pack_codes(const SubBlockCodes& codes, uint8_t (&packed)[12]);

// A block of 8 sub-blocks of 32: value = (scale * codes.scale[s]) * quant - minimum *
// codes.minimum[s].
struct AffineBlock {
  uint16_t scale;    // F16
  uint16_t minimum;  // F16
  SubBlockCodes codes;
  uint8_t quants[kSuperBlockValues];  // 0 to highest_quant
};

// `values` and `importance`, which may be null, are of the block's 256 columns.
AffineBlock encode_affine(const float* values, const float* importance, uint8_t highest_quant);

// A block of 16 sub-blocks of 16: value = (scale * codes[s]) * quant.
struct SymmetricBlock {
  uint16_t scale;  // F16
  int8_t codes[16];
  int8_t quants[kSuperBlockValues];  // -32 to 31
};

SymmetricBlock encode_symmetric(const float* values, const float* importance);

}  // namespace phidias
