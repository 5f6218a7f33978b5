// What a residual stream would predict: the logit lens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phidias/edits.h"
#include "phidias/engine.h"
#include "phidias/status.h"
#include "phidias/tensors.h"
#include "phidias/values.h"

namespace phidias {

// Logits [rows, vocab_size] of rows of the stream [rows, hidden_size]: the final norm of each row
// by its own size, the head, and what the model does to the head's output. Of the last layer's
// output they are the model's own, to the bit. Errors: kInvalidArgument for a size that is no whole
// number of rows.
Result<Tensor> project_on_vocab(Engine& engine, std::span<const float> residual);

struct TopToken {
  TokenId id = 0;
  float probability = 0;
};
// The likeliest tokens of a row of logits, the likeliest first, lower ids first on ties.
std::vector<TopToken> top_tokens(std::span<const float> logits, size_t count);

struct LensOptions {
  size_t top = 5;
  Positions at;  // in the text
  Edits edits;
};

// What each layer's output would predict at each position.
struct Lens {
  size_t layers = 0;
  std::vector<uint32_t> positions;
  std::vector<std::vector<TopToken>> best;  // [layers, positions]

  const std::vector<TopToken>& at(size_t layer, size_t index) const {
    return best[layer * positions.size() + index];
  }
};
// Errors: those of Trace.
Result<Lens> logit_lens(Engine& engine, std::vector<TokenId> ids, const LensOptions& options = {});

// How much each part of the network adds to a logit, or to the difference of two, at the text's
// last position. The final norm is frozen at its size in the run, so that the parts add up. Biases
// that belong to no head or block are parts of their own.
struct DirectAttribution {
  struct Part {
    // "token_embeddings", "layers.0.self_attn.attention_output[head=3]", "lm_head.bias", ...
    std::string name;
    double value = 0;
  };
  std::vector<Part> parts;
  double total = 0;  // of the parts
  double logit = 0;  // the model's own number; differs from the total by rounding alone
};
// logit(a), or with b logit(a) - logit(b). `by_heads`: attention head by head. Errors: those of
// Trace; kInvalidArgument for a token that is none, or that the model masks.
Result<DirectAttribution> direct_attribution(Engine& engine, std::vector<TokenId> ids, TokenId a,
                                             std::optional<TokenId> b = {}, bool by_heads = true);

}  // namespace phidias
