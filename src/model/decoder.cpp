#include "model/decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "model/blocks/attention.h"
#include "model/blocks/ffn.h"
#include "model/blocks/residual.h"

namespace phidias {

Decoder::Decoder(const ModelSpec& spec, const ModelWeights& weights, const KvLayout& layout)
    : spec_(&spec), weights_(&weights), layout_(layout), rope_(spec.rope) {}

void Decoder::forward(const Batch& batch, RunContext& context) {
  tapped_outputs_.clear();
#ifndef PHIDIAS_WITHOUT_TAPS  // defined by bench/ alone, to measure what this costs
  if (batch.tapped()) return run(batch, context, StepTaps(batch));
#endif
  run(batch, context, NoTaps());
}

template <class Taps>
void Decoder::run(const Batch& batch, RunContext& context, Taps taps) {
  if constexpr (Taps::kActive) {
    for (const BatchRun& run : batch.runs) {
      if (run.taps != nullptr) run.taps->begin(run);
    }
  }
  embed(batch);
  if (batch.first_layer == 0) {
    taps.enter(0);
    taps.at(Site::kTokenEmbeddings, state_.stream.data(), spec_->width, spec_->width);
    scale_embedding(context);
  }
  place_given_rows(batch);
  const size_t end_layer = std::min(batch.end_layer, weights_->layers.size());
  for (size_t layer = batch.first_layer; layer < end_layer; ++layer) {
    const BlockArgs args{*spec_, weights_->layers[layer], layer, layout_, batch, state_, context};
    taps.enter(layer);
    attention_block(args, taps);
    ffn_block(args, taps);
    if constexpr (Taps::kActive) {
      if (taps.over()) return leave_outputs(batch);
    }
  }
  final_.resize(batch.outputs.size(), spec_->width);
  for (size_t i = 0; i < batch.outputs.size(); ++i) {
    normalize(*spec_, *context.kernels, state_.stream.data() + batch.outputs[i] * spec_->width,
              weights_->final_norm, weights_->final_norm_bias, final_.row(i));
  }
  if constexpr (Taps::kActive) {
    size_t first_row = 0;
    size_t output = 0;
    for (const BatchRun& run : batch.runs) {
      const size_t end = first_row + run.tokens.size();
      for (; output < batch.outputs.size() && batch.outputs[output] < end; ++output) {
        const size_t offset = batch.outputs[output] - first_row;
        tapped_outputs_.push_back({run.taps, static_cast<uint32_t>(run.position + offset)});
        tap_output(Site::kFinalNormOutput, output, final_.row(output), spec_->width);
      }
      first_row = end;
    }
  }
}

void Decoder::leave_outputs(const Batch& batch) {
  float* rows = final_.resize(batch.outputs.size(), spec_->width);
  std::fill_n(rows, batch.outputs.size() * spec_->width, 0.0F);
}

void Decoder::tap_output(Site site, size_t output, float* row, size_t width) const {
  const auto [taps, position] = tapped_outputs_[output];
  if (taps == nullptr || (taps->sites(0) & mask_of(site)) == 0) return;
  taps->visit(site, 0, {row, 1, width, width, position});
}

void Decoder::scale_embedding(RunContext& context) {
  if (spec_->embedding_scale == 1) return;
  const size_t width = spec_->width;
  context.threads->run(state_.rows, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t i = begin * width; i < end * width; ++i)
      state_.stream.data()[i] *= spec_->embedding_scale;
  });
}

void Decoder::embed(const Batch& batch) {
  const size_t half = rope_.half();
  state_.rows = batch.rows();
  state_.stream.ensure(state_.rows * spec_->width);
  state_.rotation.ensure(state_.rows * 2 * half);
  state_.positions.resize(state_.rows);
  state_.first_keys.resize(state_.rows);
  state_.end_keys.resize(state_.rows);
  size_t row = 0;
  for (const BatchRun& run : batch.runs) {
    for (size_t i = 0; i < run.tokens.size(); ++i, ++row) {
      const auto position = static_cast<uint32_t>(run.position + i);
      state_.positions[row] = position;
      state_.first_keys[row] = spec_->mask.first_key(position);
      state_.end_keys[row] = position + 1;
      if (batch.first_layer == 0) {
        decode_row(weights_->embedding, static_cast<size_t>(std::max(run.tokens[i], 0)),
                   state_.stream.data() + row * spec_->width);
      }
      float* cosine = state_.rotation.data() + row * 2 * half;
      rope_.fill(position, run.factors, cosine, cosine + half);
    }
  }
}

void Decoder::place_given_rows(const Batch& batch) {
  float* stream = state_.stream.data();
  for (const BatchRun& run : batch.runs) {
    for (size_t i = 0; i < run.given.size(); ++i) {
      if (run.given[i] != nullptr)
        std::copy_n(run.given[i], spec_->width, stream + i * spec_->width);
    }
    stream += run.tokens.size() * spec_->width;
  }
}

void Decoder::logits(size_t first, size_t count, float* out, RunContext& context) {
  std::memcpy(final_piece_.resize(count, spec_->width), final_.row(first),
              count * spec_->width * sizeof(float));
  linear(context, weights_->head, final_piece_, out, spec_->vocab, weights_->head_bias);
  tap_outputs(Site::kLmHeadOutput, first, count, out);
  if (spec_->logit_divisor != 1 || !spec_->masked_ids.empty()) {
    for (size_t i = 0; i < count; ++i) finish_logits(*spec_, out + i * spec_->vocab);
  }
  tap_outputs(Site::kLogits, first, count, out);
}

void Decoder::tap_outputs(Site site, size_t first, size_t count, float* rows) const {
  if (tapped_outputs_.empty()) return;
  for (size_t i = 0; i < count; ++i)
    tap_output(site, first + i, rows + i * spec_->vocab, spec_->vocab);
}

void finish_logits(const ModelSpec& spec, float* row) {
  if (spec.logit_divisor != 1) {
    for (size_t id = 0; id < spec.vocab; ++id) row[id] /= spec.logit_divisor;
  }
  for (const int32_t id : spec.masked_ids) row[id] = std::numeric_limits<float>::lowest();
}

size_t Decoder::buffer_bytes(const ModelSpec& spec, size_t rows) {
  const AttentionSpec& attention = spec.attention;
  const size_t passes = spec.experts ? ExpertsSpec::kPerRow : 1;
  const size_t of_experts = spec.experts ? 2 * passes * spec.width + spec.experts->count : 0;
  const size_t per_row = 3UL * spec.width + attention.qkv_width() + attention.query_width() +
                         passes * 3UL * spec.ffn_width + of_experts + spec.rope.rotary_dims;
  return rows * per_row * sizeof(float) * 5 / 4;  // a quarter for the quantized copies
}

}  // namespace phidias
