#include "weights/binder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weights/convert.h"

namespace phidias {
namespace {

// Tensors whose value at (row, column) says which tensor, row and column it is.
class Tensors {
 public:
  void add(const std::string& name, std::vector<uint64_t> shape, float base) {
    size_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    auto values = std::make_unique<std::vector<float>>(count);
    for (size_t i = 0; i < count; ++i) (*values)[i] = base + static_cast<float>(i);
    set.tensors.push_back({.name = name,
                           .format = Format::kF32,
                           .shape = std::move(shape),
                           .data = reinterpret_cast<const std::byte*>(values->data()),
                           .bytes = count * 4,
                           .offset = 0,
                           .file = 0});
    memory_.push_back(std::move(values));
  }
  TensorSet set{.files = {"model.safetensors"}, .mappings = {}, .tensors = {}, .ignored = {}};

 private:
  std::vector<std::unique_ptr<std::vector<float>>> memory_;
};

std::vector<float> row(const Matrix& matrix, size_t index) {
  std::vector<float> values(matrix.cols);
  decode_row(matrix, index, values.data());
  return values;
}

TEST(Binder, SeparateProjectionsAreOneMatrixWithoutACopy) {
  Tensors tensors;
  tensors.add("q", {4, 2}, 0);
  tensors.add("k", {2, 2}, 100);
  Binder binder(tensors.set);
  const Matrix matrix = binder.matrix("qk", {{"q", 4, 0}, {"k", 2, 0}}, 2);
  ASSERT_TRUE(binder.finish().ok());
  EXPECT_EQ(matrix.rows, 6U);
  EXPECT_EQ(matrix.blocks[0].data, tensors.set.tensors[0].data);
  EXPECT_EQ(matrix.blocks[1].data, tensors.set.tensors[1].data);
  EXPECT_EQ(row(matrix, 3), (std::vector<float>{6, 7}));
  EXPECT_EQ(row(matrix, 5), (std::vector<float>{102, 103}));
}

TEST(Binder, AFusedMatrixIsOneBlockAsItLies) {
  Tensors tensors;
  tensors.add("qk", {6, 2}, 0);
  Binder binder(tensors.set);
  const Matrix matrix = binder.matrix("qk", {{"q", 4, 0}, {"k", 2, 0}}, 2);
  ASSERT_TRUE(binder.finish().ok());
  ASSERT_EQ(matrix.blocks.size(), 1U);
  EXPECT_EQ(matrix.blocks[0].data, tensors.set.tensors[0].data);
}

TEST(Binder, InterleavedRowsComeOutInHalfSplitOrder) {
  Tensors tensors;
  tensors.add("q", {8, 1}, 0);  // two heads of four: rows 0 2 1 3 of ours each
  tensors.add("v", {2, 1}, 50);
  Binder binder(tensors.set);
  const Matrix matrix = binder.matrix("qv", {{"q", 8, 4}, {"v", 2, 0}}, 1);
  ASSERT_TRUE(binder.finish().ok());
  std::vector<float> values;
  for (size_t i = 0; i < 10; ++i) values.push_back(row(matrix, i)[0]);
  EXPECT_EQ(values, (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7, 50, 51}));
  EXPECT_EQ(matrix.blocks[1].data, tensors.set.tensors[1].data);
}

TEST(Binder, EveryMismatchIsInTheOneError) {
  Tensors tensors;
  tensors.add("norm", {3}, 0);
  tensors.add("weight", {2, 5}, 0);
  tensors.add("junk", {7}, 0);
  tensors.set.ignored.push_back("wrong (I64)");
  tensors.set.ignored.push_back("foreign (BOOL)");
  Binder binder(tensors.set);
  binder.vector("norm", 4);
  binder.matrix("weight", 2, 4);
  binder.matrix("absent", 2, 4);
  binder.vector("wrong", 4);
  const Status status = binder.finish();
  ASSERT_FALSE(status.ok());
  for (const char* part :
       {"6 problems", "norm is [3]", "expected [4]", "weight is [2, 5]", "missing: absent [2, 4]",
        "wrong dtype: wrong (I64)", "unexpected: foreign (BOOL)",
        "unexpected: junk [7] in model.safetensors"}) {
    EXPECT_NE(status.error().message.find(part), std::string::npos) << part << " not in\n"
                                                                    << status.error().message;
  }
}

TEST(Binder, WhatIsAllowedToBeThereIsNoProblem) {
  Tensors tensors;
  tensors.add("model.layers.0.self_attn.rotary_emb.inv_freq", {4}, 0);
  tensors.add("lm_head.weight", {2, 2}, 0);
  Binder binder(tensors.set);
  EXPECT_FALSE(binder.finish().ok());
  binder.ignore_suffix(".rotary_emb.inv_freq");
  binder.ignore("lm_head.weight");
  binder.ignore("not there at all");
  EXPECT_TRUE(binder.finish().ok());
}

TEST(Convert, EachBlockIsStoredInTheFormatAskedFor) {
  Tensors tensors;
  tensors.add("a", {3, 32}, -40);
  tensors.add("b", {2, 32}, 5);
  Binder binder(tensors.set);
  const Matrix matrix = binder.matrix("ab", {{"a", 3, 0}, {"b", 2, 0}}, 32);
  ThreadPool threads(2);
  const auto halves = converted(matrix, Format::kBF16, threads);
  ASSERT_TRUE(halves.ok());
  EXPECT_EQ(halves->bytes(), matrix.bytes() / 2);
  EXPECT_EQ(row(*halves, 0)[1], -39.0F);
  const auto quantized = converted(matrix, Format::kQ8_0, threads);
  ASSERT_TRUE(quantized.ok());
  EXPECT_NEAR(row(*quantized, 4)[31], 68.0F, 0.3F);
  const auto same = converted(*halves, Format::kBF16, threads);
  EXPECT_EQ(same->blocks[0].data, halves->blocks[0].data);
  EXPECT_FALSE(converted(matrix, Format::kQ4_K, threads).ok());  // 32 values are no block of 256
}

// A matrix in a format whose rows lie sixteen at a time.
class Tiles {
 public:
  Tiles(Tensors& tensors, const std::string& name, size_t rows, size_t cols)
      : cols_(cols), values_(rows * cols), bytes_(row().matrix_bytes(rows, cols)) {
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i] = std::sin(static_cast<float>(i)) * static_cast<float>(1 + i / cols);
    }
    for (size_t r = 0; r < rows; r += row().tile_rows) {
      row().encode_tile(values_.data() + r * cols, std::min<size_t>(row().tile_rows, rows - r),
                        nullptr, bytes_.data() + r / row().tile_rows * row().tile_bytes(cols),
                        cols);
    }
    tensors.set.tensors.push_back({.name = name,
                                   .format = Format::kQ4,
                                   .shape = {rows, cols},
                                   .data = bytes_.data(),
                                   .bytes = bytes_.size(),
                                   .offset = 0,
                                   .file = 0});
  }
  static const FormatRow& row() { return format_row(Format::kQ4); }
  std::vector<float> decoded(size_t r) const {
    std::vector<float> values(cols_);
    row().decode_row(bytes_.data(), r, values.data(), cols_);
    return values;
  }

 private:
  size_t cols_;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

