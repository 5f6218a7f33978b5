// Text to token ids and back: exactly the ids of the checkpoint's own tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phidias/status.h"

namespace phidias {

using TokenId = int32_t;

struct EncodeOptions {
  bool add_special =
      true;  // put in front (and behind) what the tokenizer's files say belongs there
  bool markers =
      true;  // added tokens spelled out in the text become their ids; false: they are ordinary text
  // A code point that the caller has put inside spelled-out markers that must stay ordinary text.
  // It hides them from the search for markers and is then removed from the text. 0: none. See
  // guard_markers().
  char32_t guard = 0;
};

struct TokenizerImpl;

// Immutable and safe to share between threads.
class Tokenizer {
 public:
  // From a Hugging Face folder (tokenizer.json, tokenizer_config.json and, where present,
  // special_tokens_map.json, added_tokens.json) or the metadata of a GGUF file. Errors: kNotFound
  // if there is no tokenizer, kCorrupt, kUnsupported (a kind named in the message).
  static Result<std::shared_ptr<const Tokenizer>> load(const std::filesystem::path& path);

  explicit Tokenizer(std::unique_ptr<const TokenizerImpl> impl);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Bytes that are not UTF-8 are read as U+FFFD. Near-linear in the length of the text.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Ids outside the vocabulary decode to nothing. Always valid UTF-8.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  // The bytes that an id stands for: a character's part for byte tokens, a marker's text, empty for
  // unused ids.
  std::string token_bytes(TokenId id) const;
  std::optional<TokenId> find(
      std::string_view token_text) const;  // the id of a token spelled exactly so
  bool is_special(TokenId id) const;       // skipped by decode(skip_special)
  size_t size() const;                     // highest id + 1

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> pad() const;
  bool adds_bos() const;  // whether encode(add_special) begins with bos
  // Ids that end a turn: eos as declared, and the markers of the family that do so by their text
  // (<|end|>, <|endoftext|>, <|im_end|>, and <|assistant|> of the Phi-3 vocabulary). Ascending.
  std::vector<TokenId> stop_ids() const;
  // The chat template that the tokenizer's files carry ("default" where there are several).
  std::optional<std::string> chat_template() const;
  // Values of bos_token, eos_token and so on for templates: name -> text.
  std::vector<std::pair<std::string, std::string>> template_tokens() const;

  // Hides added tokens that `text` spells out: `guard` is put after their first character. With the
  // same guard in EncodeOptions they are then ordinary text. The guard itself is removed from
  // `text` first. Tokens that the files mark as `normalized` are hidden where they are spelled as
  // after normalization. Take a code point that normalization leaves alone, such as one for private
  // use.
  std::string guard_markers(std::string_view text, char32_t guard) const;

  const TokenizerImpl& impl() const { return *impl_; }

 private:
  std::unique_ptr<const TokenizerImpl> impl_;
};

// What decoding one id at a time must remember.
struct DecodeProgress {
  std::string pending;      // bytes of a character that is not complete yet
  bool first_token = true;  // no id has been decoded yet
  bool stripping = true;    // spaces at the start may still have to go
  size_t stripped = 0;      // how many have gone
};

// Decoding one id at a time. What push() returns, joined, then flush(), is the text; no part ever
// ends inside a character. Bytes that cannot become a character are U+FFFD as soon as that is
// clear, so where byte tokens form no valid text the whole can differ from decode(), which looks at
// all bytes of a run together. One stream per answer; not thread safe; the tokenizer must outlive
// it.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer, bool skip_special = false);
  std::string push(TokenId id);
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  DecodeProgress progress_;
};

}  // namespace phidias
