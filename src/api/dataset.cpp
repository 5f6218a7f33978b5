#include "phidias/dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "api/dataset_columns.h"
#include "api/dataset_index.h"
#include "api/model_impl.h"
#include "api/tapped_sequence.h"
#include "base/random.h"
#include "base/try.h"
#include "trace/sequence_trace.h"

namespace phidias {
namespace {

// Tokens [begin, end) of all texts one after another, held until their shards are written. Rows are
// encoded as they come.
struct Pool {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::vector<std::vector<std::byte>> values;  // of each column
  std::vector<std::vector<float>> scales;      // likewise, where rows are scaled
  std::vector<int64_t> ids, positions, owners;
  std::vector<float> loss;

  size_t size() const { return end - begin; }
};

double log_sum(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

// A random order that depends on the seed and the pool's number alone (Fisher and Yates).
std::vector<size_t> shuffled(size_t count, uint64_t seed, uint64_t pool) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  const RandomKey key =
      draw_key(seed, static_cast<uint32_t>(pool >> 32), static_cast<uint32_t>(pool));
  for (size_t i = count; i > 1; --i) {
    const auto id = static_cast<uint32_t>(i);
    uint64_t bits = 0;
    draw_bits(key, {&id, 1}, {&bits, 1});
    std::swap(order[i - 1],
              order[static_cast<size_t>(open_uniform(bits) * static_cast<double>(i))]);
  }
  return order;
}

template <typename T>
std::vector<T> picked(const std::vector<T>& all, std::span<const size_t> order, size_t width = 1) {
  std::vector<T> some;
  some.reserve(order.size() * width);
  for (const size_t row : order) {
    const auto from = all.begin() + static_cast<ptrdiff_t>(row * width);
    some.insert(some.end(), from, from + static_cast<ptrdiff_t>(width));
  }
  return some;
}

class DatasetRun {
 public:
  DatasetRun(Engine& engine, const std::vector<std::vector<TokenId>>& sequences,
             std::filesystem::path folder, const CollectOptions& options)
      : engine_(engine),
        sequences_(sequences),
        folder_(std::move(folder)),
        options_(options),
        starts_(sequences.size() + 1) {}

  Result<Collection> run() {
    const ModelSpec& spec = engine_.stepper().spec();
    PHIDIAS_TRY(columns_, dataset_columns(spec, options_));
    PHIDIAS_TRY(storage_, RowStorage::from_name(options_.dtype));
    const uint64_t capacity = options_.shard_tokens;
    if (capacity == 0) {
      return Error{Code::kInvalidArgument, "must be at least 1", {{}, {}, "shard_tokens"}};
    }
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (sequences_[i].empty())
        return Error{Code::kInvalidArgument, "a text has no tokens", {{}, {}, "sequences"}};
      starts_[i + 1] = starts_[i] + sequences_[i].size();
    }
    PHIDIAS_TRY(DatasetIndex index, DatasetIndex::open(engine_, sequences_, folder_, options_));
    const uint64_t tokens = starts_.back();
    const size_t reused = index.shards();
    const uint64_t pool_tokens =
        std::max<uint64_t>((options_.shuffle_tokens + capacity - 1) / capacity, 1) * capacity;
    for (uint64_t at = reused * capacity / pool_tokens * pool_tokens; at < tokens;
         at += pool_tokens) {
      Pool pool;
      pool.begin = at;
      pool.end = std::min(tokens, at + pool_tokens);
      PHIDIAS_CHECK_OK(fill(pool));
      PHIDIAS_CHECK_OK(write(pool, index, pool_tokens));
    }
    PHIDIAS_CHECK_OK(index.finish());
    if (options_.progress) options_.progress(tokens, tokens);
    return Collection{tokens, sequences_.size(), index.shards(), reused, index.bytes()};
  }

