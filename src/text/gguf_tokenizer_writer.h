// The tokenizer of a Hugging Face folder as the keys that every reader of GGUF knows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf_writer.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// Writes tokenizer.ggml.*: model and pre-tokenizer, texts, types and scores of all ids, merges,
// the ids of bos, eos, end of turn, unknown and padding, and whether bos and eos are added.
//   tokenizer_json   the text that `tokenizer` was read from; `place` names it in errors
//   rows             of the embedding: ids that the tokenizer lacks are written as "[PAD<id>]",
//                    unused
//   notices          gets what other programs will do differently
// SentencePiece's scores fall with the rank of the merge that makes a piece, so that both rules
// merge in the same order. Errors: kCorrupt; kUnsupported for ids beyond `rows`.
Status add_tokenizer_keys(GgufHeader& header, std::string_view tokenizer_json,
                          const std::string& place, const Tokenizer& tokenizer, size_t rows,
                          std::vector<std::string>& notices);

// For a model without a tokenizer.
void add_no_tokenizer_keys(GgufHeader& header);

}  // namespace phidias
