#include "trace/collector.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/try.h"
#include "kernels/attention_explicit.h"

namespace phidias {
namespace {

// 1 / sqrt(mean(x^2) + epsilon), the mean taken off where the norm does so.
float norm_scale(const ModelSpec& spec, const float* x) {
  double mean = 0;
  if (spec.norm == Norm::kLayer) {
    for (size_t i = 0; i < spec.width; ++i) mean += static_cast<double>(x[i]);
    mean /= spec.width;
  }
  double sum = 0;
  for (size_t i = 0; i < spec.width; ++i) {
    const double centred = static_cast<double>(x[i]) - mean;
    sum += centred * centred;
  }
  return static_cast<float>(1 /
                            std::sqrt(sum / spec.width + static_cast<double>(spec.norm_epsilon)));
}

void softmax(const float* logits, size_t count, float* out) {
  const double largest = static_cast<double>(*std::max_element(logits, logits + count));
  std::vector<double> weights(count);
  for (size_t i = 0; i < count; ++i)
    weights[i] = std::exp(static_cast<double>(logits[i]) - largest);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(weights[i] / sum);
}

}  // namespace

Result<Collector> Collector::compile(const Read& read, size_t number, size_t layer,
                                     const RequestShape& request, const CollectorContext& context) {
  const ValueInfo& info = info_of(read.value.id);
  const std::string place = read.value.to_string();
  if (const auto missing = missing_value(info.id, *request.spec))
    return Error{Code::kUnsupported, *missing, {{}, {}, place}};
  Collector collector;
  collector.context_ = context;
  collector.read_ = number;
  collector.layer_ = layer;
  collector.id_ = info.id;
  collector.moment_ = read.moment;
  collector.segment_ = source_of(info.id).segment(*request.spec);
  if (info.layout == Layout::kBlocks)
    collector.segment_.inner = key_blocks(*request.spec, request.rows);
  const Selection& selection = read.value.selection;
  const bool pattern = info.layout == Layout::kPattern;
  Positions at = selection.at;
  if (info.id == ValueId::kNextTokenProbs && at == Positions()) at = Positions(kLast);
  PHIDIAS_TRY(collector.at_, PositionSet::resolve(at, request.prompt, request.rows, place));
  PHIDIAS_TRY(collector.heads_,
              resolve_or_all(selection.heads, collector.segment_.groups, "head", place));
  PHIDIAS_TRY(collector.keys_,
              PositionSet::resolve(selection.keys, request.prompt, request.rows, place));
  PHIDIAS_TRY(collector.channels_,
              resolve_indices(selection.channels, collector.segment_.inner, "channel", place));
  collector.entries_ = pattern                       ? collector.keys_.size()
                       : collector.channels_.empty() ? collector.segment_.inner
                                                     : collector.channels_.size();
  if (!pattern && selection.keys != Positions()) {
    return Error{Code::kInvalidArgument, "has no key axis", {{}, {}, place}};
  }
  const uint64_t rows = collector.at_.size();
  const uint64_t heads = collector.heads_.size();
  const uint64_t entries = collector.entries_;
  switch (info.layout) {
    case Layout::kTokens:
      collector.shape_ = {1, rows};
      break;
    case Layout::kSize:
      collector.shape_ = {2};
      break;
    case Layout::kHeadOutputs:
    case Layout::kContributions:
      collector.shape_ = {1, rows, heads, entries};
      break;
    case Layout::kNextTokenProbs:
      if (rows != 1) {
        return Error{
            Code::kInvalidArgument, "is of one position; read logits for several", {{}, {}, place}};
      }
      collector.shape_ = {1, entries};
      break;
    default:
      collector.heads_first_ = has_heads(info.layout);
      collector.shape_ = collector.heads_first_ ? std::vector<uint64_t>{1, heads, rows, entries}
                                                : std::vector<uint64_t>{1, rows, entries};
  }
  return collector;
}

uint64_t Collector::bytes() const {
  uint64_t total = is_integer(id_) ? sizeof(int64_t) : sizeof(float);
  for (const uint64_t extent : shape_) total *= extent;  // below rows^2 * heads: no overflow
  return total;
}

void Collector::allocate() {
  tensor_.shape = shape_;
  const size_t count = bytes() / (is_integer(id_) ? sizeof(int64_t) : sizeof(float));
  if (is_integer(id_)) {
    tensor_.type = TensorType::kI64;
    tensor_.integers.assign(count, 0);
    if (id_ == ValueId::kInputSize) tensor_.integers = {1, 0};
  } else {
    // Keys that a row's pass did not reach come after it: they are hidden.
    tensor_.floats.assign(count, id_ == ValueId::kAttentionScores ? kHiddenScore : 0.0F);
  }
}

size_t Collector::offset(size_t index, size_t group) const {
  return (heads_first_ ? group * at_.size() + index : index * heads_.size() + group) * entries_;
}

float* Collector::out(size_t index, size_t group) {
  return tensor_.floats.data() + offset(index, group);
}

void Collector::collect(const SiteRows& rows) {
  const Extract extract = source_of(id_).extract;
  if (extract == Extract::kContributions) return contributions(rows);
  const KvTypeRow& cache = kv_type_row(context_.kv);
  const bool cached = id_ == ValueId::kAttentionKeys || id_ == ValueId::kAttentionValues;
  std::vector<float> whole;
  std::vector<std::byte> stored(cached ? cache.block_bytes(segment_.inner) : 0);
  for (size_t r = 0; r < rows.rows; ++r) {
    const size_t index = at_.index(rows.position + r);
    if (index == PositionSet::kNone) continue;
    const float* row = rows.data + r * rows.stride;
    if (extract == Extract::kNormScale) {
      *out(index, 0) = norm_scale(*context_.spec, row);
      continue;
    }
    if (extract == Extract::kNextTokenProbs) {
      whole.resize(segment_.inner);
      softmax(row, segment_.inner, whole.data());
      row = whole.data();
    }
    for (size_t g = 0; g < heads_.size(); ++g) {
      const float* vector = row + segment_.offset + heads_[g] * segment_.group_stride;
      if (cached && context_.kv != KvType::kF32) {  // as the cache gives it back
        whole.resize(segment_.inner);
        cache.store_value(vector, stored.data(), 0, segment_.inner);
        cache.load_value(stored.data(), 0, whole.data(), segment_.inner);
        vector = whole.data();
      }
      if (is_integer(id_)) {
        for (size_t i = 0; i < entries_; ++i) {
          const size_t c = channels_.empty() ? i : channels_[i];
          tensor_.integers[offset(index, g) + i] = static_cast<int64_t>(vector[c]);
        }
        continue;
      }
      float* to = out(index, g);
      if (channels_.empty() && segment_.inner_stride == 1) {
        std::copy_n(vector, entries_, to);
        continue;
      }
      for (size_t i = 0; i < entries_; ++i)
        to[i] = vector[(channels_.empty() ? i : channels_[i]) * segment_.inner_stride];
    }
  }
}

void Collector::collect(const SitePattern& pattern) {
  for (size_t r = 0; r < pattern.rows; ++r) {
    const size_t index = at_.index(pattern.position + r);
    if (index == PositionSet::kNone) continue;
    for (size_t g = 0; g < heads_.size(); ++g) {
      const float* row = pattern.data + (r * pattern.heads + heads_[g]) * pattern.keys;
      float* to = out(index, g);
      if (keys_.contiguous()) {
        const size_t begin = std::min(keys_.position(0), pattern.keys);
        std::copy_n(row + begin, std::min(entries_, pattern.keys - begin), to);
        continue;
      }
      for (size_t i = 0; i < entries_; ++i) {
        const size_t key = keys_.position(i);
        if (key < pattern.keys) to[i] = row[key];
      }
    }
  }
}

Tensor Collector::take(size_t rows) && {
  const auto reached = [&](const PositionSet& set) {
    std::vector<size_t> kept;
    for (size_t i = 0; i < set.size(); ++i) {
      if (set.position(i) < rows) kept.push_back(i);
    }
    return kept;
  };
  const Layout layout = info_of(id_).layout;
  const std::vector<size_t> positions = reached(at_);
  const bool pattern = layout == Layout::kPattern;
  const std::vector<size_t> keys = pattern ? reached(keys_) : std::vector<size_t>();
  const bool whole = positions.size() == at_.size() && (!pattern || keys.size() == keys_.size());
  if (whole || layout == Layout::kSize || layout == Layout::kNextTokenProbs)
    return std::move(tensor_);
  Tensor cut{tensor_.type, shape_, {}, {}};
  const size_t entries = pattern ? keys.size() : entries_;
  const auto add = [&](size_t index, size_t group) {
    if (tensor_.type == TensorType::kI64) {
      const auto from = tensor_.integers.begin() + static_cast<ptrdiff_t>(offset(index, group));
      cut.integers.insert(cut.integers.end(), from, from + static_cast<ptrdiff_t>(entries));
      return;
    }
    const float* vector = out(index, group);
    for (size_t i = 0; i < entries; ++i) cut.floats.push_back(vector[pattern ? keys[i] : i]);
  };
  if (heads_first_) {
    for (size_t g = 0; g < heads_.size(); ++g) {
      for (const size_t index : positions) add(index, g);
    }
    cut.shape[2] = positions.size();
    cut.shape[3] = entries;
  } else {
    for (const size_t index : positions) {
      for (size_t g = 0; g < heads_.size(); ++g) add(index, g);
    }
    cut.shape[1] = positions.size();
  }
  return cut;
}

void Collector::blocks_seen_from(size_t position, size_t index) {
  const MaskSpec& mask = context_.spec->mask;
  const uint32_t block = mask.blocks->block;
  for (size_t g = 0; g < heads_.size(); ++g) {
    for (size_t i = 0; i < entries_; ++i) {
      const size_t first = (channels_.empty() ? i : channels_[i]) * block;
      tensor_.integers[offset(index, g) + i] =
          mask.sees(layer_, heads_[g], static_cast<uint32_t>(position),
                    static_cast<uint32_t>(first))
              ? 1
              : 0;
    }
  }
}

// Each head's vector through its columns of the output projection.
void Collector::contributions(const SiteRows& rows) {
  const Matrix& projection = context_.weights->layers[layer_].attention_output;
  const size_t dim = context_.spec->attention.head_dim;
  std::vector<float> weights(projection.cols);
  for (size_t i = 0; i < entries_; ++i) {
    decode_row(projection, channels_.empty() ? i : channels_[i], weights.data());
    for (size_t r = 0; r < rows.rows; ++r) {
      const size_t index = at_.index(rows.position + r);
      if (index == PositionSet::kNone) continue;
      for (size_t g = 0; g < heads_.size(); ++g) {
        const float* head = rows.data + r * rows.stride + heads_[g] * dim;
        const float* own = weights.data() + heads_[g] * dim;
        double sum = 0;
        for (size_t d = 0; d < dim; ++d)
          sum += static_cast<double>(head[d]) * static_cast<double>(own[d]);
        out(index, g)[i] = static_cast<float>(sum);
      }
    }
  }
}

void Collector::collect(const BatchRun& run, const std::vector<bool>& hidden) {
  if (id_ == ValueId::kInputSize) {
    tensor_.integers[1] = std::max<int64_t>(tensor_.integers[1],
                                            static_cast<int64_t>(run.position + run.tokens.size()));
    return;
  }
  const size_t half = context_.rope->half();
  std::vector<float> cosine(half);
  std::vector<float> sine(half);
  for (size_t r = 0; r < run.tokens.size(); ++r) {
    const size_t position = run.position + r;
    const size_t index = at_.index(position);
    if (index == PositionSet::kNone) continue;
    switch (id_) {
      case ValueId::kInputIds:
        tensor_.integers[index] = run.tokens[r];
        break;
      case ValueId::kAttentionMask:
        tensor_.integers[index] = position < hidden.size() && hidden[position] ? 0 : 1;
        break;
      case ValueId::kRotaryFactorSet:
        tensor_.integers[index] = static_cast<int64_t>(run.factors);
        break;
      case ValueId::kVisibleBlocks:
        blocks_seen_from(position, index);
        break;
      default: {
        context_.rope->fill(static_cast<uint32_t>(position), run.factors, cosine.data(),
                            sine.data());
        const std::vector<float>& wanted = id_ == ValueId::kRotaryCos ? cosine : sine;
        for (size_t i = 0; i < entries_; ++i)
          out(index, 0)[i] = wanted[channels_.empty() ? i : channels_[i]];
      }
    }
  }
}

}  // namespace phidias
