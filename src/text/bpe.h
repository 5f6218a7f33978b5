// Byte pair encoding of one word: symbols that stand side by side are merged, the pair of lowest
// rank first and the leftmost of equals, until no pair has a merge.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phidias/status.h"
#include "text/vocabulary.h"

namespace phidias {

struct Merge {
  uint32_t rank = 0;
  TokenId result = -1;
};

// Pair of symbols to merge: open addressing, one cache line per look-up in most cases.
class MergeTable {
 public:
  void reserve(size_t count);
  // A pair that is there already gets the new merge.
  void set(TokenId left, TokenId right, Merge merge);
  const Merge* find(TokenId left, TokenId right) const {
    if (slots_.empty()) return nullptr;
    const uint64_t key = key_of(left, right);
    for (size_t at = hash(key) & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return &slots_[at].merge;
      if (slots_[at].key == kFree) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // no pair: symbols are not negative
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  static uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  static size_t hash(uint64_t key) {
    key *= 0x9E3779B97F4A7C15U;  // 2^64 over the golden ratio
    return static_cast<size_t>(key ^ key >> 32);
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t used_ = 0;
};

struct BpeOptions {
  bool byte_fallback = false;      // unknown characters become the byte tokens <0x00> .. <0xFF>
  bool fuse_unknown = false;       // unknown characters side by side are one unknown token
  bool ignore_merges = false;      // a word that is a token is that token, whatever the merges say
  std::optional<TokenId> unknown;  // the token of unknown characters; without one they are dropped
};

// Immutable after building; safe to share between threads.
class Bpe {
 public:
  // Memory of one caller, kept from word to word.
  class Scratch {
    friend class Bpe;
    struct Symbol {
      TokenId id;
      uint32_t previous;
      uint32_t next;
    };
    // A merge that may be done: stale once one of its two symbols has changed.
    struct Candidate {
      uint32_t rank;
      uint32_t left;
      TokenId result;
      // Orders a heap: the lowest rank on top, of equal ranks the leftmost.
      bool operator<(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : left > other.left;
      }
    };
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
  };

  Bpe() = default;  // knows no symbol
  // Merges as pairs of texts, by rank. Errors: kCorrupt for parts or results that are not in the
  // vocabulary.
  static Result<Bpe> from_merges(
      const Vocabulary& vocabulary,
      const std::vector<std::pair<std::string_view, std::string_view>>& merges,
      const BpeOptions& options);
  // Merges of any two texts that together are one of `pieces`; the rank is that of the result, and
  // equal ranks are allowed. This is SentencePiece's rule where ranks fall with the score,
  // tiktoken's where they are the ids. Errors: kUnsupported for a piece of more than 1024 bytes.
  struct RankedPiece {
    TokenId id = -1;
    uint32_t rank = 0;
  };
  static Result<Bpe> from_pieces(const Vocabulary& vocabulary,
                                 const std::vector<RankedPiece>& pieces, const BpeOptions& options);

  // Appends the ids of `word` (valid UTF-8), in O(n log n). `vocabulary` is the one it was built
  // from.
  void encode(const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
              std::vector<TokenId>& ids) const;

 private:
  Bpe(const Vocabulary& vocabulary, const BpeOptions& options);
  TokenId symbol_of(char32_t character) const;  // -1: none
  void set_symbol(char32_t character, TokenId symbol);
  template <typename Push>
  void spell_unknown(std::string_view character, bool after_unknown, const Push& push) const;
  void add_neighbours(std::string_view result);
  size_t add_symbols(std::string_view word, Scratch& scratch) const;
  void add_candidate(Scratch& scratch, uint32_t left) const;
  void merge_symbols(Scratch& scratch) const;
  void append_ids(const Scratch& scratch, std::vector<TokenId>& ids) const;

  BpeOptions options_;
  MergeTable merges_;
  // Characters that stand side by side in the result of some merge: between all others no merge
  // ever reaches across, so that a long word falls into short ones.
  MergeTable neighbours_;
  std::vector<TokenId> low_characters_;  // symbols of frequent characters, by code point; -1: none
  std::unordered_map<char32_t, TokenId> characters_;
  std::vector<TokenId> byte_tokens_;  // 256, or empty without byte_fallback
  // Symbols from here on are characters that are no tokens, but parts of some.
  TokenId first_phantom_ = 0;
  std::vector<std::string> phantoms_;
};

// "<0x41>" is 0x41.
std::optional<uint8_t> parse_byte_token(std::string_view text);

}  // namespace phidias