 private:
  Status fill(Pool& pool) {
    for (const DatasetColumn& column : columns_) {
      pool.values.emplace_back(storage_.row_bytes(column.width) * pool.size());
      pool.scales.emplace_back(storage_.scaled() ? pool.size() : 0);
    }
    pool.ids.resize(pool.size());
    pool.positions.resize(pool.size());
    pool.owners.resize(pool.size());
    pool.loss.assign(options_.loss ? pool.size() : 0, std::numeric_limits<float>::quiet_NaN());
    // Texts that have tokens here; as many in a step as fit.
    auto first =
        static_cast<size_t>(std::ranges::upper_bound(starts_, pool.begin) - starts_.begin()) - 1;
    while (first < sequences_.size() && starts_[first] < pool.end) {
      size_t end = first + 1;
      while (end < sequences_.size() && starts_[end] < pool.end &&
             starts_[end + 1] - starts_[first] <= engine_.stepper().options().step_rows)
        ++end;
      const uint64_t done = std::max(starts_[first], pool.begin);
      if (options_.progress && !options_.progress(done, starts_.back()))
        return Error{
            Code::kCancelled, "was interrupted; resume to go on", {folder_.string(), {}, {}}};
      PHIDIAS_CHECK_OK(run_together(first, end, pool));
      first = end;
    }
    return {};
  }

  Status run_together(size_t first, size_t end, Pool& pool) {
    Stepper& stepper = engine_.stepper();
    const Model::Impl& model = engine_.model().impl();
    std::vector<std::unique_ptr<SequenceTrace>> taps;  // outlive the sequences
    std::vector<TappedSequence> open;
    std::vector<Row> rows;
    StepLayers layers{.first = 0, .end = options_.loss ? SIZE_MAX : 0, .streams = {}};
    for (size_t s = first; s < end; ++s) {
      const std::vector<TokenId>& ids = sequences_[s];
      PHIDIAS_TRY(auto compiled, SequenceTrace::compile({.reads = options_.reads,
                                                         .edits = &options_.edits,
                                                         .prompt = ids,
                                                         .rows = ids.size(),
                                                         .step_rows = stepper.options().step_rows,
                                                         .max_bytes = TraceOptions().max_bytes},
                                                        {&model.spec, &model.weights,
                                                         &stepper.rope(), stepper.options().kv}));
      PHIDIAS_CHECK_OK(compiled.allocate());
      layers.end = std::max(layers.end, compiled.end_layer());
      taps.push_back(std::make_unique<SequenceTrace>(std::move(compiled)));
      open.emplace_back(
          stepper,
          SequenceOptions{.prompt_tokens = static_cast<uint32_t>(ids.size()), .images = {}},
          taps.back().get());
      for (size_t at = 0; at < ids.size(); ++at) {
        rows.push_back({taps.back()->fed(at, ids[at]), open.back().id(), static_cast<uint32_t>(at),
                        options_.loss && at + 1 < ids.size()});
      }
    }
    PHIDIAS_CHECK_OK(stepper.step(
        rows,
        [&](size_t row, std::span<const float> logits) {
          const uint64_t next = starts_[first] + row + 1;  // the token that the row predicts
          if (next < pool.begin || next >= pool.end) return;
          const auto token = static_cast<size_t>(rows[row + 1].token);
          pool.loss[next - pool.begin] =
              static_cast<float>(log_sum(logits) - static_cast<double>(logits[token]));
        },
        layers));
    for (size_t s = first; s < end; ++s)
      keep(std::move(*taps[s - first]).take(sequences_[s].size()), s, pool);
    return {};
  }

  void keep(const Traced& traced, size_t sequence, Pool& pool) const {
    const size_t count = sequences_[sequence].size();
    std::vector<float> row;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t token = starts_[sequence] + i;
      if (token < pool.begin || token >= pool.end) continue;
      const size_t at = token - pool.begin;
      pool.ids[at] = sequences_[sequence][i];
      pool.positions[at] = static_cast<int64_t>(i);
      pool.owners[at] = static_cast<int64_t>(sequence);
      for (size_t c = 0; c < columns_.size(); ++c) {
        const DatasetColumn& column = columns_[c];
        const std::vector<float>& floats = traced.entries[c].tensor.floats;
        const size_t inner = column.width / column.heads;
        row.clear();
        for (size_t h = 0; h < column.heads; ++h) {
          const auto from = floats.begin() + static_cast<ptrdiff_t>((h * count + i) * inner);
          row.insert(row.end(), from, from + static_cast<ptrdiff_t>(inner));
        }
        float scale = 0;
        storage_.encode(row, pool.values[c].data() + at * storage_.row_bytes(column.width), scale);
        if (storage_.scaled()) pool.scales[c][at] = scale;
      }
    }
  }

