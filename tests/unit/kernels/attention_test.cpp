#include "kernel_test.h"
#include "kernels/order.h"
#include "support/tolerance.h"

namespace phidias::test {
namespace {

struct Shape {
  size_t dim = 96;
  size_t group = 1;
  size_t page_positions = 16;
  size_t keys = 40;
  size_t rows = 5;      // the last rows of the sequence
  size_t window = 0;    // 0: none
  float magnitude = 1;  // of queries and keys
  size_t part = 0;      // positions of a part that is visible or not; 0: all are

  std::string text() const {
    return "dim " + std::to_string(dim) + " group " + std::to_string(group) + " page " +
           std::to_string(page_positions) + " keys " + std::to_string(keys) + " rows " +
           std::to_string(rows) + " window " + std::to_string(window) + " part " +
           std::to_string(part);
  }
};

// A sequence in pages of a cache type. Every page's blocks end at an unreadable page of memory,
// what is not stored is NaN, and pages that no query may touch are null.
class AttentionCase {
 public:
  AttentionCase(KvType type, const Shape& shape, uint32_t seed)
      : shape_(shape),
        queries_(normal_floats(shape.rows * shape.group * shape.dim, seed, shape.magnitude)),
        first_(shape.rows),
        end_(shape.rows) {
    const KvTypeRow& row = kv_type_row(type);
    const std::vector<float> keys =
        normal_floats(shape.keys * shape.dim, seed + 1, shape.magnitude);
    const std::vector<float> values = normal_floats(shape.keys * shape.dim, seed + 2);
    keys_.resize(keys.size());
    values_.resize(values.size());
    for (size_t r = 0; r < shape.rows; ++r) {
      end_[r] = static_cast<uint32_t>(shape.keys - shape.rows + r + 1);
      const bool cut = shape.window != 0 && end_[r] > shape.window;
      first_[r] = cut ? end_[r] - static_cast<uint32_t>(shape.window) : 0;
    }
    if (shape.part != 0) make_visible(seed);
    for (size_t begin = 0; begin < shape.keys; begin += shape.page_positions) {
      const size_t count = std::min(shape.page_positions, shape.keys - begin);
      std::byte* key_page = new_page(kv_blocks(count) * row.block_bytes(shape.dim));
      std::byte* value_page = new_page(kv_blocks(count) * row.block_bytes(shape.dim));
      bool touched = false;
      for (size_t j = 0; j < count; ++j) {
        const size_t at = (begin + j) * shape.dim;
        row.store_key(keys.data() + at, key_page, j, shape.dim);
        row.load_key(key_page, j, keys_.data() + at, shape.dim);
        row.store_value(values.data() + at, value_page, j, shape.dim);
        row.load_value(value_page, j, values_.data() + at, shape.dim);
        for (size_t i = 0; i < shape.rows * shape.group; ++i) {
          touched = touched || sees(i / shape.group, i % shape.group, begin + j);
        }
      }
      key_pages_.push_back(touched ? key_page : nullptr);
      value_pages_.push_back(touched ? value_page : nullptr);
    }
  }

  bool sees(size_t row, size_t head, size_t key) const {
    if (key < first_[row] || key >= end_[row]) return false;
    if (shape_.part == 0) return true;
    const uint64_t* list = visible_[row * shape_.group + head];
    return (list[key / shape_.part / 64] >> (key / shape_.part % 64) & 1) != 0;
  }

