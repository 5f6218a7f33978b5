// The entries of the published model source (forward, next_token, decode, prefill, ...) as thin
// functions over the engine's one step. A Rows object is a fixed number of cache rows, each holding
// one sequence; tokens are given as flat arrays, results are [.., vocab] logits.
//
// Positions are absolute. An entry that writes at a position below a row's length first forgets
// what the row holds from there on, also where it then fails. Errors are those of Engine::step. One
// thread at a time; the engine must outlive the object.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "phidias/engine.h"
#include "phidias/status.h"

namespace phidias {

using Logits = std::vector<float>;

class Rows {
 public:
  // `batch` cache rows, at least 1.
  static Result<Rows> create(Engine& engine, size_t batch,
                             RopeSwitch rope_switch = RopeSwitch::kReprefill);
  ~Rows();
  Rows(Rows&&) noexcept;
  Rows& operator=(Rows&&) noexcept;

  size_t batch() const { return rows_.size(); }
  uint32_t length(size_t row) const;

  // Logits [B, S, vocab] of B whole sequences of S tokens, tokens [B, S]; the cache rows are not
  // touched.
  Result<Logits> forward(std::span<const TokenId> tokens, size_t sequences);
  // As forward, the last position only: [B, vocab].
  Result<Logits> next_token(std::span<const TokenId> tokens, size_t sequences);

  // One token for every row at the same position, tokens [batch]: [batch, vocab].
  Result<Logits> decode(std::span<const TokenId> tokens, uint32_t position);
  // S tokens for every row from `position` on, tokens [batch, S]; logits after the last: [batch,
  // vocab].
  Result<Logits> prefill(std::span<const TokenId> tokens, uint32_t position);
  // M prompts into rows `slots` from position 0, tokens [M, S] of which the first lengths[m] are
  // real: [M, vocab].
  Result<Logits> prefill_slots(std::span<const TokenId> tokens, std::span<const size_t> slots,
                               std::span<const uint32_t> lengths);
  // Prompts packed end to end: token p goes to rows[p] at positions[p] and belongs to prompt
  // segments[p]. Logits after tokens last[m]: [M, vocab].
  Result<Logits> prefill_packed(std::span<const TokenId> tokens, std::span<const size_t> rows,
                                std::span<const uint32_t> positions,
                                std::span<const uint32_t> segments, std::span<const size_t> last);
  // One token for every row, each at its own position: [batch, vocab].
  Result<Logits> decode_rows(std::span<const TokenId> tokens, std::span<const uint32_t> positions);
  // prefill_packed's prompts, and in the same pass one token for each of `step_rows`: [M + step
  // rows, vocab], prompts first.
  Result<Logits> step_packed(std::span<const TokenId> tokens, std::span<const size_t> rows,
                             std::span<const uint32_t> positions,
                             std::span<const uint32_t> segments, std::span<const size_t> last,
                             std::span<const size_t> step_rows,
                             std::span<const TokenId> step_tokens,
                             std::span<const uint32_t> step_positions);

  // Greedy: `steps` tokens after tokens [batch] at `position`: [batch, steps].
  Result<std::vector<TokenId>> generate(std::span<const TokenId> tokens, uint32_t position,
                                        size_t steps);
  // Drawn from softmax(logits / temperature) with one key per step split from `key`, in the key
  // schedule of the published source; its zero uniform, which would draw a token whatever its
  // logit, is avoided: [batch, steps].
  Result<std::vector<TokenId>> sample(std::span<const TokenId> tokens, uint32_t position,
                                      size_t steps, std::array<uint32_t, 2> key,
                                      double temperature);
  struct Generated {
    std::vector<TokenId> tokens;  // [batch, max_new]; zeros past `count`
    size_t count = 0;             // steps taken
  };
  // Greedy until every row's token of a step is `eos`, at most max_new steps.
  Result<Generated> generate_until(std::span<const TokenId> tokens, uint32_t position,
                                   size_t max_new, TokenId eos);

 private:
  Rows(Engine& engine, std::vector<SequenceId> rows, RopeSwitch rope_switch)
      : engine_(&engine), rows_(std::move(rows)), rope_switch_(rope_switch) {}
  Result<Logits> whole(std::span<const TokenId> tokens, size_t sequences, bool last_only);
  Status rewind(size_t row, uint32_t position);
  Status restart(size_t row, uint32_t prompt_tokens);
  Result<Logits> run(std::span<const Row> rows, size_t outputs);

  Engine* engine_;
  std::vector<SequenceId> rows_;
  RopeSwitch rope_switch_;
};

}  // namespace phidias
