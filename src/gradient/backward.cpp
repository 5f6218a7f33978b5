#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "gradient/attention.h"
#include "gradient/gating.h"
#include "gradient/gradient.h"
#include "gradient/linear.h"
#include "gradient/norm.h"
#include "gradient/replay.h"
#include "gradient/routing.h"
#include "model/blocks/gating.h"
#include "model/blocks/residual.h"
#include "model/decoder.h"

namespace phidias {
namespace {

// Outputs whose logits exist at once.
constexpr size_t kOutputRows = 16;

class Backward {
 public:
  Backward(const ModelSpec& spec, const ModelWeights& weights, const KernelTable& kernels,
           ParallelFor& threads, const StoredRun& run, RunTaps* edits, GradientTaps& taps)
      : spec_(spec),
        weights_(weights),
        run_(run),
        edits_(edits),
        taps_(taps),
        context_(kernels, threads, Numerics::kExact),
        replay_(spec, weights, run, edits, context_),
        rows_(run.positions()),
        passes_(rows_ * (spec.experts ? ExpertsSpec::kPerRow : 1)),
        stream_(rows_ * spec.width),
        branch_(rows_ * spec.width),
        normed_(rows_ * spec.width),
        heads_(rows_ * spec.attention.query_width()),
        qkv_(rows_ * spec.attention.qkv_width()),
        neurons_(passes_ * spec.ffn_width),
        activation_(passes_ * spec.ffn_width),
        gate_up_(passes_ * 2 * spec.ffn_width) {}

  void run() {
    std::fill_n(stream_.data(), rows_ * spec_.width, 0.0F);
    const std::span<const uint32_t> outputs = taps_.outputs();
    for (size_t first = 0; first < outputs.size(); first += kOutputRows) {
      output_rows(outputs.subspan(first, std::min(kOutputRows, outputs.size() - first)));
    }
    // Above the first layer with a site nothing but the outputs has a gradient, below the last one
    // nobody asks for it.
    const size_t layers = weights_.layers.size();
    size_t top = layers;
    while (outputs.empty() && top > 0 && !wanted(top - 1)) --top;
    size_t bottom = 0;
    while (bottom < top && !taps_.wants_weights() && !asks(0, Site::kTokenEmbeddings) &&
           !wanted(bottom)) {
      ++bottom;
    }
    for (size_t layer = top; layer-- > bottom;) {
      replay_.run(layer);
      ffn(layer);
      attention(layer);
    }
    if (bottom > 0) return;
    for (size_t i = 0; i < rows_ * spec_.width; ++i) stream_[i] *= spec_.embedding_scale;
    for (size_t r = 0; r < rows_; ++r) {  // an image's row has taken the place of an embedding
      if (run_.tokens[r] < 0) std::fill_n(stream_.data() + r * spec_.width, spec_.width, 0.0F);
    }
    visit(Site::kTokenEmbeddings, 0, stream_.data(), spec_.width, spec_.width);
  }

 private:
  bool asks(size_t layer, Site site) const { return (taps_.sites(layer) & mask_of(site)) != 0; }
  bool wanted(size_t layer) const { return (taps_.sites(layer) & ~kModelSites) != 0; }

  void visit(Site site, size_t layer, float* gradient, size_t stride, size_t width) {
    if (asks(layer, site)) taps_.visit(site, layer, {gradient, rows_, stride, width, 0});
  }

  // input_gradient = W^T output_gradient, all dense.
  void product(WeightMatrix which, size_t layer, const Matrix& matrix, const float* input,
               const float* output_gradient, float* input_gradient) {
    linear_transposed(context_, matrix, output_gradient, matrix.rows, rows_, input_gradient,
                      matrix.cols);
    if (!taps_.wants_weights()) return;
    ProductRows rows;
    rows.rows = rows_;
    rows.input = input;
    rows.output_gradient = output_gradient;
    rows.input_gradient = input_gradient;
    taps_.visit_product(which, layer, rows);
  }