  // out [rows, group * dim] of rows [first_row, first_row + rows).
  std::vector<float> run(AttentionFn attention, size_t first_row, size_t rows) const {
    const size_t stride = shape_.group * shape_.dim;
    std::vector<float> out(rows * stride, NAN);
    AlignedBuffer<float> scratch(attention_scratch_floats(shape_.keys, shape_.dim));
    std::memset(scratch.data(), 0xFF, scratch.size() * sizeof(float));
    AttentionArgs args;
    args.key_pages = key_pages_.data();
    args.value_pages = value_pages_.data();
    args.page_positions = shape_.page_positions;
    args.head_dim = shape_.dim;
    args.group = shape_.group;
    args.queries = queries_.data() + first_row * stride;
    args.query_stride = stride;
    args.out = out.data();
    args.out_stride = stride;
    args.rows = rows;
    args.first_key = first_.data() + first_row;
    args.end_key = end_.data() + first_row;
    args.scale = scale();
    args.scratch = scratch.data();
    if (shape_.part != 0) {
      args.visible = visible_.data() + first_row * shape_.group;
      args.visible_positions = shape_.part;
    }
    attention(args);
    return out;
  }
  std::vector<float> run(AttentionFn attention) const { return run(attention, 0, shape_.rows); }

  // One query in double; also the largest scale * sum |q k| of its keys.
  std::vector<double> exact(size_t row, size_t head, double& score_magnitude) const {
    const float* query = queries_.data() + (row * shape_.group + head) * shape_.dim;
    std::vector<double> scores(shape_.keys, -INFINITY);
    double largest = -INFINITY;
    score_magnitude = 0;
    for (size_t j = 0; j < shape_.keys; ++j) {
      if (!sees(row, head, j)) continue;
      double score = 0, magnitude = 0;
      for (size_t d = 0; d < shape_.dim; ++d) {
        const double term = double{query[d]} * double{keys_[j * shape_.dim + d]};
        score += term;
        magnitude += std::fabs(term);
      }
      scores[j] = score * double{scale()};
      largest = std::max(largest, scores[j]);
      score_magnitude = std::max(score_magnitude, magnitude * double{scale()});
    }
    std::vector<double> mixed(shape_.dim, 0);
    if (std::isinf(largest)) return mixed;  // it sees nothing
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (size_t j = 0; j < scores.size(); ++j) {
      for (size_t d = 0; d < shape_.dim; ++d) {
        mixed[d] += scores[j] / sum * double{values_[j * shape_.dim + d]};
      }
    }
    return mixed;
  }

  double value_magnitude() const {
    float largest = 0;
    for (const float value : values_) largest = std::max(largest, std::fabs(value));
    return largest;
  }

 private:
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.dim)); }

  std::byte* new_page(size_t bytes) {
    pages_.push_back(std::make_unique<GuardedArray<std::byte>>(bytes));
    std::memset(pages_.back()->data(), 0xFF, bytes);
    return pages_.back()->data();
  }

  // A third of the parts, other ones for each head and every 7 rows; one head sees nothing.
  void make_visible(uint32_t seed) {
    const size_t parts = (shape_.keys + shape_.part - 1) / shape_.part;
    std::mt19937 random(seed);
    for (size_t i = 0; i < shape_.rows * shape_.group; ++i) {
      const size_t list = i / shape_.group / 7 * shape_.group + i % shape_.group;
      if (list == lists_.size()) {
        lists_.emplace_back(parts / 64 + 1, 0);
        for (size_t p = 0; p < parts && list != 1; ++p) {
          if (random() % 3 == 0) lists_.back()[p / 64] |= uint64_t{1} << (p % 64);
        }
      }
    }
    for (size_t i = 0; i < shape_.rows * shape_.group; ++i) {
      visible_.push_back(lists_[i / shape_.group / 7 * shape_.group + i % shape_.group].data());
    }
  }

  Shape shape_;
  std::vector<float> queries_, keys_, values_;
  std::vector<uint32_t> first_, end_;
  std::vector<std::vector<uint64_t>> lists_;
  std::vector<const uint64_t*> visible_;
  std::vector<std::unique_ptr<GuardedArray<std::byte>>> pages_;
  std::vector<const std::byte*> key_pages_, value_pages_;
};

