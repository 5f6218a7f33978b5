// Cutting a segment into words that the model encodes one by one: the pre-tokenizers of
// tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"

namespace phidias {

enum class SplitBehavior : uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous
};

struct SplitAtPattern {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what lies between the matches is treated as the matches, and the reverse
};
struct PrependSpace {};    // one space in front of each word that has none
struct ToByteAlphabet {};  // bytes become the characters of byte_level.h
struct MetaspaceWords {
  enum class Prepend : uint8_t { kAlways, kFirst, kNever };
  std::string replacement;  // stands for a space
  Prepend prepend = Prepend::kAlways;
};

// Steps in order; each refines what the one before gave. No word is ever empty.
using PreTokenizerStep = std::variant<SplitAtPattern, PrependSpace, ToByteAlphabet, MetaspaceWords>;
using PreTokenizer = std::vector<PreTokenizerStep>;

// A text cut into words: word i is text[ends[i - 1], ends[i]).
struct Words {
  std::string text;
  std::vector<size_t> ends;
  bool at_origin = false;  // the first word begins where the whole input begins

  template <typename Visit>
  void for_each(const Visit& visit) const {
    size_t begin = 0;
    for (const size_t end : ends) {
      visit(std::string_view(text).substr(begin, end - begin));
      begin = end;
    }
  }
};

//   at_origin   the segment begins where the whole input begins
Words pre_tokenize(const PreTokenizer& steps, std::string_view segment, bool at_origin);

}  // namespace phidias
