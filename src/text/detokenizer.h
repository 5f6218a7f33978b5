// Ids to text: the bytes that each id stands for, and how bytes that are no character are shown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/tokenizer.h"
#include "text/added_tokens.h"
#include "text/regex.h"
#include "text/vocabulary.h"

namespace phidias {

// The decoders of tokenizer.json, brought into one form.
struct DecoderOptions {
  // The texts of tokens are written in the alphabet of byte_level.h.
  bool byte_alphabet = false;
  // Tokens spelled <0x00> .. <0xFF> are bytes. Bytes that follow each other are one run; where the
  // whole text is decoded and a run is not valid as a whole, each of its bytes is shown as U+FFFD.
  bool byte_tokens = false;
  struct Replacement {
    Pattern pattern;
    std::string content;
  };
  std::vector<Replacement> replacements;  // within each token's text
  // This character is left out of the first token.
  std::string first_token_drops;
  // So many of this character are left out at the start of the whole text.
  std::string strip;
  size_t strip_count = 0;
};

// Immutable after building; safe to share between threads.
class Detokenizer {
 public:
  Detokenizer() = default;
  Detokenizer(const DecoderOptions& options, const Vocabulary& vocabulary,
              const AddedTokens& added);

  size_t size() const { return ends_.size(); }  // highest id + 1
  // The bytes that `id` stands for; empty for ids that are not there.
  std::string_view bytes(TokenId id) const;
  bool is_byte_token(TokenId id) const;
  bool is_special(TokenId id) const;

  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  // One id at a time; see DecodeStream.
  std::string push(TokenId id, bool skip_special, DecodeProgress& progress) const;
  std::string flush(DecodeProgress& progress) const;

 private:
  enum Flag : uint8_t { kSpecial = 1, kByte = 2 };

  bool skips(TokenId id, bool skip_special) const;
  std::string_view bytes_at(TokenId id, bool first) const;
  std::string take_characters(DecodeProgress& progress, bool at_end) const;
  void strip(std::string& text, DecodeProgress& progress) const;

  bool byte_runs_ = false;
  std::string strip_;
  size_t strip_count_ = 0;
  std::string blob_;          // the bytes of all ids, one after another
  std::vector<size_t> ends_;  // of each id in blob_
  std::vector<uint8_t> flags_;
  bool first_differs_ = false;
  std::string first_blob_;  // the same for an id that comes first, where that differs
  std::vector<size_t> first_ends_;
};

}  // namespace phidias
