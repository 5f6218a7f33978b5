#include "matmul_case.h"
#include "support/tolerance.h"

namespace phidias::test {
namespace {

constexpr Format kFormats[] = {Format::kF32,  Format::kF16,  Format::kBF16, Format::kQ8_0,
                               Format::kQ4_0, Format::kQ4_1, Format::kQ5_0, Format::kQ5_1,
                               Format::kQ4_K, Format::kQ5_K, Format::kQ6_K, Format::kQ4};

bool has_q8(Format format) { return available_tables().front()->matmul_q8[index_of(format)]; }

// Widths that a format allows: around its block, a register and a chunk of columns.
std::vector<size_t> widths_of(Format format) {
  switch (format_row(format).block_values) {
    case 1:
      return {1, 7, 8, 15, 16, 17, 96, 100, 250, 511, 512, 513, 576, 1100};
    case 64:
      return {64, 128, 448, 512, 576, 1088};
    case 32:
      return {32, 64, 96, 224, 256, 288, 480, 512, 544, 576};
    default:
      return {256, 512, 768, 1280};
  }
}

constexpr size_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 65, 200};

using Matmul = EachTable;
PHIDIAS_FOR_EACH_TABLE(Matmul);

TEST_P(Matmul, EqualsTheScalarTableBitForBit) {
  for (const Format format : kFormats) {
    for (const size_t cols : widths_of(format)) {
      for (const size_t outs : {size_t{1}, size_t{3}, size_t{9}, size_t{18}, size_t{35}}) {
        MatmulCase test(format, outs, cols, 9, static_cast<uint32_t>(cols + outs));
        SCOPED_TRACE(std::string(format_row(format).name) + " cols " + std::to_string(cols) +
                     " outs " + std::to_string(outs));
        ASSERT_TRUE(same_bits(test.f32(table(), test.whole()), test.f32(scalar(), test.whole())));
        if (has_q8(format)) {
          ASSERT_TRUE(same_bits(test.q8(table(), test.whole()), test.q8(scalar(), test.whole())));
        }
      }
    }
  }
}

TEST_P(Matmul, ARowAloneHasTheBitsItHasAmongOthers) {
  for (const Format format : kFormats) {
    const size_t cols = widths_of(format).back();
    for (const size_t rows : kRowCounts) {
      // The larger sizes go beyond the blocks that the kernels work in.
      const size_t outs = rows == 65 ? 264 : rows == 7 || rows == 200 ? 70 : 17;
      MatmulCase test(format, outs, cols, rows, static_cast<uint32_t>(rows));
      SCOPED_TRACE(std::string(format_row(format).name) + " rows " + std::to_string(rows));
      std::vector<float> alone_f32, alone_q8;
      for (size_t r = 0; r < rows; ++r) {
        const MatmulCase::Part one = {r, 1, 0, test.outs()};
        const std::vector<float> f32 = test.f32(table(), one);
        alone_f32.insert(alone_f32.end(), f32.begin(), f32.end());
        if (!has_q8(format)) continue;
        const std::vector<float> q8 = test.q8(table(), one);
        alone_q8.insert(alone_q8.end(), q8.begin(), q8.end());
      }
      ASSERT_TRUE(same_bits(test.f32(table(), test.whole()), alone_f32));
      if (has_q8(format)) {
        ASSERT_TRUE(same_bits(test.q8(table(), test.whole()), alone_q8));
      }
    }
  }
}

TEST_P(Matmul, AnySplitOfTheOutputsGivesTheSameBits) {
  constexpr size_t kOuts = 21;
  for (const Format format : kFormats) {
    for (const size_t rows : {size_t{1}, size_t{5}, size_t{20}}) {
      MatmulCase test(format, kOuts, widths_of(format).back(), rows, 3);
      SCOPED_TRACE(format_row(format).name);
      const std::vector<float> f32 = test.f32(table(), test.whole());
      const std::vector<float> q8 =
          has_q8(format) ? test.q8(table(), test.whole()) : std::vector<float>();
      for (size_t split = 1; split < kOuts; ++split) {
        for (const auto& [begin, end] : {std::pair(size_t{0}, split), std::pair(split, kOuts)}) {
          const MatmulCase::Part part = {0, rows, begin, end};
          const std::vector<float> part_f32 = test.f32(table(), part);
          const std::vector<float> part_q8 =
              has_q8(format) ? test.q8(table(), part) : std::vector<float>();
          for (size_t r = 0; r < rows; ++r) {
            for (size_t o = 0; o < kOuts; ++o) {
              const size_t i = r * kOuts + o;
              if (o < begin || o >= end) {
                ASSERT_TRUE(std::isnan(part_f32[i])) << "wrote outside its range";
                continue;
              }
              ASSERT_EQ(part_f32[i], f32[i]) << "split " << split << " out " << o;
              if (has_q8(format)) {
                ASSERT_EQ(part_q8[i], q8[i]) << "split " << split << " out " << o;
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(Matmul, LiesWithinTheDerivedBoundOfTheExactProduct) {
  for (const Format format : kFormats) {
    for (const size_t cols : widths_of(format)) {
      MatmulCase test(format, 5, cols, 3, 11);
      SCOPED_TRACE(std::string(format_row(format).name) + " cols " + std::to_string(cols));
      const std::vector<float> f32 = test.f32(table(), test.whole());
      const std::vector<float> q8 =
          has_q8(format) ? test.q8(table(), test.whole()) : std::vector<float>();
      for (size_t r = 0; r < test.rows(); ++r) {
        for (size_t o = 0; o < test.outs(); ++o) {
          const MatmulCase::Exact exact = test.exact_f32(r, o);
          ASSERT_NEAR(f32[r * test.outs() + o], exact.value, dot_f32_tolerance(exact.magnitudes));
          if (!has_q8(format)) continue;
          // With a minimum the terms of a group are larger before they cancel: a weight
          // scale * quant + minimum is at most 3 times smaller than its parts in most blocks, and
          // the bound allows for 16.
          const MatmulCase::Exact rounded = test.exact_q8(r, o);
          ASSERT_NEAR(q8[r * test.outs() + o], rounded.value,
                      16 * dot_q8_tolerance(rounded.magnitudes, test.groups()));
        }
      }
    }
  }
}

TEST_P(Matmul, EveryFormatHasAnF32ProductAndEveryBlockFormatAQ8Product) {
  for (const Format format : kFormats) {
    EXPECT_NE(table().matmul_f32[index_of(format)], nullptr);
    EXPECT_EQ(table().matmul_q8[index_of(format)] != nullptr, format_row(format).block_values > 1);
  }
}

TEST_P(Matmul, ExtremeQuantsDoNotOverflow) {
  // All bits of the quants set, or all clear, against activations of the largest magnitude.
  for (const Format format : kFormats) {
    if (!has_q8(format)) continue;
    const FormatRow& row = format_row(format);
    constexpr size_t kCols = 512;
    for (const int fill : {0x00, 0x7F, 0x80, 0xFF}) {
      for (const float sign : {1.0F, -1.0F}) {
        std::vector<std::byte> weights(row.row_bytes(kCols), static_cast<std::byte>(fill));
        set_scales(format, weights, [] { return 1.0F; });
        const std::vector<float> x(2 * kCols, sign);
        std::vector<float> got(2), want(2);
        QuantizedMemory quantized(scalar(), x, 2);
        AlignedBuffer<float> scratch(matmul_scratch_floats(kCols));
        for (const size_t rows : {size_t{1}, size_t{2}}) {
          MatmulArgs args;
          args.weights = weights.data();
          args.row_bytes = weights.size();
          args.cols = kCols;
          args.out_end = 1;
          args.q = quantized.rows();
          args.rows = rows;
          args.y_stride = 1;
          args.scratch = scratch.data();
          args.y = got.data();
          table().matmul_q8[index_of(format)](args);
          args.y = want.data();
          scalar().matmul_q8[index_of(format)](args);
          ASSERT_TRUE(same_bits(got, want)) << row.name << " fill " << fill << " rows " << rows;
        }
      }
    }
  }
}

}  // namespace
}  // namespace phidias::test
