// Any weights and activations in any shape: every table that this machine can run gives the bits of
// the plain one, NaN payloads aside, in memory that ends where it is said to.
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "fuzz_input.h"
#include "kernels/order.h"
#include "kernels/table.h"

namespace phidias {
namespace {

// The input first, then numbers drawn from what it began with: an input need not be as long as the
// operands are.
class Source {
 public:
  Source(const uint8_t* data, size_t size) : input_(data, size), state_(input_.take<uint32_t>()) {}

  size_t within(size_t low, size_t high) { return input_.within(low, high); }
  bool one_in(size_t n) { return within(0, n - 1) == 0; }
  float number() { return static_cast<float>(input_.number(-100, 100)); }

  std::vector<std::byte> bytes(size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(word());
    return bytes;
  }
  // Of ordinary size, with an outlier here and there; or any bits at all.
  std::vector<float> floats(size_t count) {
    const size_t kind = within(0, 3);
    const float scale = std::exp2(static_cast<float>(within(0, 40)) - 20.0F);
    std::vector<float> values(count);
    for (float& value : values) {
      if (kind == 0) {
        value = std::bit_cast<float>(word() << 16 ^ word());
        continue;
      }
      value = scale * static_cast<float>(static_cast<int32_t>(word() << 16)) * 0x1p-31F;
      if (kind == 1 && word() % 64 == 0) value *= 1000;
      if (kind == 2 && word() % 64 == 0) value = 0;
    }
    return values;
  }

 private:
  uint32_t word() {
    if (!input_.empty()) return input_.take<uint16_t>();
    state_ = state_ * 1664525U + 1013904223U;
    return state_ >> 16;
  }

  FuzzInput input_;
  uint32_t state_;
};

void require_same(std::span<const float> got, std::span<const float> want) {
  require(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = std::isnan(got[i]) && std::isnan(want[i]);
    require(both_nan || std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want[i]));
  }
}

// What `compute` makes of each table, compared.
void compare(const std::function<std::vector<float>(const KernelTable&)>& compute) {
  const auto tables = available_tables();
  const std::vector<float> want = compute(*tables.front());
  for (const KernelTable* table : tables.subspan(1)) require_same(compute(*table), want);
}

// Activations and their quantized form, as a table makes it.
struct Quantized {
  std::vector<int8_t> values, second_values;
  std::vector<float> scales, sums, second_scales, second_sums;

