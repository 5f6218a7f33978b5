// What may stand in SamplingOptions.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/invalid.h"
#include "base/try.h"
#include "phidias/sampling.h"

namespace phidias {
namespace {

// Far above any use, and far enough below the largest double that products and sums with logits
// stay finite.
constexpr double kLargest = 1e6;

// The comparisons are written so that NaN fails them.
Status check_range(const char* field, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return invalid(fmt::format("is {}, but it must lie from {} to {}", value, low, high), field);
}

Status check_above_zero(const char* field, double value, double high) {
  if (value > 0 && value <= high) return {};
  return invalid(fmt::format("is {}, but it must be above 0 and at most {}", value, high), field);
}

}  // namespace

Status SamplingOptions::validate(size_t vocabulary) const {
  PHIDIAS_CHECK_OK(check_range("temperature", temperature, 0, kLargest));
  PHIDIAS_CHECK_OK(check_above_zero("top_p", top_p, 1));
  PHIDIAS_CHECK_OK(check_range("min_p", min_p, 0, 1));
  PHIDIAS_CHECK_OK(check_above_zero("typical_p", typical_p, 1));
  PHIDIAS_CHECK_OK(check_above_zero("repetition_penalty", repetition_penalty, kLargest));
  PHIDIAS_CHECK_OK(check_range("presence_penalty", presence_penalty, -kLargest, kLargest));
  PHIDIAS_CHECK_OK(check_range("frequency_penalty", frequency_penalty, -kLargest, kLargest));
  for (size_t i = 0; i < logit_bias.size(); ++i) {
    const auto [id, bias] = logit_bias[i];
    if (id < 0 || static_cast<size_t>(id) >= vocabulary) {
      return invalid(fmt::format("token {} is not in the vocabulary of {} tokens", id, vocabulary),
                     fmt::format("logit_bias[{}]", i));
    }
    const bool ban = std::isinf(bias) && bias < 0;
    if (!ban && !(std::abs(bias) <= kLargest)) {
      return invalid(
          fmt::format(
              "the bias {} of token {} must lie from {} to {}, or be -infinity to ban the token",
              bias, id, -kLargest, kLargest),
          fmt::format("logit_bias[{}]", i));
    }
  }
  return {};
}

}  // namespace phidias