  // Adds to the stream's gradient what comes back through a norm.
  void norm(WeightVector which, size_t layer, const std::vector<float>& weight,
            const float* input) {
    add_norm_gradient(context_, spec_, weight, input, normed_.data(), rows_, stream_.data());
    if (taps_.wants_weights()) taps_.visit_norm(which, layer, {rows_, input, normed_.data()});
  }

  template <class Work>
  void each_row(Work work) {
    each(rows_, work);
  }
  template <class Work>
  void each(size_t rows, Work work) {
    context_.threads->run(rows, 1, [&](size_t begin, size_t end, size_t) {
      for (size_t r = begin; r < end; ++r) work(r);
    });
  }

  void copy_stream_to_branch() {
    std::memcpy(branch_.data(), stream_.data(), rows_ * spec_.width * sizeof(float));
  }

  void ffn(size_t layer) {
    const LayerWeights& weights = weights_.layers[layer];
    const size_t width = spec_.width;
    visit(Site::kLayerOutput, layer, stream_.data(), width, width);
    copy_stream_to_branch();
    visit(Site::kMlpOutput, layer, branch_.data(), width, width);
    if (spec_.experts) {
      experts(layer);
    } else {
      dense(layer);
    }
    visit(Site::kMlpInput, layer, normed_.data(), width, width);
    visit(Site::kMlpNormOutput, layer, normed_.data(), width, width);
    norm(WeightVector::kFfnNorm, layer, weights.ffn_norm, replay_.layer_mid());
    visit(Site::kLayerMid, layer, stream_.data(), width, width);
  }

  // The branch's gradient to that of what it reads.
  void dense(size_t layer) {
    const LayerWeights& weights = weights_.layers[layer];
    const size_t ffn_width = spec_.ffn_width;
    product(WeightMatrix::kDown, layer, weights.down, replay_.neurons(), branch_.data(),
            neurons_.data());
    visit(Site::kMlpNeurons, layer, neurons_.data(), ffn_width, ffn_width);
    each_row([&](size_t r) {
      activation_gradient(spec_, replay_.gate_up() + r * 2 * ffn_width,
                          neurons_.data() + r * ffn_width, activation_.data() + r * ffn_width);
    });
    visit(Site::kMlpActivation, layer, activation_.data(), ffn_width, ffn_width);
    each_row([&](size_t r) {
      branches_gradient(*context_.kernels, spec_, replay_.gate_up() + r * 2 * ffn_width,
                        replay_.activation() + r * ffn_width, activation_.data() + r * ffn_width,
                        neurons_.data() + r * ffn_width, gate_up_.data() + r * 2 * ffn_width);
    });
    visit(Site::kGateUpOutput, layer, gate_up_.data(), 2 * ffn_width, 2 * ffn_width);
    product(WeightMatrix::kGateUp, layer, weights.gate_up, replay_.mlp_input(), gate_up_.data(),
            normed_.data());
  }