  Quantized(const KernelTable& table, std::span<const float> x, size_t cols)
      : values(x.size()),
        second_values(x.size(), 77),
        scales(x.size() / kQuantGroup),
        sums(scales.size()),
        second_scales(scales.size()),
        second_sums(scales.size(), NAN) {
    for (size_t r = 0; r < x.size() / cols; ++r)
      table.quantize_q8(x.data() + r * cols, rows().from(r, cols), cols);
  }
  QuantizedRows rows() {
    return {values.data(),        scales.data(),        sums.data(),
            second_values.data(), second_scales.data(), second_sums.data()};
  }
  // All that is promised, as floats.
  std::vector<float> numbers() const {
    std::vector<float> all(values.begin(), values.end());
    all.insert(all.end(), scales.begin(), scales.end());
    all.insert(all.end(), sums.begin(), sums.end());
    all.insert(all.end(), second_scales.begin(), second_scales.end());
    for (size_t g = 0; g < scales.size(); ++g) {
      if (second_scales[g] == 0) continue;
      all.push_back(second_sums[g]);
      all.insert(all.end(), second_values.begin() + static_cast<ptrdiff_t>(g * kQuantGroup),
                 second_values.begin() + static_cast<ptrdiff_t>((g + 1) * kQuantGroup));
    }
    return all;
  }
};

void products(Source& source) {
  const FormatRow& format = format_rows()[source.within(0, kFormatCount - 1)];
  const size_t most = format.block_values == 1 ? 1200 : 1280 / format.block_values;
  const size_t cols = source.within(1, most) * format.block_values;
  const size_t outs = source.within(1, 50);
  // Few rows, a few more, or as many as go past the caches, in rows that begin at a cache line.
  const bool many = source.one_in(32);
  const size_t rows = many ? 66 : source.within(1, source.one_in(4) ? 20 : 5);
  const size_t stride = many ? 64 : outs + source.within(0, 3);
  const size_t begin = source.within(0, outs - 1);
  const size_t end = source.within(begin + 1, outs);
  const std::vector<float> x = source.floats(rows * cols);
  const std::vector<std::byte> weights = source.bytes(format.matrix_bytes(outs, cols));
  AlignedBuffer<float> scratch(matmul_scratch_floats(cols));
  AlignedBuffer<float> y(rows * stride);
  MatmulArgs args;
  args.weights = weights.data();
  args.row_bytes = format.tile_bytes(cols);
  args.cols = cols;
  args.out_begin = begin;
  args.out_end = end;
  args.x = x.data();
  args.x_stride = cols;
  args.rows = rows;
  args.y = y.data();
  args.y_stride = stride;
  args.scratch = scratch.data();
  const auto run = [&](MatmulFn product) {
    std::fill_n(y.data(), y.size(), 12345.0F);
    product(args);
    return std::vector<float>(y.data(), y.data() + y.size());
  };
  const size_t at = index_of(format.format);
  compare([&](const KernelTable& table) { return run(table.matmul_f32[at]); });
  if (available_tables().front()->matmul_q8[at] == nullptr) return;
  Quantized quantized(*available_tables().front(), x, cols);
  args.q = quantized.rows();
  compare([&](const KernelTable& table) { return run(table.matmul_q8[at]); });
}

void rows_of_values(Source& source) {
  const size_t n = source.within(1, 200);
  const std::vector<float> a = source.floats(n), b = source.floats(n), c = source.floats(n);
  const std::vector<float> pairs = source.floats(2 * n);
  const std::vector<float> groups = source.floats(source.within(1, 8) * kQuantGroup);
  const float epsilon = std::fabs(source.number());
  std::vector<float> y(n);
  compare([&](const KernelTable& table) {
    table.rms_norm(a.data(), b.data(), epsilon, y.data(), n);
    return y;
  });
  compare([&](const KernelTable& table) {
    table.layer_norm(a.data(), b.data(), c.data(), epsilon, y.data(), n);
    return y;
  });
  compare([&](const KernelTable& table) {
    std::vector<float> head = pairs;
    table.rope(head.data(), a.data(), b.data(), n);
    return head;
  });
  compare([&](const KernelTable& table) {
    table.silu_mul(a.data(), b.data(), y.data(), n);
    return y;
  });
  compare([&](const KernelTable& table) {
    table.gegelu(pairs.data(), epsilon, y.data(), n);
    return y;
  });
  compare([&](const KernelTable& table) {
    std::vector<float> sum = a;
    table.add(sum.data(), b.data(), n);
    return sum;
  });
  compare([&](const KernelTable& table) {
    std::vector<float> gradient = b;
    table.silu_gradient(a.data(), gradient.data(), n);
    return gradient;
  });
  compare([&](const KernelTable& table) {
    return std::vector<float>{static_cast<float>(table.argmax(a.data(), n))};
  });
  compare([&](const KernelTable& table) {
    std::vector<uint16_t> halves(n);
    table.round_bf16(a.data(), halves.data(), n);
    return std::vector<float>(halves.begin(), halves.end());
  });
  compare([&](const KernelTable& table) {
    std::vector<double> scratch((n + kDoubleLanes - 1) / kDoubleLanes * kDoubleLanes);
    table.softmax(a.data(), scratch.data(), y.data(), n);
    return y;
  });
  compare(
      [&](const KernelTable& table) { return Quantized(table, groups, groups.size()).numbers(); });
}

void transposed(Source& source) {
  TransposedArgs args;
  args.outs = source.within(1, 20);
  args.cols = source.within(1, 90);
  args.rows = source.within(1, 10);
  args.weight_stride = args.cols;
  args.total_stride = args.cols;
  const bool across = source.one_in(2);
  args.row_stride = across ? 1 : args.outs;
  args.out_stride = across ? args.rows : 1;
  const std::vector<float> weights = source.floats(args.outs * args.cols);
  const std::vector<float> x = source.floats(args.outs * args.rows);
  args.weights = weights.data();
  args.x = x.data();
  compare([&](const KernelTable& table) {
    std::vector<double> totals(args.rows * args.cols, 1.0);
    TransposedArgs of_table = args;
    of_table.totals = totals.data();
    table.add_transposed(of_table);
    return std::vector<float>(totals.begin(), totals.end());
  });
}

// A sequence of keys in pages, and queries over it.
void attention(Source& source) {
  const auto type = static_cast<KvType>(source.within(0, kKvTypeCount - 1));
  const KvTypeRow& row = kv_type_row(type);
  const size_t dim = source.within(1, 70);
  const size_t page_positions = source.within(1, 80);
  const size_t keys = source.within(1, 150);
  const size_t rows = source.within(1, source.one_in(8) ? 50 : 6);
  const size_t group = source.within(1, 4);
  const size_t part = source.one_in(3) ? source.within(1, 40) : 0;
  const std::vector<float> all_keys = source.floats(keys * dim);
  const std::vector<float> all_values = source.floats(keys * dim);
  const std::vector<float> queries = source.floats(rows * group * dim);

  std::vector<uint32_t> first(rows), end(rows);
  for (size_t r = 0; r < rows; ++r) {
    end[r] = static_cast<uint32_t>(source.within(0, keys));
    first[r] = static_cast<uint32_t>(source.within(0, 150));  // beyond the end: nothing is seen
  }
  std::vector<uint64_t> lists(rows * group * 3);
  for (uint64_t& list : lists) list = source.within(0, 0xFFFF) * 0x0001'0003'0007'000FU;
  std::vector<const uint64_t*> visible;
  for (size_t i = 0; i < rows * group; ++i) visible.push_back(lists.data() + 3 * i);

  std::vector<std::vector<std::byte>> key_pages, value_pages;
  std::vector<const std::byte*> key_pointers, value_pointers;
  for (size_t begin = 0; begin < keys; begin += page_positions) {
    const size_t count = std::min(page_positions, keys - begin);
    const size_t bytes = kv_blocks(count) * row.block_bytes(dim);
    std::vector<std::byte> key_page(bytes, std::byte{0xFF}), value_page = key_page;
    for (size_t j = 0; j < count; ++j) {
      row.store_key(all_keys.data() + (begin + j) * dim, key_page.data(), j, dim);
      row.store_value(all_values.data() + (begin + j) * dim, value_page.data(), j, dim);
    }
    compare([&](const KernelTable& table) {
      std::vector<std::byte> page(bytes, std::byte{0xFF});
      const size_t slot = count - 1;
      std::vector<float> loaded(2 * dim);
      table.store_key[index_of(type)](all_keys.data() + begin * dim, page.data(), slot, dim);
      row.load_key(page.data(), slot, loaded.data(), dim);
      table.store_value[index_of(type)](all_values.data() + begin * dim, page.data(), slot, dim);
      row.load_value(page.data(), slot, loaded.data() + dim, dim);
      return loaded;
    });
    key_pages.push_back(std::move(key_page));
    value_pages.push_back(std::move(value_page));
    key_pointers.push_back(key_pages.back().data());
    value_pointers.push_back(value_pages.back().data());
  }

  std::vector<float> out(rows * group * dim);
  AlignedBuffer<float> scratch(attention_scratch_floats(keys, dim));
  AttentionArgs args;
  args.key_pages = key_pointers.data();
  args.value_pages = value_pointers.data();
  args.page_positions = page_positions;
  args.head_dim = dim;
  args.group = group;
  args.queries = queries.data();
  args.query_stride = group * dim;
  args.out = out.data();
  args.out_stride = group * dim;
  args.rows = rows;
  args.first_key = first.data();
  args.end_key = end.data();
  args.scale = source.number();
  args.scratch = scratch.data();
  if (part != 0) {
    args.visible = visible.data();
    args.visible_positions = part;
  }
  const auto run = [&](AttentionFn function) {
    function(args);
    return out;
  };
  compare([&](const KernelTable& table) { return run(table.attention[index_of(type)]); });
  if (type != KvType::kF32) return;
  compare([&](const KernelTable& table) { return run(table.attention_exact); });
  compare([&](const KernelTable& table) {
    const size_t count = std::min(page_positions, keys);
    std::vector<float> scores(count);
    table.attention_scores(queries.data(), reinterpret_cast<const float*>(key_pointers[0]), dim, 0,
                           count, args.scale, scores.data());
    return scores;
  });
  compare([&](const KernelTable& table) {
    std::vector<float> mixed(dim);
    table.attention_mix(all_keys.data(), all_values.data(), dim, keys / dim, mixed.data());
    return mixed;
  });
}

}  // namespace
}  // namespace phidias

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phidias::Source source(data, size);
  constexpr void (*kSubjects[])(phidias::Source&) = {phidias::products, phidias::rows_of_values,
                                                     phidias::transposed, phidias::attention};
  kSubjects[source.within(0, std::size(kSubjects) - 1)](source);
  return 0;
}
