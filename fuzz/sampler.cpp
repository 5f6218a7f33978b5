// Any logits, any options: a token of the vocabulary or an Error, the same one with a fresh scratch
// as with a used one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/log_probabilities.h"
#include "engine/sampler.h"
#include "fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phidias;
  FuzzInput input(data, size);
  SamplingOptions options;
  const auto fields = input.take<uint16_t>();  // the options that differ from their defaults
  if (fields & 1) options.temperature = input.number(0, 2);
  if (fields & 2) options.top_k = input.take<uint8_t>();
  if (fields & 4) options.top_p = input.number(0, 1);
  if (fields & 8) options.min_p = input.number(0, 1);
  if (fields & 16) options.typical_p = input.number(0, 1);
  if (fields & 32) options.repetition_penalty = input.number(0.5, 2);
  if (fields & 64) options.repetition_range = RepetitionRange::kAnswer;
  if (fields & 128) options.repetition_last = input.take<uint8_t>();
  if (fields & 256) options.presence_penalty = input.number(-2, 2);
  if (fields & 512) options.frequency_penalty = input.number(-2, 2);
  if (fields & 1024) {
    const int entries = input.take<uint8_t>() % 8;
    for (int i = 0; i < entries; ++i) {
      const auto id = input.take<int16_t>();
      options.logit_bias.push_back({id, id % 3 == 0 ? -INFINITY : input.number(-100, 100)});
    }
  }
  options.seed = input.take<uint32_t>();
  std::vector<TokenId> tokens(input.take<uint8_t>() % 32);
  for (TokenId& token : tokens) token = input.take<int8_t>();
  const std::span<const TokenId> all(tokens);
  const SamplingHistory history{all.first(all.size() / 2), all.subspan(all.size() / 2)};
  const auto position = input.take<uint16_t>();
  const bool any_bits = input.take<uint8_t>() & 1;
  std::vector<float> logits;
  while (!input.empty()) {
    logits.push_back(any_bits ? input.take<float>() : static_cast<float>(input.take<int8_t>()) / 8);
  }

  const auto is_bad = [](float logit) { return !(logit < INFINITY); };
  const bool non_finite =
      std::any_of(logits.begin(), logits.end(), is_bad) ||
      std::all_of(logits.begin(), logits.end(), [](float logit) { return logit == -INFINITY; });
  SamplerScratch used;
  (void)pick(std::vector<float>{3, 1, 2}, {.temperature = 1, .top_p = 0.5}, history, 0, 0, used);
  SamplerScratch fresh;
  const auto token = pick(logits, options, history, 1, position, fresh);
  const auto again = pick(logits, options, history, 1, position, used);
  require(token.ok() == again.ok());
  if (token.ok()) {
    require(*token == *again);
    require(!non_finite && *token >= 0 && static_cast<size_t>(*token) < logits.size());
    require(logits[static_cast<size_t>(*token)] != -INFINITY);
    const auto scored = log_probabilities(logits, *token, 5, position);
    require(scored.ok() && scored->chosen.log_probability <= 0 && !scored->best.empty());
  } else {
    require(non_finite || token.error().code == Code::kInvalidArgument);
    require(token.error().code != Code::kNonFinite || non_finite);
  }
  return 0;
}
