#include "phidias/entries.h"

#include <algorithm>
#include <cstring>

#include "base/invalid.h"
#include "base/try.h"
#include "engine/categorical.h"

namespace phidias {
namespace {

// The largest logit of each row, lowest id on ties. Errors: kNonFinite as for sampling.
Result<std::vector<TokenId>> greedy(const Logits& logits, size_t vocab, uint32_t position) {
  return categorical({}, logits, vocab, 0, position);
}

}  // namespace

Result<Rows> Rows::create(Engine& engine, size_t batch, RopeSwitch rope_switch) {
  if (batch == 0) return invalid("must be at least 1", "batch");
  std::vector<SequenceId> rows;
  for (size_t i = 0; i < batch; ++i)
    rows.push_back(engine.open({.rope_switch = rope_switch, .prompt_tokens = 0}));
  return Rows(engine, std::move(rows), rope_switch);
}

Rows::~Rows() {
  for (const SequenceId row : rows_) engine_->close(row);
}
Rows::Rows(Rows&& other) noexcept
    : engine_(other.engine_), rows_(std::move(other.rows_)), rope_switch_(other.rope_switch_) {
  other.rows_.clear();
}
Rows& Rows::operator=(Rows&& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(rows_, other.rows_);
  std::swap(rope_switch_, other.rope_switch_);
  return *this;
}

uint32_t Rows::length(size_t row) const { return engine_->length(rows_[row]); }

// Runs rows whose outputs come in their own order.
Result<Logits> Rows::run(std::span<const Row> rows, size_t outputs) {
  Logits logits;
  logits.reserve(outputs * engine_->vocab());
  PHIDIAS_CHECK_OK(engine_->step(rows, [&](size_t, std::span<const float> row) {
    logits.insert(logits.end(), row.begin(), row.end());
  }));
  return logits;
}

Result<Logits> Rows::whole(std::span<const TokenId> tokens, size_t sequences, bool last_only) {
  if (sequences == 0 || tokens.empty() || tokens.size() % sequences != 0) {
    return invalid(std::to_string(tokens.size()) + " tokens are not " + std::to_string(sequences) +
                       " sequences of one length",
                   "tokens");
  }
  const size_t length = tokens.size() / sequences;
  std::vector<SequenceId> opened;
  std::vector<Row> rows;
  for (size_t b = 0; b < sequences; ++b) {
    opened.push_back(engine_->open(
        {.rope_switch = rope_switch_, .prompt_tokens = static_cast<uint32_t>(length)}));
    for (size_t s = 0; s < length; ++s) {
      rows.push_back({tokens[b * length + s], opened.back(), static_cast<uint32_t>(s),
                      !last_only || s + 1 == length});
    }
  }
  auto logits = run(rows, last_only ? sequences : tokens.size());
  for (const SequenceId sequence : opened) engine_->close(sequence);
  return logits;
}

Result<Logits> Rows::forward(std::span<const TokenId> tokens, size_t sequences) {
  return whole(tokens, sequences, false);
}
Result<Logits> Rows::next_token(std::span<const TokenId> tokens, size_t sequences) {
  return whole(tokens, sequences, true);
}

Status Rows::rewind(size_t row, uint32_t position) {
  if (row >= rows_.size()) return invalid("there is no row " + std::to_string(row), "rows");
  if (position > length(row)) {
    return invalid("row " + std::to_string(row) + " holds " + std::to_string(length(row)) +
                       " positions: nothing can be written at " + std::to_string(position),
                   "positions");
  }
  return engine_->truncate(rows_[row], position);
}

// Empties a row for a prompt whose length is known, so that its rotation is chosen by it.
Status Rows::restart(size_t row, uint32_t prompt_tokens) {
  if (row >= rows_.size()) return invalid("there is no row " + std::to_string(row), "rows");
  engine_->close(rows_[row]);
  rows_[row] = engine_->open({.rope_switch = rope_switch_, .prompt_tokens = prompt_tokens});
  return {};
}

Result<Logits> Rows::decode(std::span<const TokenId> tokens, uint32_t position) {
  const std::vector<uint32_t> positions(rows_.size(), position);
  return decode_rows(tokens, positions);
}

Result<Logits> Rows::prefill(std::span<const TokenId> tokens, uint32_t position) {
  if (tokens.empty() || tokens.size() % rows_.size() != 0) {
    return invalid(std::to_string(tokens.size()) + " tokens are not one length for each of " +
                       std::to_string(rows_.size()) + " rows",
                   "tokens");
  }
  const size_t length = tokens.size() / rows_.size();
  std::vector<Row> rows;
  for (size_t b = 0; b < rows_.size(); ++b) {
    PHIDIAS_CHECK_OK(position == 0 ? restart(b, static_cast<uint32_t>(length))
                                   : rewind(b, position));
    for (size_t s = 0; s < length; ++s) {
      rows.push_back(
          {tokens[b * length + s], rows_[b], static_cast<uint32_t>(position + s), s + 1 == length});
    }
  }
  return run(rows, rows_.size());
}

Result<Logits> Rows::prefill_slots(std::span<const TokenId> tokens, std::span<const size_t> slots,
                                   std::span<const uint32_t> lengths) {
  if (slots.empty() || lengths.size() != slots.size() || tokens.size() % slots.size() != 0) {
    return invalid("slots, lengths and the rows of tokens must be equally many", "slots");
  }
  const size_t padded = tokens.size() / slots.size();
  std::vector<Row> rows;
  for (size_t m = 0; m < slots.size(); ++m) {
    if (lengths[m] == 0 || lengths[m] > padded)
      return invalid("a prompt's length must lie between 1 and " + std::to_string(padded),
                     "lengths");
    if (std::find(slots.begin() + static_cast<ptrdiff_t>(m) + 1, slots.end(), slots[m]) !=
        slots.end()) {
      return invalid("row " + std::to_string(slots[m]) + " is named twice", "slots");
    }
    PHIDIAS_CHECK_OK(restart(slots[m], lengths[m]));
    for (uint32_t s = 0; s < lengths[m]; ++s)
      rows.push_back({tokens[m * padded + s], rows_[slots[m]], s, s + 1 == lengths[m]});
  }
  return run(rows, slots.size());
}

Result<Logits> Rows::prefill_packed(std::span<const TokenId> tokens, std::span<const size_t> rows,
                                    std::span<const uint32_t> positions,
                                    std::span<const uint32_t> segments,
                                    std::span<const size_t> last) {
  return step_packed(tokens, rows, positions, segments, last, {}, {}, {});
}

Result<Logits> Rows::decode_rows(std::span<const TokenId> tokens,
                                 std::span<const uint32_t> positions) {
  if (tokens.size() != rows_.size() || positions.size() != rows_.size()) {
    return invalid("there must be one token and one position for each of " +
                       std::to_string(rows_.size()) + " rows",
                   "tokens");
  }
  std::vector<Row> rows;
  for (size_t b = 0; b < rows_.size(); ++b) {
    PHIDIAS_CHECK_OK(rewind(b, positions[b]));
    rows.push_back({tokens[b], rows_[b], positions[b], true});
  }
  return run(rows, rows_.size());
}

Result<Logits> Rows::step_packed(std::span<const TokenId> tokens, std::span<const size_t> rows,
                                 std::span<const uint32_t> positions,
                                 std::span<const uint32_t> segments, std::span<const size_t> last,
                                 std::span<const size_t> step_rows,
                                 std::span<const TokenId> step_tokens,
                                 std::span<const uint32_t> step_positions) {
  if (rows.size() != tokens.size() || positions.size() != tokens.size() ||
      segments.size() != tokens.size()) {
    return invalid("tokens, rows, positions and segments must be equally many", "tokens");
  }
  if (step_tokens.size() != step_rows.size() || step_positions.size() != step_rows.size()) {
    return invalid("step rows, tokens and positions must be equally many", "step_rows");
  }
  std::vector<Row> packed;
  for (size_t p = 0; p < tokens.size(); ++p) {
    const bool first = p == 0 || segments[p] != segments[p - 1];
    if (first) {
      size_t end = p;
      while (end < tokens.size() && segments[end] == segments[p]) ++end;
      PHIDIAS_CHECK_OK(positions[p] == 0 ? restart(rows[p], static_cast<uint32_t>(end - p))
                                         : rewind(rows[p], positions[p]));
    } else if (rows[p] != rows[p - 1]) {
      return invalid("a prompt's tokens must go to one row", "rows");
    }
    packed.push_back({tokens[p], rows_[rows[p]], positions[p], false});
  }
  for (const size_t token : last) {
    if (token >= tokens.size())
      return invalid("there is no token " + std::to_string(token), "last");
    packed[token].wants_output = true;
  }
  for (size_t b = 0; b < step_rows.size(); ++b) {
    PHIDIAS_CHECK_OK(rewind(step_rows[b], step_positions[b]));
    packed.push_back({step_tokens[b], rows_[step_rows[b]], step_positions[b], true});
  }
  // Outputs are asked for in any order, perhaps twice: they are put where they belong as they come.
  const size_t vocab = engine_->vocab();
  Logits logits((last.size() + step_rows.size()) * vocab);
  PHIDIAS_CHECK_OK(engine_->step(packed, [&](size_t row, std::span<const float> values) {
    auto put = [&](size_t output) {
      std::memcpy(logits.data() + output * vocab, values.data(), vocab * sizeof(float));
    };
    if (row >= tokens.size()) return put(last.size() + row - tokens.size());
    for (size_t m = 0; m < last.size(); ++m) {
      if (last[m] == row) put(m);
    }
  }));
  return logits;
}

Result<std::vector<TokenId>> Rows::generate(std::span<const TokenId> tokens, uint32_t position,
                                            size_t steps) {
  std::vector<TokenId> current(tokens.begin(), tokens.end());
  std::vector<TokenId> produced(rows_.size() * steps);
  for (size_t i = 0; i < steps; ++i) {
    const auto at = static_cast<uint32_t>(position + i);
    PHIDIAS_TRY(const Logits logits, decode(current, at));
    PHIDIAS_TRY(current, greedy(logits, engine_->vocab(), at + 1));
    for (size_t b = 0; b < rows_.size(); ++b) produced[b * steps + i] = current[b];
  }
  return produced;
}

Result<std::vector<TokenId>> Rows::sample(std::span<const TokenId> tokens, uint32_t position,
                                          size_t steps, std::array<uint32_t, 2> key,
                                          double temperature) {
  std::vector<TokenId> current(tokens.begin(), tokens.end());
  std::vector<TokenId> produced(rows_.size() * steps);
  const std::vector<RandomKey> keys = split(RandomKey{key}, steps);
  for (size_t i = 0; i < steps; ++i) {
    const auto at = static_cast<uint32_t>(position + i);
    PHIDIAS_TRY(const Logits logits, decode(current, at));
    PHIDIAS_TRY(current, categorical(keys[i], logits, engine_->vocab(), temperature, at + 1));
    for (size_t b = 0; b < rows_.size(); ++b) produced[b * steps + i] = current[b];
  }
  return produced;
}

Result<Rows::Generated> Rows::generate_until(std::span<const TokenId> tokens, uint32_t position,
                                             size_t max_new, TokenId eos) {
  std::vector<TokenId> current(tokens.begin(), tokens.end());
  Generated result{.tokens = std::vector<TokenId>(rows_.size() * max_new), .count = 0};
  while (result.count < max_new) {
    const auto at = static_cast<uint32_t>(position + result.count);
    PHIDIAS_TRY(const Logits logits, decode(current, at));
    PHIDIAS_TRY(current, greedy(logits, engine_->vocab(), at + 1));
    for (size_t b = 0; b < rows_.size(); ++b)
      result.tokens[b * max_new + result.count] = current[b];
    ++result.count;
    if (std::all_of(current.begin(), current.end(), [eos](TokenId id) { return id == eos; })) break;
  }
  return result;
}

}  // namespace phidias
