#include "phidias/heads.h"

#include <array>
#include <utility>

#include "base/try.h"
#include "phidias/trace.h"

namespace phidias {
namespace {

Error invalid(std::string message, std::string item) {
  return {Code::kInvalidArgument, std::move(message), {{}, {}, std::move(item)}};
}

constexpr std::array<std::pair<std::string_view, HeadScore>, 4> kScores{
    {{"previous", HeadScore::kPrevious},
     {"first", HeadScore::kFirst},
     {"induction", HeadScore::kInduction},
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
    }
  }
  return keys;
}

}  // namespace

Result<HeadScore> head_score_from_name(std::string_view name) {
  std::string known;
  for (const auto& [candidate, score] : kScores) {
    if (candidate == name) return score;
    known += (known.empty() ? "" : ", ") + std::string(candidate);
  }
  return invalid("\"" + std::string(name) + "\" is not known; choose one of " + known, "score");
}

Result<Tensor> head_scores(Engine& engine, const std::vector<TokenId>& ids, HeadScore score) {
  const auto keys = counted_keys(ids, score);
  size_t counted = 0;
  for (const auto& list : keys) counted += list.empty() ? 0U : 1U;
  if (counted == 0) {
    return invalid(score == HeadScore::kInduction
                       ? "no token of the text occurs twice; repeat a part of it"
                       : "the text is too short",
                   "ids");
  }
  const ModelInfo& info = engine.model().info();
  Tensor scores{TensorType::kF32, {info.num_layers, info.num_heads}, {}, {}};
  const size_t n = ids.size();
  for (uint32_t layer = 0; layer < info.num_layers; ++layer) {
    Trace trace(engine, ids);
    const auto pattern =
        trace.read(kValues.layers[static_cast<int32_t>(layer)].self_attn.attention_probabilities);
    PHIDIAS_TRY(const Traced traced, trace.run());
    const std::vector<float>& p = traced[pattern].floats;
    for (size_t h = 0; h < info.num_heads; ++h) {
      double sum = 0;
      for (size_t q = 0; q < n; ++q) {
        for (const size_t k : keys[q]) sum += static_cast<double>(p[(h * n + q) * n + k]);
      }
      scores.floats.push_back(static_cast<float>(sum / static_cast<double>(counted)));
    }
  }
  return scores;
}

}  // namespace phidias
