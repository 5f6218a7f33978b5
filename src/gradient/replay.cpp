#include "gradient/replay.h"

#include <cstring>

#include "model/blocks/attention.h"
#include "model/blocks/ffn.h"

namespace phidias {
namespace {

constexpr size_t kPagePositions = 64;

void keep(AlignedBuffer<float>& copy, const float* values, size_t count) {
  copy.ensure(count);
  std::memcpy(copy.data(), values, count * sizeof(float));
}

}  // namespace

// What the blocks overwrite is copied as it goes by, after the edits.
class LayerReplay::Taps final : public EditTaps {
 public:
  explicit Taps(LayerReplay& replay) : EditTaps(replay.edits_), replay_(&replay) {}

  SiteMask sites(size_t layer) const override {
    const SiteMask patterns =
        replay_->edits_patterns_ ? mask_of(Site::kAttentionProbabilities) : SiteMask{0};
    return kKept | patterns | EditTaps::sites(layer);
  }
  void visit(Site site, size_t layer, const SiteRows& rows) override {
    EditTaps::visit(site, layer, rows);
    if (site == Site::kLayerInput) keep(replay_->layer_input_, rows.data, rows.rows * rows.width);
    if (site == Site::kMlpActivation) keep(replay_->activation_, rows.data, rows.rows * rows.width);
  }
  void visit_pattern(Site site, size_t layer, const SitePattern& pattern) override {
    const bool kept = replay_->edits_patterns_ && site == Site::kAttentionProbabilities;
    const size_t begin = pattern.position * pattern.heads * pattern.keys;
    const size_t count = pattern.rows * pattern.heads * pattern.keys;
    if (kept) std::memcpy(replay_->softmax_.data() + begin, pattern.data, count * sizeof(float));
    EditTaps::visit_pattern(site, layer, pattern);
    if (kept) std::memcpy(replay_->mixed_.data() + begin, pattern.data, count * sizeof(float));
  }

 private:
  static constexpr SiteMask kKept = mask_of(Site::kLayerInput) | mask_of(Site::kMlpActivation);

  LayerReplay* replay_;
};

LayerReplay::LayerReplay(const ModelSpec& spec, const ModelWeights& weights, const StoredRun& run,
                         RunTaps* edits, RunContext& context)
    : spec_(&spec),
      weights_(&weights),
      run_(&run),
      edits_(edits),
      context_(&context),
      rope_(spec.rope),
      layout_(spec, KvType::kF32, kPagePositions) {
  layout_.layers = 1;
  for (size_t at = 0; at < run.positions(); at += kPagePositions) {
    page_pointers_.push_back(pages_.emplace_back(layout_.page_bytes()).data());
  }
  const size_t half = rope_.half();
  state_.rows = run.positions();
  state_.stream.ensure(state_.rows * spec.width);
  state_.rotation.ensure(state_.rows * 2 * half);
  for (size_t row = 0; row < state_.rows; ++row) {
    const auto position = static_cast<uint32_t>(row);
    state_.positions.push_back(position);
    state_.first_keys.push_back(spec.mask.first_key(position));
    state_.end_keys.push_back(position + 1);
    float* cosine = state_.rotation.data() + row * 2 * half;
    rope_.fill(position, run.factors, cosine, cosine + half);
  }
  if (edits != nullptr) edits->begin(whole_run());
}

BatchRun LayerReplay::whole_run() const {
  BatchRun batch_run;
  batch_run.tokens = run_->tokens;
  batch_run.factors = run_->factors;
  batch_run.cache = {page_pointers_};
  return batch_run;
}

void LayerReplay::run(size_t layer) {
  const size_t values = state_.rows * spec_->width;
  std::memcpy(state_.stream.data(), run_->streams[layer].data(), values * sizeof(float));
  edits_patterns_ = edits_ != nullptr && (edits_->sites(layer) & kPatternSites) != 0 &&
                    edits_->attention(layer).edits;
  if (edits_patterns_) {
    const size_t entries = state_.rows * spec_->attention.heads * state_.rows;
    softmax_.ensure(entries);
    mixed_.ensure(entries);
    patterns_ = {softmax_.data(), mixed_.data()};
  }
  Taps taps(*this);
  BatchRun batch_run = whole_run();
  batch_run.taps = &taps;
  const Batch batch = {{&batch_run, 1}, {}};
  layout_.first_layer = layer;
  const BlockArgs args{*spec_, weights_->layers[layer], layer, layout_, batch, state_, *context_};
  StepTaps step_taps(batch);
  step_taps.enter(layer);
  attention_block(args, step_taps);
  keep(attention_input_, state_.normed.row(0), values);
  keep(layer_mid_, state_.stream.data(), values);
  ffn_block(args, step_taps);
}

}  // namespace phidias
