// What a tokenizer consists of, whatever files it came from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phidias/tokenizer.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/detokenizer.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace phidias {

// Text goes through it from top to bottom: markers are cut out, what lies between is normalized,
// cut into words, and each word encoded. A loader fills the first part and calls finish().
struct TokenizerImpl {
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Vocabulary
      vocabulary;  // of the model alone: an added token may have an id of its own or one of these
  Bpe model;
  DecoderOptions decoder;

  std::vector<TokenId> prefix;  // put around the text by add_special
  std::vector<TokenId> suffix;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> pad;
  std::vector<TokenId> more_stop_ids;  // declared beside eos
  std::optional<std::string> chat_template;
  std::vector<std::pair<std::string, std::string>> template_tokens;

  // Made by finish() from the above.
  Detokenizer detokenizer;
  std::vector<TokenId> stop_ids;

  void finish();
  // The id of an added token or a token of the model.
  std::optional<TokenId> find(std::string_view text) const;
  // Puts bos in front (or not), whatever the files' template says; the same for eos behind.
  void set_adds_bos(bool wanted);
  void set_adds_eos(bool wanted);

  void encode_segment(std::string_view segment, bool at_origin, const EncodeOptions& options,
                      Bpe::Scratch& scratch, std::vector<TokenId>& ids) const;
};

// Finishes the parts and wraps them.
std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerImpl parts);

}  // namespace phidias
