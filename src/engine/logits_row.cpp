#include "engine/logits_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace phidias {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr const char* kAdvice =
    "the weights or the cache hold values out of range: check the file, or try exact numerics";

}  // namespace

Result<TokenId> largest_logit(std::span<const float> logits, uint32_t position) {
  if (logits.empty())
    return Error{Code::kInvalidArgument, "there are no logits to choose from", {}};

  // Independent lanes: one running maximum would wait for itself at every element.
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> largest;
  largest.fill(-kInfinity);
  std::array<uint32_t, kLanes> bad{};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float logit = logits[i + lane];
      bad[lane] |= !(logit < kInfinity);  // true for NaN too
      largest[lane] = largest[lane] < logit ? logit : largest[lane];
    }
  }
  for (; i < logits.size(); ++i) {
    bad[0] |= !(logits[i] < kInfinity);
    largest[0] = std::max(largest[0], logits[i]);
  }

  if (std::any_of(bad.begin(), bad.end(), [](uint32_t lane) { return lane != 0; })) {
    const auto found = std::find_if(logits.begin(), logits.end(),
                                    [](float logit) { return !(logit < kInfinity); });
    const auto id = found - logits.begin();
    return Error{Code::kNonFinite,
                 fmt::format("non-finite logits: token {} is {} at position {}; {}", id,
                             std::isnan(*found) ? "NaN" : "+infinity", position, kAdvice),
                 {.file = {}, .offset = {}, .item = fmt::format("logits[{}]", id)}};
  }
  const float best = *std::max_element(largest.begin(), largest.end());
  if (best == -kInfinity) {
    return Error{
        Code::kNonFinite,
        fmt::format("non-finite logits: all are -infinity at position {}; {}", position, kAdvice),
        {.file = {}, .offset = {}, .item = "logits"}};
  }
  return static_cast<TokenId>(std::find(logits.begin(), logits.end(), best) - logits.begin());
}

}  // namespace phidias