  // The same where each row passes two experts, and the router, too, reads what they read.
  void experts(size_t layer) {
    constexpr size_t kPicks = ExpertsSpec::kPerRow;
    const LayerWeights& weights = weights_.layers[layer];
    const ExpertState& state = replay_.experts();
    const size_t width = spec_.width;
    const size_t ffn_width = spec_.ffn_width;
    const size_t count = spec_.experts->count;
    pass_.ensure(passes_ * width);
    picks_.ensure(rows_ * kPicks);
    router_.ensure(rows_ * count);
    each_row([&](size_t r) {
      const float* branch = branch_.data() + r * width;
      for (size_t i = r * kPicks; i < (r + 1) * kPicks; ++i) {
        const float* output = state.outputs.data() + state.passes[i] * width;
        float* to = pass_.data() + state.passes[i] * width;
        double along = 0;
        for (size_t c = 0; c < width; ++c) {
          to[c] = state.weights.data()[i] * branch[c];
          along += static_cast<double>(output[c]) * static_cast<double>(branch[c]);
        }
        picks_[i] = static_cast<float>(along);
      }
    });
    visit(Site::kRouterWeights, layer, picks_.data(), kPicks, kPicks);

    const auto each_expert = [&](Matrix ExpertWeights::*matrix, const float* from, size_t stride,
                                 float* to, size_t to_stride) {
      for (size_t e = 0; e < count; ++e) {
        const size_t begin = state.begin[e];
        if (begin == state.begin[e + 1]) continue;
        linear_transposed(context_, weights.experts[e].*matrix, from + begin * stride, stride,
                          state.begin[e + 1] - begin, to + begin * to_stride, to_stride);
      }
    };
    each_expert(&ExpertWeights::down, pass_.data(), width, neurons_.data(), ffn_width);
    activated_.resize(passes_, ffn_width);
    activate_gates(*context_.kernels, spec_, replay_.gate_up(), activated_);
    each(passes_, [&](size_t p) {
      const float* gate_up = replay_.gate_up() + p * 2 * ffn_width;
      const float* neurons = neurons_.data() + p * ffn_width;
      float* activation = activation_.data() + p * ffn_width;
      activation_gradient(spec_, gate_up, neurons, activation);
      branches_gradient(*context_.kernels, spec_, gate_up, activated_.row(p), activation, neurons,
                        gate_up_.data() + p * 2 * ffn_width);
    });
    each_expert(&ExpertWeights::gate_up, gate_up_.data(), 2 * ffn_width, pass_.data(), width);

    each_row([&](size_t r) {
      float* gradient = router_.data() + r * count;
      std::fill_n(gradient, count, 0.0F);
      add_route_gradient({state.logits.data() + r * count, count}, spec_.experts->band,
                         state.picks.data() + r * kPicks, picks_.data() + r * kPicks,
                         {gradient, count});
    });
    visit(Site::kRouterLogits, layer, router_.data(), count, count);
    linear_transposed(context_, weights.router, router_.data(), count, rows_, normed_.data(),
                      width);
    each_row([&](size_t r) {
      const float* first = pass_.data() + state.passes[r * kPicks] * width;
      const float* second = pass_.data() + state.passes[r * kPicks + 1] * width;
      for (size_t c = 0; c < width; ++c) normed_[r * width + c] += first[c] + second[c];
    });
  }

  void attention(size_t layer) {
    const LayerWeights& weights = weights_.layers[layer];
    const AttentionSpec& attention = spec_.attention;
    const size_t width = spec_.width;
    copy_stream_to_branch();
    visit(Site::kAttentionOutput, layer, branch_.data(), width, width);
    product(WeightMatrix::kAttentionOutput, layer, weights.attention_output, replay_.premix(),
            branch_.data(), heads_.data());
    const size_t query_width = attention.query_width();
    const size_t kv_width = attention.kv_width();
    visit(Site::kAttentionPremix, layer, heads_.data(), query_width, query_width);
    visit(Site::kAttentionHeadOutputs, layer, heads_.data(), query_width, query_width);
    attention_.run(context_,
                   {spec_, layer, rows_, replay_.first_keys(), replay_.end_keys(), replay_.qkv(),
                    heads_.data(), replay_.patterns(), qkv_.data()},
                   taps_);
    const size_t qkv_width = attention.qkv_width();
    float* keys = qkv_.data() + query_width;
    visit(Site::kAttentionValues, layer, keys + kv_width, qkv_width, kv_width);
    visit(Site::kAttentionKeys, layer, keys, qkv_width, kv_width);
    visit(Site::kAttentionQueries, layer, qkv_.data(), qkv_width, query_width);
    rotate_back();
    visit(Site::kPreRotary, layer, qkv_.data(), qkv_width, qkv_width);
    visit_qkv(layer);
    product(WeightMatrix::kQkv, layer, weights.qkv, replay_.attention_input(), qkv_.data(),
            normed_.data());
    visit(Site::kAttentionNormOutput, layer, normed_.data(), width, width);
    norm(WeightVector::kAttentionNorm, layer, weights.attention_norm, replay_.layer_input());
    visit(Site::kLayerInput, layer, stream_.data(), width, width);
  }

