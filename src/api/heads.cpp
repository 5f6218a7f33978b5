#include "phidias/heads.h"

#include "api/names.h"
#include "api/tapped_sequence.h"
#include "base/invalid.h"
#include "base/try.h"

namespace phidias {
namespace {

constexpr NameTable<HeadScore, 5> kScores{{{"previous", HeadScore::kPrevious},
                                           {"first", HeadScore::kFirst},
                                           {"induction", HeadScore::kInduction},
                                           {"duplicate", HeadScore::kDuplicate},
                                           {"current", HeadScore::kCurrent}}};

// For each query the keys whose attention counts.
std::vector<std::vector<size_t>> counted_keys(const std::vector<TokenId>& ids, HeadScore score) {
  std::vector<std::vector<size_t>> keys(ids.size());
  for (size_t q = 0; q < ids.size(); ++q) {
    switch (score) {
      case HeadScore::kPrevious:
        if (q > 0) keys[q] = {q - 1};
        break;
      case HeadScore::kFirst:
        if (q > 0) keys[q] = {0};
        break;
      case HeadScore::kCurrent:
        keys[q] = {q};
        break;
      case HeadScore::kInduction:
        for (size_t k = 0; k < q; ++k) {
          if (ids[k] == ids[q]) keys[q].push_back(k + 1);
        }
        break;
      case HeadScore::kDuplicate:
        for (size_t k = 0; k < q; ++k) {
          if (ids[k] == ids[q]) keys[q].push_back(k);
        }
        break;
    }
  }
  return keys;
}

// One pass, in which each layer's pattern is added up where it lies, a few queries at a time.
class HeadTaps final : public RunTaps {
 public:
  HeadTaps(std::vector<std::vector<size_t>> keys, size_t layers, size_t heads)
      : keys_(std::move(keys)), heads_(heads), sums_(layers * heads) {}

  SiteMask sites(size_t) const override { return mask_of(Site::kAttentionProbabilities); }
  void visit(Site, size_t, const SiteRows&) override {}
  void visit_pattern(Site, size_t layer, const SitePattern& pattern) override {
    for (size_t r = 0; r < pattern.rows; ++r) {
      for (size_t h = 0; h < heads_; ++h) {
        const float* row = pattern.data + (r * pattern.heads + h) * pattern.keys;
        for (const size_t key : keys_[pattern.position + r])
          sums_[layer * heads_ + h] += static_cast<double>(row[key]);
      }
    }
  }
  const std::vector<double>& sums() const { return sums_; }

 private:
  std::vector<std::vector<size_t>> keys_;  // by query
  size_t heads_;
  std::vector<double> sums_;  // [layers, heads]
};

}  // namespace

Result<HeadScore> head_score_from_name(std::string_view name) {
  return by_name(kScores, name, "score");
}

Result<Tensor> head_scores(Engine& engine, const std::vector<TokenId>& ids, HeadScore score) {
  const auto keys = counted_keys(ids, score);
  size_t counted = 0;
  for (const auto& list : keys) counted += list.empty() ? 0U : 1U;
  if (counted == 0) {
    return invalid(score == HeadScore::kInduction || score == HeadScore::kDuplicate
                       ? "no token of the text occurs twice; repeat a part of it"
                       : "the text is too short",
                   "ids");
  }
  const ModelInfo& info = engine.model().info();
  HeadTaps taps(keys, info.num_layers, info.num_heads);
  Stepper& stepper = engine.stepper();
  const TappedSequence sequence(
      stepper, {.prompt_tokens = static_cast<uint32_t>(ids.size()), .images = {}}, &taps);
  std::vector<Row> rows;
  for (size_t at = 0; at < ids.size(); ++at)
    rows.push_back({ids[at], sequence.id(), static_cast<uint32_t>(at), false});
  PHIDIAS_CHECK_OK(stepper.step(rows, {}));
  Tensor scores{TensorType::kF32, {info.num_layers, info.num_heads}, {}, {}};
  for (const double sum : taps.sums())
    scores.floats.push_back(static_cast<float>(sum / static_cast<double>(counted)));
  return scores;
}

}  // namespace phidias
