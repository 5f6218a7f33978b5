#include "engine/categorical.h"

#include <fmt/format.h>

#include <limits>

#include "base/try.h"
#include "engine/logits_row.h"

namespace phidias {

Result<std::vector<TokenId>> categorical(RandomKey key, std::span<const float> logits,
                                         size_t vocabulary, double temperature, uint32_t position,
                                         UniformMapping mapping) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!(temperature >= 0 && temperature < kInfinity)) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("the temperature is {}, but it must be finite and at least 0", temperature),
        {.file = {}, .offset = {}, .item = "temperature"}};
  }
  if (vocabulary == 0 || logits.size() % vocabulary != 0) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("{} logits are not whole rows of {} tokens", logits.size(), vocabulary),
        {}};
  }
  std::vector<TokenId> tokens;
  for (size_t start = 0; start < logits.size(); start += vocabulary) {
    const auto row = logits.subspan(start, vocabulary);
    PHIDIAS_TRY(TokenId chosen, largest_logit(row, position));
    if (temperature > 0) {
      // Relative to the largest logit, so that no temperature is so low that scores overflow
      // upwards.
      const double largest = row[static_cast<size_t>(chosen)];
      double best = -kInfinity;
      for (size_t id = 0; id < vocabulary; ++id) {
        if (row[id] == -std::numeric_limits<float>::infinity()) continue;
        const double u = uniform_23(bits_at(key, start + id), mapping);
        const double score = (row[id] - largest) / temperature + gumbel(1 - u);
        if (score > best) {
          best = score;
          chosen = static_cast<TokenId>(id);
        }
      }
    }
    tokens.push_back(chosen);
  }
  return tokens;
}

}  // namespace phidias
