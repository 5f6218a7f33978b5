#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "base/random.h"
#include "base/try.h"
#include "engine/logits_row.h"

namespace phidias {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool adjusts(const SamplingOptions& options) {
  return options.repetition_penalty != 1 || options.presence_penalty != 0 ||
         options.frequency_penalty != 0 || !options.logit_bias.empty();
}

// Calls edit(id, occurrences) once for every distinct token of `tokens` that is in the vocabulary.
template <typename Edit>
void for_each_distinct(std::initializer_list<std::span<const TokenId>> tokens,
                       std::vector<uint32_t>& occurrences, Edit edit) {
  const auto known = [&](TokenId id) {
    return id >= 0 && static_cast<size_t>(id) < occurrences.size();
  };
  for (const auto part : tokens) {
    for (const TokenId id : part) {
      if (known(id)) ++occurrences[static_cast<size_t>(id)];
    }
  }
  for (const auto part : tokens) {
    for (const TokenId id : part) {
      if (!known(id)) continue;
      uint32_t& count = occurrences[static_cast<size_t>(id)];
      if (count > 0) edit(static_cast<size_t>(id), count);
      count = 0;
    }
  }
}

void penalise_repetition(const SamplingOptions& options, SamplingHistory range,
                         SamplerScratch& scratch) {
  if (options.repetition_range == RepetitionRange::kAnswer) range.prompt = {};
  if (options.repetition_last != 0) {
    range.answer =
        range.answer.last(std::min<size_t>(range.answer.size(), options.repetition_last));
    range.prompt = range.prompt.last(
        std::min(range.prompt.size(), options.repetition_last - range.answer.size()));
  }
  for_each_distinct({range.prompt, range.answer}, scratch.occurrences, [&](size_t id, uint32_t) {
    double& logit = scratch.adjusted[id];
    logit = logit > 0 ? logit / options.repetition_penalty : logit * options.repetition_penalty;
  });
}

// Leaves the candidates with a rank of at most `last`, in their order.
template <typename Rank>
void keep_ranked(std::vector<Candidate>& candidates, double last, Rank rank) {
  std::erase_if(candidates, [&](const Candidate& candidate) { return rank(candidate) > last; });
}

// The rank at which the mass of the lowest ranks first reaches `wanted`. Selection in halves, not a
// sort: O(n).
double rank_at_mass(std::span<SamplerScratch::Ranked> ranked, double wanted) {
  while (ranked.size() > 1) {
    const size_t half = ranked.size() / 2;
    std::nth_element(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(half), ranked.end(),
                     [](const auto& a, const auto& b) { return a.rank < b.rank; });
    double mass = 0;
    for (const auto& entry : ranked.first(half)) mass += entry.mass;
    if (mass >= wanted) {
      ranked = ranked.first(half);
    } else {
      wanted -= mass;
      ranked = ranked.subspan(half);
    }
  }
  return ranked.front().rank;
}

// Fills scratch.ranked, most likely first in rank; returns the total mass.
double weigh(SamplerScratch& scratch) {
  scratch.ranked.clear();
  double total = 0;
  for (const Candidate& candidate : scratch.candidates) {
    scratch.ranked.push_back({-candidate.score, std::exp(candidate.score)});
    total += scratch.ranked.back().mass;
  }
  return total;
}

void keep_top_p(double share, SamplerScratch& scratch) {
  const double total = weigh(scratch);
  // Tokens below this have less than 1 - share together, so the cut-off is not among them; most
  // tokens are.
  const double negligible = (1 - share) * total / static_cast<double>(scratch.candidates.size());
  std::erase_if(scratch.ranked, [&](const auto& entry) { return entry.mass < negligible; });
  keep_ranked(scratch.candidates, rank_at_mass(scratch.ranked, share * total),
              [](const Candidate& candidate) { return -candidate.score; });
}

// Meister, Pimentel, Wiher and Cotterell, "Locally typical sampling" (2022), as transformers reads
// it.
void keep_typical(double share, SamplerScratch& scratch) {
  const double total = weigh(scratch);
  const double log_total = std::log(total);
  double entropy = 0;
  for (const auto& [rank, mass] : scratch.ranked) {
    if (mass > 0) entropy += mass / total * (log_total + rank);
  }
  const auto distance = [&](double score) { return std::abs(log_total - score - entropy); };
  for (auto& entry : scratch.ranked) entry.rank = distance(-entry.rank);
  keep_ranked(scratch.candidates, rank_at_mass(scratch.ranked, share * total),
              [&](const Candidate& candidate) { return distance(candidate.score); });
}

// The k-th largest value. k is at least 1 and less than the number of values.
double kth_largest(std::span<const double> values, size_t k, std::vector<double>& largest) {
  constexpr size_t kHeapLimit =
      1024;  // a heap of k rejects most values with one comparison; for a large k it is slow
  if (k <= kHeapLimit) {
    largest.resize(k);
    std::partial_sort_copy(values.begin(), values.end(), largest.begin(), largest.end(),
                           std::greater<>());
    return largest.back();
  }
  largest.assign(values.begin(), values.end());
  std::nth_element(largest.begin(), largest.begin() + static_cast<ptrdiff_t>(k - 1), largest.end(),
                   std::greater<>());
  return largest[k - 1];
}

Result<double> largest_adjusted(std::span<const double> adjusted) {
  const double largest = *std::max_element(adjusted.begin(), adjusted.end());
  if (largest > -kInfinity) return largest;
  return Error{
      Code::kInvalidArgument,
      "no token is left: logit_bias bans every one that the model allows; remove some of the bans",
      {.file = {}, .offset = {}, .item = "logit_bias"}};
}

TokenId draw(std::span<const Candidate> candidates, RandomKey key) {
  constexpr size_t kBlock = 256;
  std::array<uint32_t, kBlock> ids;
  std::array<uint64_t, kBlock> bits;
  TokenId chosen = candidates.front().id;
  double best = -kInfinity;
  while (!candidates.empty()) {
    const auto block = candidates.first(std::min(kBlock, candidates.size()));
    candidates = candidates.subspan(block.size());
    for (size_t i = 0; i < block.size(); ++i) ids[i] = static_cast<uint32_t>(block[i].id);
    draw_bits(key, std::span(ids).first(block.size()), std::span(bits).first(block.size()));
    for (size_t i = 0; i < block.size(); ++i) {
      if (block[i].score + gumbel_bound(bits[i]) < best) continue;  // spares nearly all logarithms
      const double score = block[i].score + gumbel(open_uniform(bits[i]));
      if (score > best) {  // ids ascend: the first of equals has the lowest
        best = score;
        chosen = block[i].id;
      }
    }
  }
  return chosen;
}

// As filter_candidates(), for options and logits that have been checked.
Result<std::span<const Candidate>> keep_candidates(std::span<const float> logits,
                                                   const SamplingOptions& options,
                                                   const SamplingHistory& history,
                                                   SamplerScratch& scratch) {
  const std::span<const double> adjusted = adjust_logits(logits, options, history, scratch);
  PHIDIAS_TRY(const double largest, largest_adjusted(adjusted));

  // Dividing by the temperature keeps the order, so top-k may come first and spare the others the
  // division.
  const double lowest = options.top_k != 0 && options.top_k < adjusted.size()
                            ? kth_largest(adjusted, options.top_k, scratch.largest)
                            : -kInfinity;
  scratch.candidates.clear();
  scratch.candidates.reserve(adjusted.size());
  scratch.ranked.reserve(adjusted.size());
  for (size_t id = 0; id < adjusted.size(); ++id) {
    if (adjusted[id] < lowest || adjusted[id] == -kInfinity) continue;
    // Relative to the largest: no temperature is so low that the best score overflows.
    scratch.candidates.push_back(
        {static_cast<TokenId>(id), (adjusted[id] - largest) / options.temperature});
  }
  if (options.top_p < 1) keep_top_p(options.top_p, scratch);
  if (options.min_p > 0) {
    keep_ranked(scratch.candidates, -std::log(options.min_p),
                [](const auto& candidate) { return -candidate.score; });
  }
  if (options.typical_p < 1) keep_typical(options.typical_p, scratch);
  return std::span<const Candidate>(scratch.candidates);
}

}  // namespace

