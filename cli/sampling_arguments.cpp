#include "sampling_arguments.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace phidias::cli {

void SamplingArguments::declare(CommandOptions& command) {
  CommandOptions group = command.add_group("sampling", "How the next token is chosen");
  group.add_option("--temperature,--temp", options.temperature, "0: always the likeliest token")
      .show_default();
  group.add_option("--top-k", options.top_k, "Keep the k likeliest; 0: off").show_default();
  group.add_option("--top-p", options.top_p, "Keep the likeliest with this mass together; 1: off")
      .show_default();
  group
      .add_option("--min-p", options.min_p,
                  "Keep what has this share of the likeliest's probability; 0: off")
      .show_default();
  group
      .add_option("--typical-p", options.typical_p,
                  "Keep this mass of the most typical tokens; 1: off")
      .show_default();
  group
      .add_option("--repetition-penalty", options.repetition_penalty,
                  "Above 1: tokens seen in prompt or answer become less likely")
      .show_default();
  group
      .add_option("--repetition-last", options.repetition_last,
                  "Look at the last so many tokens only; 0: all")
      .show_default();
  group
      .add_option("--presence-penalty", options.presence_penalty,
                  "Taken from the logit of a token that the answer holds")
      .show_default();
  group
      .add_option("--frequency-penalty", options.frequency_penalty, "The same, once per occurrence")
      .show_default();
  group
      .add_option("--logit-bias", bias,
                  "ID=VALUE, added to that token's logit; -inf bans it. Repeatable")
      .one_at_a_time();
  seed_option = group.add_option("--seed", options.seed, "Same seed, same draws").show_default();
}

Result<SamplingOptions> SamplingArguments::resolve() const {
  SamplingOptions resolved = options;
  for (const std::string& entry : bias) {
    const size_t equals = entry.find('=');
    char* end = nullptr;
    LogitBias parsed;
    const auto read =
        std::from_chars(entry.data(), entry.data() + std::min(equals, entry.size()), parsed.id);
    if (equals != std::string::npos) parsed.bias = std::strtod(entry.c_str() + equals + 1, &end);
    if (equals == std::string::npos || read.ec != std::errc() ||
        read.ptr != entry.data() + equals || end == entry.c_str() + equals + 1 || *end != '\0') {
      return Error{
          Code::kInvalidArgument, "\"" + entry + "\" is not ID=VALUE", {{}, {}, "--logit-bias"}};
    }
    resolved.logit_bias.push_back(parsed);
  }
  const Status valid = resolved.validate();
  if (!valid.ok()) return valid.error();
  return resolved;
}

}  // namespace phidias::cli