std::vector<Shape> shapes() {
  std::vector<Shape> shapes;
  for (const size_t dim : {1U, 8U, 16U, 20U, 64U, 80U, 96U, 128U, 500U, 512U}) {
    shapes.push_back({.dim = dim, .group = dim % 3 + 1});
  }
  for (const size_t window : {1U, 7U, 8U, 9U}) {
    shapes.push_back({.dim = 16, .group = 2, .page_positions = 4, .rows = 23, .window = window});
    shapes.push_back({.dim = 96, .page_positions = 1, .rows = 9, .window = window});
  }
  for (const size_t page : {1U, 3U, 31U, 32U, 255U, 256U}) {
    shapes.push_back({.page_positions = page, .keys = 300, .rows = 14, .window = 250});
  }
  shapes.push_back({.dim = 128, .group = 3, .page_positions = 64, .keys = 200, .rows = 1});
  shapes.push_back({.dim = 16, .page_positions = 256, .keys = 33, .rows = 33});
  // More queries than go through the keys together.
  shapes.push_back({.dim = 8, .group = 5, .page_positions = 64, .keys = 150, .rows = 61});
  shapes.push_back({.page_positions = 64, .keys = 200, .rows = 121, .window = 70});
  // Parts that are smaller than a block of keys, as large as a page, and larger.
  for (const size_t part : {1U, 4U, 16U, 64U, 100U}) {
    shapes.push_back({.group = 4, .page_positions = 64, .keys = 400, .rows = 30, .part = part});
    shapes.push_back({.dim = 20, .group = 3, .page_positions = 4, .rows = 1, .part = part});
    shapes.push_back(
        {.dim = 16, .page_positions = 64, .keys = 300, .rows = 2, .window = 150, .part = part});
  }
  return shapes;
}

using Attention = EachTable;
PHIDIAS_FOR_EACH_TABLE(Attention);

TEST_P(Attention, OnlineSoftmaxEqualsTheScalarTableBitForBit) {
  for (const Shape& shape : shapes()) {
    for (size_t type = 0; type < kKvTypeCount; ++type) {
      const AttentionCase test(static_cast<KvType>(type), shape, 21);
      ASSERT_TRUE(same_bits(test.run(table().attention[type]), test.run(scalar().attention[type])))
          << kv_type_row(static_cast<KvType>(type)).name << " " << shape.text();
    }
  }
}

TEST_P(Attention, ExactEqualsTheScalarTableBitForBit) {
  for (const Shape& shape : shapes()) {
    const AttentionCase test(KvType::kF32, shape, 22);
    ASSERT_TRUE(same_bits(test.run(table().attention_exact), test.run(scalar().attention_exact)))
        << shape.text();
  }
}

TEST_P(Attention, ARowAloneHasTheBitsItHasAmongOthers) {
  for (const Shape& shape : shapes()) {
    for (size_t type = 0; type <= kKvTypeCount; ++type) {
      const bool exact = type == kKvTypeCount;
      const AttentionFn attention = exact ? table().attention_exact : table().attention[type];
      const AttentionCase test(exact ? KvType::kF32 : static_cast<KvType>(type), shape, 23);
      std::vector<float> alone;
      for (size_t r = 0; r < shape.rows; ++r) {
        const std::vector<float> one = test.run(attention, r, 1);
        alone.insert(alone.end(), one.begin(), one.end());
      }
      ASSERT_TRUE(same_bits(test.run(attention), alone)) << type << " " << shape.text();
    }
  }
}

TEST_P(Attention, OnlineSoftmaxLiesWithinTheDerivedBoundOfDouble) {
  for (const Shape& shape : shapes()) {
    for (size_t type = 0; type < kKvTypeCount; ++type) {
      const AttentionCase test(static_cast<KvType>(type), shape, 24);
      const std::vector<float> got = test.run(table().attention[type]);
      for (size_t r = 0; r < shape.rows; ++r) {
        for (size_t g = 0; g < shape.group; ++g) {
          double score_magnitude = 0;
          const std::vector<double> want = test.exact(r, g, score_magnitude);
          const double tolerance =
              attention_tolerance(test.value_magnitude(), score_magnitude, shape.dim, shape.keys,
                                  shape.keys / shape.page_positions + 1);
          for (size_t d = 0; d < shape.dim; ++d) {
            ASSERT_NEAR(got[(r * shape.group + g) * shape.dim + d], want[d], tolerance)
                << shape.text();
          }
        }
      }
    }
  }
}