  // In the order of the checkpoint's rows, where that is not ours.
  void visit_qkv(size_t layer) {
    const size_t width = spec_.attention.qkv_width();
    if (!spec_.grouped_qkv || !asks(layer, Site::kQkvOutput))
      return visit(Site::kQkvOutput, layer, qkv_.data(), width, width);
    const std::vector<RowSpan> order = grouped_rows(spec_.attention);
    AlignedBuffer<float> grouped(rows_ * width);
    const auto each_span = [&](const auto& copy) {
      for (size_t r = 0; r < rows_; ++r) {
        float* ours = qkv_.data() + r * width;
        for (const RowSpan& span : order) {
          copy(ours, grouped.data() + r * width + span.first, span.count);
          ours += span.count;
        }
      }
    };
    each_span([](float* ours, float* theirs, size_t count) { std::copy_n(ours, count, theirs); });
    visit(Site::kQkvOutput, layer, grouped.data(), width, width);
    each_span([](float* ours, float* theirs, size_t count) { std::copy_n(theirs, count, ours); });
  }

  // The transpose of a rotation is the rotation by the opposite angle; the magnitude stays.
  void rotate_back() {
    const AttentionSpec& attention = spec_.attention;
    const size_t half = replay_.rotated_half();
    opposite_sines_.ensure(rows_ * half);
    each_row([&](size_t r) {
      const float* cosine = replay_.rotation() + r * 2 * half;
      float* sine = opposite_sines_.data() + r * half;
      for (size_t i = 0; i < half; ++i) sine[i] = -cosine[half + i];
      float* row = qkv_.data() + r * attention.qkv_width();
      for (size_t h = 0; h < attention.heads + attention.kv_heads; ++h) {
        context_.kernels->rope(row + h * attention.head_dim, cosine, sine, half);
      }
    });
  }

  // The final norm and the head of some rows: forward, then back.
  void output_rows(std::span<const uint32_t> positions) {
    const size_t count = positions.size();
    const size_t width = spec_.width;
    const size_t vocab = spec_.vocab;
    final_input_.ensure(count * width);
    final_gradient_.ensure(count * width);
    final_stream_gradient_.ensure(count * width);
    logits_.ensure(count * vocab);
    logits_gradient_.ensure(count * vocab);
    float* normed = final_.resize(count, width);
    for (size_t i = 0; i < count; ++i) {
      float* input = final_input_.data() + i * width;
      std::memcpy(input, run_.streams.back().data() + positions[i] * width, width * sizeof(float));
      normalize(spec_, *context_.kernels, input, weights_.final_norm, weights_.final_norm_bias,
                normed + i * width);
    }
    replay_output(Site::kFinalNormOutput, positions, normed, width);
    linear(context_, weights_.head, final_, logits_.data(), vocab, weights_.head_bias);
    replay_output(Site::kLmHeadOutput, positions, logits_.data(), vocab);
    for (size_t i = 0; i < count; ++i) finish_logits(spec_, logits_.data() + i * vocab);
    replay_output(Site::kLogits, positions, logits_.data(), vocab);

    std::fill_n(logits_gradient_.data(), count * vocab, 0.0F);
    for (size_t i = 0; i < count; ++i) {
      taps_.add_objective(positions[i], {logits_.data() + i * vocab, vocab},
                          {logits_gradient_.data() + i * vocab, vocab});
    }
    visit_output(Site::kLogits, positions, logits_gradient_.data(), vocab);
    for (size_t i = 0; i < count; ++i) {
      float* gradient = logits_gradient_.data() + i * vocab;
      for (size_t id = 0; id < vocab; ++id) gradient[id] /= spec_.logit_divisor;
      for (const int32_t id : spec_.masked_ids) gradient[id] = 0;
    }
    visit_output(Site::kLmHeadOutput, positions, logits_gradient_.data(), vocab);
    linear_transposed(context_, weights_.head, logits_gradient_.data(), vocab, count,
                      final_gradient_.data(), width);
    if (taps_.wants_weights()) {
      ProductRows rows;
      rows.rows = count;
      rows.positions = positions;
      rows.input = normed;
      rows.output_gradient = logits_gradient_.data();
      rows.input_gradient = final_gradient_.data();
      taps_.visit_product(WeightMatrix::kHead, 0, rows);
    }
    visit_output(Site::kFinalNormOutput, positions, final_gradient_.data(), width);
    std::fill_n(final_stream_gradient_.data(), count * width, 0.0F);
    add_norm_gradient(context_, spec_, weights_.final_norm, final_input_.data(),
                      final_gradient_.data(), count, final_stream_gradient_.data());
    if (taps_.wants_weights()) {
      taps_.visit_norm(WeightVector::kFinalNorm, 0,
                       {count, final_input_.data(), final_gradient_.data()});
    }
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(stream_.data() + positions[i] * width, final_stream_gradient_.data() + i * width,
                  width * sizeof(float));
    }
  }

