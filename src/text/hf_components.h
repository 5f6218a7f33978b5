// The parts of tokenizer.json, in its own words, as the steps of ours. Whatever it names that is
// not read here is refused by that name (kUnsupported): a tokenizer that is nearly right gives
// wrong ids without a word.
#pragma once

#include "text/dom.h"
#include "text/tokenizer_impl.h"

namespace phidias {

// Each takes the value under its key; null is an empty sequence (but for the decoder, which is
// needed).
Status read_normalizer(const DomReader& node, Normalizer& steps);
Status read_pre_tokenizer(const DomReader& node, PreTokenizer& steps);
Status read_decoder(const DomReader& node, DecoderOptions& decoder);
Status read_post_processor(const DomReader& node, TokenizerImpl& parts);
// Vocabulary and merges.
Status read_bpe(const DomReader& node, TokenizerImpl& parts);
Status read_added_tokens(const std::vector<DomReader>& nodes, AddedTokens& added);

}  // namespace phidias