// Scores and probabilities are rounded to float once each, the result once more.
TEST_P(Attention, ExactIsOnlyRoundedWhereItSaysSo) {
  for (const Shape& shape : shapes()) {
    const AttentionCase test(KvType::kF32, shape, 25);
    const std::vector<float> got = test.run(table().attention_exact);
    for (size_t r = 0; r < shape.rows; ++r) {
      for (size_t g = 0; g < shape.group; ++g) {
        double score_magnitude = 0;
        const std::vector<double> want = test.exact(r, g, score_magnitude);
        const double tolerance =
            test.value_magnitude() * (2 * kUnitRoundoff * score_magnitude + 2.1 * kUnitRoundoff);
        for (size_t d = 0; d < shape.dim; ++d) {
          ASSERT_NEAR(got[(r * shape.group + g) * shape.dim + d], want[d], tolerance)
              << shape.text();
        }
      }
    }
  }
}

TEST_P(Attention, AnEmptyRangeGivesZerosAndNoPageIsRead) {
  const uint32_t first[] = {3, 0}, end[] = {3, 0};
  const std::vector<float> queries(2 * 16, 1.0F);
  std::vector<float> out(2 * 16, NAN);
  AlignedBuffer<float> scratch(attention_scratch_floats(4, 16));
  AttentionArgs args;
  args.page_positions = 4;
  args.head_dim = 16;
  args.group = 1;
  args.queries = queries.data();
  args.query_stride = 16;
  args.out = out.data();
  args.out_stride = 16;
  args.rows = 2;
  args.first_key = first;
  args.end_key = end;
  args.scratch = scratch.data();
  for (const AttentionFn attention : {table().attention_exact, table().attention[0]}) {
    attention(args);
    for (const float value : out) EXPECT_EQ(value, 0.0F);
  }
}