TEST(Binder, InterleavedRowsOfTilesComeOutInHalfSplitOrder) {
  Tensors tensors;
  const Tiles tiles(tensors, "qv", 28, 64);  // two heads of twelve, then rows inside a tile
  Binder binder(tensors.set);
  const Matrix matrix = binder.matrix("qv", {{"q", 24, 12}, {"v", 4, 0}}, 64);
  ASSERT_TRUE(binder.finish().ok());
  for (size_t r = 0; r < 24; ++r) {
    const size_t within = r % 12;
    const size_t source = r - within + (within < 6 ? 2 * within : 2 * (within - 6) + 1);
    EXPECT_EQ(row(matrix, r), tiles.decoded(source)) << r;
  }
  for (size_t r = 24; r < 28; ++r) EXPECT_EQ(row(matrix, r), tiles.decoded(r)) << r;
}

TEST(Convert, TilesAreMadeOfRowsOfAnyFormatAndBack) {
  Tensors tensors;
  tensors.add("a", {19, 64}, -600);
  Binder binder(tensors.set);
  const Matrix matrix = binder.matrix("a", 19, 64);
  ThreadPool threads(2);
  const auto tiled = converted(matrix, Format::kQ4, threads);
  ASSERT_TRUE(tiled.ok());
  EXPECT_EQ(tiled->bytes(), 2 * Tiles::row().tile_bytes(64));
  for (size_t r = 0; r < 19; ++r) {
    // 64 values in steps of 1, on 16 levels: half a level of 64 / 15, and the scale's own rounding.
    EXPECT_NEAR(row(*tiled, r)[5], row(matrix, r)[5], std::fabs(row(matrix, r)[5]) / 16 + 8) << r;
  }
  const auto halves = converted(*tiled, Format::kF32, threads);
  ASSERT_TRUE(halves.ok());
  for (size_t r = 0; r < 19; ++r) EXPECT_EQ(row(*halves, r), row(*tiled, r));
}

