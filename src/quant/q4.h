// Q4: Phidias' own 4-bit format, 4.19 bits a weight. Sixteen rows lie interleaved, so that the
// kernels load the same columns of all of them at once: four columns of a row make 32 bits, the
// sixteen rows a register of 512.
//
// 64 columns of a row share a scale and an offset: value = scale * (quant - offset).
//   scale    8 bits of a float without a sign: 5 of the exponent, 3 of the fraction
//   offset   4 bits: one of sixteen places that the zero may have, dense where they are needed
// Root mean square error on normal values: 0.085 of their deviation (Q4_0: 0.086 at 4.5 bits).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace phidias {

struct Q4 {
  static constexpr uint32_t kTileRows = 16;
  static constexpr uint32_t kBlockValues = 64;
  static constexpr uint32_t kHalfValues = 32;
  static constexpr uint32_t kChunks = 8;

  struct Block {
    uint8_t scales[kTileRows];  // see scale_of
    uint8_t offsets[8];         // index into kOffsets: row r in the low nibble of byte r, row r + 8
                                // in the high one
    // [chunk][row][i]: column 4 * chunk + i in the low nibble, 32 + 4 * chunk + i in the high one
    uint8_t quants[kChunks][kTileRows][4];
  };
  static_assert(sizeof(Block) == 536);

  // Offsets in quarters of a step. Weights spread about zero on both sides, so most offsets are
  // near 7.5; 0 and 15 serve groups of one sign.
  static constexpr uint8_t kOffsets[16] = {0,  12, 20, 24, 26, 28, 29, 30,
                                           31, 32, 33, 34, 36, 40, 48, 60};
  static constexpr float kOffsetUnit = 0.25F;

  // 2^(code / 8 - 24) * (1 + code % 8 / 8): the code is the top of a float's bits, so that every
  // code is an ordinary number, from 2^-24 to 240.
  static constexpr uint32_t kScaleShift = 20;
  static constexpr uint32_t kScaleBits = (127 - 24) << 23;
  static constexpr float scale_of(uint8_t code) {
    return std::bit_cast<float>((static_cast<uint32_t>(code) << kScaleShift) + kScaleBits);
  }
  static uint8_t offset_index(const Block& block, size_t row) {
    return row < 8 ? block.offsets[row] & 0x0F : block.offsets[row - 8] >> 4;
  }

  static void decode_row(const std::byte* tile, size_t row, float* dst, size_t values);
  // All `rows` are searched side by side. Rows beyond them become zeros.
  static void encode(const float* src, size_t rows, const float* importance, std::byte* tile,
                     size_t values);
  static void copy_row(const std::byte* from_tile, size_t from, std::byte* to_tile, size_t to,
                       size_t values);
};

}  // namespace phidias