  Status write(const Pool& pool, DatasetIndex& index, uint64_t pool_tokens) {
    const bool shuffles = options_.shuffle_tokens > 0;
    std::vector<size_t> order(pool.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (shuffles) order = shuffled(pool.size(), options_.shuffle_seed, pool.begin / pool_tokens);
    for (size_t begin = 0; begin < order.size(); begin += options_.shard_tokens) {
      const size_t number = (pool.begin + begin) / options_.shard_tokens;
      if (number < index.shards()) continue;  // it was there already
      const std::span<const size_t> part = std::span(order).subspan(
          begin, std::min<size_t>(options_.shard_tokens, order.size() - begin));
      PHIDIAS_CHECK_OK(write_shard(pool, part, !shuffles, index));
    }
    return {};
  }

  Status write_shard(const Pool& pool, std::span<const size_t> rows, bool in_order,
                     DatasetIndex& index) const {
    const uint64_t count = rows.size();
    std::vector<SafetensorsData> tensors;
    const auto add = [&](std::string name, std::string dtype, std::vector<uint64_t> shape,
                         std::span<const std::byte> data) {
      tensors.push_back({{std::move(name), std::move(dtype), std::move(shape)}, data});
    };
    const auto ids = picked(pool.ids, rows);
    const auto positions = picked(pool.positions, rows);
    const auto owners = picked(pool.owners, rows);
    add("token_ids", "I64", {count}, std::as_bytes(std::span(ids)));
    add("positions", "I64", {count}, std::as_bytes(std::span(positions)));
    add("sequence", "I64", {count}, std::as_bytes(std::span(owners)));
    std::vector<int64_t> offsets;
    for (size_t i = 0; i < count; ++i) {
      if (i == 0 || owners[i] != owners[i - 1]) offsets.push_back(static_cast<int64_t>(i));
    }
    offsets.push_back(static_cast<int64_t>(count));
    if (in_order)
      add("sequence_offsets", "I64", {offsets.size()}, std::as_bytes(std::span(offsets)));
    std::vector<float> loss;
    if (options_.loss) {
      loss = picked(pool.loss, rows);
      add("loss", "F32", {count}, std::as_bytes(std::span(loss)));
    }
    std::vector<std::vector<std::byte>> values(columns_.size());
    std::vector<std::vector<float>> scales(columns_.size());
    for (size_t c = 0; c < columns_.size(); ++c) {
      const DatasetColumn& column = columns_[c];
      values[c] = picked(pool.values[c], rows, storage_.row_bytes(column.width));
      std::vector<uint64_t> shape{count};
      shape.insert(shape.end(), column.row_shape.begin(), column.row_shape.end());
      add(column.name, storage_.safetensors(), std::move(shape), values[c]);
      if (!storage_.scaled()) continue;
      scales[c] = picked(pool.scales[c], rows);
      add(column.name + ".scale", "F32", {count}, std::as_bytes(std::span(scales[c])));
    }
    return index.add_shard(std::move(tensors), count);
  }

  Engine& engine_;
  const std::vector<std::vector<TokenId>>& sequences_;
  std::filesystem::path folder_;
  const CollectOptions& options_;
  std::vector<uint64_t> starts_;  // the first token of each text, then of all
  std::vector<DatasetColumn> columns_;
  RowStorage storage_;
};

}  // namespace

Result<uint64_t> collected_bytes_per_token(const Model& model, const CollectOptions& options) {
  PHIDIAS_TRY(const RowStorage storage, RowStorage::from_name(options.dtype));
  PHIDIAS_TRY(const auto columns, dataset_columns(model.impl().spec, options));
  uint64_t bytes = 3 * sizeof(int64_t) + (options.loss ? sizeof(float) : 0);
  for (const DatasetColumn& column : columns)
    bytes += storage.row_bytes(column.width) + (storage.scaled() ? sizeof(float) : 0);
  return bytes;
}

Result<Collection> collect(Engine& engine, const std::vector<std::vector<TokenId>>& sequences,
                           const std::filesystem::path& folder, const CollectOptions& options) {
  CollectOptions all = options;
  all.edits = engine.edits_in_force();
  all.edits += options.edits;
  return DatasetRun(engine, sequences, folder, all).run();
}

}  // namespace phidias