std::span<const double> adjust_logits(std::span<const float> logits, const SamplingOptions& options,
                                      const SamplingHistory& history, SamplerScratch& scratch) {
  scratch.adjusted.assign(logits.begin(), logits.end());
  scratch.occurrences.resize(logits.size());
  if (options.repetition_penalty != 1) penalise_repetition(options, history, scratch);
  if (options.presence_penalty != 0 || options.frequency_penalty != 0) {
    for_each_distinct({history.answer}, scratch.occurrences, [&](size_t id, uint32_t count) {
      scratch.adjusted[id] -= options.presence_penalty + options.frequency_penalty * count;
    });
  }
  for (const auto [id, bias] : options.logit_bias)
    scratch.adjusted[static_cast<size_t>(id)] += bias;
  return scratch.adjusted;
}

Result<std::span<const Candidate>> filter_candidates(std::span<const float> logits,
                                                     const SamplingOptions& options,
                                                     const SamplingHistory& history,
                                                     uint32_t position, SamplerScratch& scratch) {
  PHIDIAS_ASSERT(options.temperature > 0);
  PHIDIAS_CHECK_OK(options.validate(logits.size()));
  PHIDIAS_CHECK_OK(largest_logit(logits, position));
  return keep_candidates(logits, options, history, scratch);
}

Result<TokenId> pick(std::span<const float> logits, const SamplingOptions& options,
                     const SamplingHistory& history, uint32_t choice, uint32_t position,
                     SamplerScratch& scratch) {
  PHIDIAS_CHECK_OK(options.validate(logits.size()));
  PHIDIAS_TRY(const TokenId largest, largest_logit(logits, position));
  if (options.temperature == 0) {
    if (!adjusts(options)) return largest;
    const std::span<const double> adjusted = adjust_logits(logits, options, history, scratch);
    PHIDIAS_TRY(const double best, largest_adjusted(adjusted));
    return static_cast<TokenId>(std::find(adjusted.begin(), adjusted.end(), best) -
                                adjusted.begin());
  }
  PHIDIAS_TRY(const auto candidates, keep_candidates(logits, options, history, scratch));
  return draw(candidates, draw_key(options.seed, choice, position));
}

}  // namespace phidias