TEST_P(Attention, LargeScoresGiveNoNan) {
  // |q|, |k| up to 500 at 96 dimensions: scores of millions, far beyond what an F16 could hold.
  Shape shape = {.keys = 64, .rows = 8, .magnitude = 150};
  for (size_t type = 0; type < kKvTypeCount; ++type) {
    const AttentionCase test(static_cast<KvType>(type), shape, 26);
    for (const float value : test.run(table().attention[type])) ASSERT_TRUE(std::isfinite(value));
  }
  const AttentionCase test(KvType::kF32, shape, 26);
  for (const float value : test.run(table().attention_exact)) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(Attention, NanInAHiddenKeyNeverShows) {
  // Row 0 sees keys [0, 4), row 1 all eight; key 6 holds NaN, and only row 1 may notice.
  constexpr size_t kDim = 16, kKeys = 8;
  std::vector<float> keys = normal_floats(kKeys * kDim, 1), values = keys;
  keys[6 * kDim + 2] = values[6 * kDim + 2] = NAN;
  const std::vector<float> queries = normal_floats(2 * kDim, 2);
  std::vector<float> out(2 * kDim);
  const KvTypeRow& type = kv_type_row(KvType::kF32);
  std::vector<std::byte> key_blocks(type.block_bytes(kDim)), value_blocks(key_blocks.size());
  for (size_t j = 0; j < kKeys; ++j) {
    type.store_key(keys.data() + j * kDim, key_blocks.data(), j, kDim);
    type.store_value(values.data() + j * kDim, value_blocks.data(), j, kDim);
  }
  const std::byte* key_page = key_blocks.data();
  const std::byte* value_page = value_blocks.data();
  const uint32_t first[] = {0, 0}, end[] = {4, 8};
  AlignedBuffer<float> scratch(attention_scratch_floats(kKeys, kDim));
  AttentionArgs args;
  args.key_pages = &key_page;
  args.value_pages = &value_page;
  args.page_positions = kKeys;
  args.head_dim = kDim;
  args.group = 1;
  args.queries = queries.data();
  args.query_stride = kDim;
  args.out = out.data();
  args.out_stride = kDim;
  args.rows = 2;
  args.first_key = first;
  args.end_key = end;
  args.scale = 0.25F;
  args.scratch = scratch.data();
  for (const AttentionFn attention :
       {table().attention_exact, table().attention[index_of(KvType::kF32)]}) {
    attention(args);
    for (size_t d = 0; d < kDim; ++d) {
      EXPECT_TRUE(std::isfinite(out[d]));
      EXPECT_TRUE(std::isnan(out[kDim + d]));
    }
  }
}

// Its three steps, each looked at, have together the bits of the whole; and a step writes nothing
// but what it was asked for.
TEST_P(Attention, StepByStepItIsTheSameAttention) {
  for (const size_t dim : {size_t{1}, size_t{16}, size_t{36}, size_t{96}, size_t{128}}) {
    for (const auto& [first, count] :
         {std::pair<size_t, size_t>{0, 1}, {0, 16}, {3, 17}, {17, 64}, {5, 130}, {64, 64}}) {
      const size_t end = first + count;
      const std::vector<float> keys = normal_floats(end * dim, 3);
      const GuardedArray<float> values(normal_floats(count * dim, 4));
      const GuardedArray<float> query(normal_floats(dim, 5));
      std::vector<float> blocks(kv_blocks(end) * kKvBlock * dim, NAN), slots = blocks;
      const KvTypeRow& type = kv_type_row(KvType::kF32);
      for (size_t j = 0; j < end; ++j) {
        type.store_key(keys.data() + j * dim, reinterpret_cast<std::byte*>(blocks.data()), j, dim);
        if (j >= first) {
          type.store_value(values.data() + (j - first) * dim,
                           reinterpret_cast<std::byte*>(slots.data()), j, dim);
        }
      }
      const float scale = 0.3F;
      std::vector<float> scores(end + 1, NAN), probabilities(count), out(dim + 1, NAN);
      std::vector<double> scratch(count + kDoubleLanes);
      table().attention_scores(query.data(), blocks.data(), dim, first, end, scale, scores.data());
      for (size_t j = 0; j < first; ++j) ASSERT_TRUE(std::isnan(scores[j]));
      ASSERT_TRUE(std::isnan(scores[end]));
      table().softmax(scores.data() + first, scratch.data(), probabilities.data(), count);
      table().attention_mix(probabilities.data(), values.data(), dim, count, out.data());
      ASSERT_TRUE(std::isnan(out[dim]));

      const auto* key_page = reinterpret_cast<const std::byte*>(blocks.data());
      const auto* value_page = reinterpret_cast<const std::byte*>(slots.data());
      const auto first_key = static_cast<uint32_t>(first), end_key = static_cast<uint32_t>(end);
      std::vector<float> whole(dim);
      AlignedBuffer<float> memory(attention_scratch_floats(end, dim));
      AttentionArgs args;
      args.key_pages = &key_page;
      args.value_pages = &value_page;
      args.page_positions = kMaxPagePositions;
      args.head_dim = dim;
      args.group = 1;
      args.queries = query.data();
      args.query_stride = dim;
      args.out = whole.data();
      args.out_stride = dim;
      args.rows = 1;
      args.first_key = &first_key;
      args.end_key = &end_key;
      args.scale = scale;
      args.scratch = memory.data();
      scalar().attention_exact(args);
      out.pop_back();
      ASSERT_TRUE(same_bits(out, whole)) << dim << ", keys " << first << " to " << end;
    }
  }
}

}  // namespace
}  // namespace phidias::test