  void replay_output(Site site, std::span<const uint32_t> positions, float* rows, size_t width) {
    if (edits_ == nullptr || (edits_->sites(0) & mask_of(site)) == 0) return;
    for (size_t i = 0; i < positions.size(); ++i)
      edits_->visit(site, 0, {rows + i * width, 1, width, width, positions[i]});
  }
  void visit_output(Site site, std::span<const uint32_t> positions, float* rows, size_t width) {
    if (!asks(0, site)) return;
    for (size_t i = 0; i < positions.size(); ++i)
      taps_.visit(site, 0, {rows + i * width, 1, width, width, positions[i]});
  }

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  const StoredRun& run_;
  RunTaps* edits_;
  GradientTaps& taps_;
  RunContext context_;
  LayerReplay replay_;
  AttentionGradient attention_;
  size_t rows_;
  size_t passes_;  // of rows through feed-forward matrices
  // Gradients, each [N, ...]:
  AlignedBuffer<float> stream_;  // of the residual stream
  AlignedBuffer<float> branch_;  // of what a block adds to it
  AlignedBuffer<float> normed_;  // of what a norm gives
  AlignedBuffer<float> heads_;   // of what the heads give
  AlignedBuffer<float> qkv_;
  AlignedBuffer<float> neurons_;
  AlignedBuffer<float> activation_;
  AlignedBuffer<float> gate_up_;
  AlignedBuffer<float> opposite_sines_;
  // Of experts:
  AlignedBuffer<float> pass_;    // [passes, D]: of what an expert gives, then of what it reads
  AlignedBuffer<float> picks_;   // [N, 2]: of the weights of the picks
  AlignedBuffer<float> router_;  // [N, E]: of the logits
  Activations activated_;        // [passes, F]
  // Of some outputs, values and gradients:
  Activations final_;
  AlignedBuffer<float> final_input_, final_gradient_, final_stream_gradient_;
  AlignedBuffer<float> logits_, logits_gradient_;
};

Status check_outputs(const StoredRun& run, std::span<const uint32_t> outputs) {
  for (const uint32_t position : outputs) {
    if (position >= run.positions()) {
      return Error{Code::kInvalidArgument,
                   "the objective reads the logits of position " + std::to_string(position) +
                       ", but the run has " + std::to_string(run.positions()) + " positions",
                   {}};
    }
  }
  return {};
}

}  // namespace

Status run_backward(const ModelSpec& spec, const ModelWeights& weights, const KernelTable& kernels,
                    ParallelFor& threads, const StoredRun& run, RunTaps* edits,
                    GradientTaps& taps) {
  if (spec.experts && taps.wants_weights()) {
    return Error{Code::kUnsupported,
                 "the weights of experts have no gradients here; train a model without experts",
                 {{}, {}, spec.type}};
  }
  if (auto outputs = check_outputs(run, taps.outputs()); !outputs.ok()) return outputs;
  for (size_t layer = 0; edits != nullptr && layer < spec.layers; ++layer) {
    if ((edits->sites(layer) & kPatternSites) != 0 && edits->attention(layer).call_edits) {
      return Error{Code::kUnsupported,
                   "gradients do not pass edits of keys or values that the cache does not keep; "
                   "leave out \"scope\": \"call\"",
                   {{}, {}, "layers." + std::to_string(layer)}};
    }
  }
  try {
    Backward(spec, weights, kernels, threads, run, edits, taps).run();
  } catch (const std::bad_alloc&) {
    return Error{Code::kOutOfMemory,
                 "no memory for one layer's values and gradients at " +
                     std::to_string(run.positions()) + " positions; give fewer tokens",
                 {}};
  }
  return {};
}

}  // namespace phidias
