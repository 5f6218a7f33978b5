// Tokens that are found in the text before anything else happens to it: markers of turns, images,
// tools.
//   source   the behaviour of Hugging Face's added vocabulary: leftmost, longest match; flags below
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phidias/status.h"
#include "phidias/tokenizer.h"
#include "text/normalizer.h"

namespace phidias {

struct AddedToken {
  TokenId id = -1;
  std::string text;
  bool special = false;      // left out by decode(skip_special)
  bool lstrip = false;       // swallows white space in front of it
  bool rstrip = false;       // and behind it
  bool single_word = false;  // not beside a letter or digit
  bool normalized = false;  // is looked for after normalization, spelled as normalization leaves it
};

// Filled, then finish()ed, then immutable and safe to share.
class AddedTokens {
 public:
  // A later token of the same text replaces an earlier one. Errors: kCorrupt for an id out of range
  // or an id that two texts have, kUnsupported for a text of more than 4096 bytes. An empty text is
  // left out.
  Status add(AddedToken token);
  // Ready to search; `normalizer` is the tokenizer's.
  void finish(const Normalizer& normalizer);

  const AddedToken* find(TokenId id) const;
  const AddedToken* find(std::string_view text) const;
  // By id, ascending.
  const std::map<TokenId, AddedToken>& all() const { return tokens_; }
  bool has_normalized() const { return !normalized_.empty(); }

  // A stretch of text: a token with the white space it swallows, or (null) what lies between
  // tokens.
  struct Piece {
    const AddedToken* token;
    size_t begin;
    size_t end;
  };
  enum class Stage : uint8_t { kRaw, kNormalized };
  //   guard   a match of one character that this code point follows is ordinary text; 0: none
  std::vector<Piece> split(std::string_view text, Stage stage, char32_t guard) const;

  // `text` with `guard` put behind the first character of every token that it spells out. In a text
  // of valid UTF-8.
  std::string guarded(std::string_view text, char32_t guard) const;

 private:
  // All texts of one stage, letter by letter.
  class Trie {
   public:
    void add(std::string_view text, const AddedToken* token);
    bool empty() const { return nodes_.size() == 1; }
    // The longest text that begins at `from`, and its length.
    std::pair<const AddedToken*, size_t> longest(std::string_view text, size_t from) const;

   private:
    struct Node {
      std::vector<std::pair<char, uint32_t>> next;
      const AddedToken* token = nullptr;
    };
    std::array<uint32_t, 256> first_ = {};  // children of the root; 0: none
    std::vector<Node> nodes_ = std::vector<Node>(1);
  };

  std::map<TokenId, AddedToken> tokens_;
  std::unordered_map<std::string, TokenId> ids_;
  Trie raw_;
  Trie normalized_;
};

}  // namespace phidias