TEST(Convert, ASliceOfTilesIsSharedWhereItCanBe) {
  Tensors tensors;
  const Tiles tiles(tensors, "w", 40, 64);
  Binder binder(tensors.set);
  const Matrix whole = binder.matrix("w", 40, 64);
  for (const size_t first : {size_t{16}, size_t{5}}) {
    const RowBlock part = slice(whole.blocks[0], first, 20, 64);
    EXPECT_EQ(part.owner == nullptr, first == 16);
    const Matrix matrix{.rows = 20, .cols = 64, .blocks = {part}};
    for (size_t r = 0; r < 20; ++r) EXPECT_EQ(row(matrix, r), tiles.decoded(first + r));
  }
}

TEST(Binder, RowsComeInAnyOrderWithoutACopy) {
  Tensors tensors;
  tensors.add("fused", {6, 2}, 0);
  Binder binder(tensors.set);
  const Matrix matrix =
      binder.matrix_in_order("fused", {{0, 1}, {3, 1}, {4, 1}, {1, 2}, {5, 1}}, 2);
  ASSERT_TRUE(binder.finish().ok());
  ASSERT_EQ(matrix.rows, 6U);
  const size_t order[] = {0, 3, 4, 1, 2, 5};
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(row(matrix, i).front(), static_cast<float>(2 * order[i])) << i;
  // Rows 3 and 4 lie together already.
  ASSERT_EQ(matrix.blocks.size(), 4U);
  for (const RowBlock& block : matrix.blocks) EXPECT_EQ(block.owner, nullptr);
}

TEST(Binder, AStackIsCutIntoItsMatrices) {
  Tensors tensors;
  tensors.add("stack", {3, 2, 4}, 0);
  Binder binder(tensors.set);
  const std::vector<Matrix> matrices = binder.stacked("stack", 3, 2, 4);
  ASSERT_TRUE(binder.finish().ok());
  ASSERT_EQ(matrices.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(row(matrices[i], 0).front(), static_cast<float>(8 * i));
    EXPECT_EQ(row(matrices[i], 1).back(), static_cast<float>(8 * i + 7));
  }
}

TEST(Binder, AVectorComesFromItsPartsOrFused) {
  Tensors tensors;
  tensors.add("q.bias", {2}, 0);
  tensors.add("k.bias", {1}, 10);
  tensors.add("fused.bias", {3}, 20);
  Binder binder(tensors.set);
  EXPECT_EQ(binder.vector("none", {{"q.bias", 2, 0}, {"k.bias", 1, 0}}),
            (std::vector<float>{0, 1, 10}));
  EXPECT_EQ(binder.vector("fused.bias", {{"v.bias", 3, 0}}), (std::vector<float>{20, 21, 22}));
  EXPECT_TRUE(binder.finish().ok());
}

}  // namespace
}  // namespace phidias
