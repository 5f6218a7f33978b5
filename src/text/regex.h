// Patterns of tokenizer files: a literal text, or a regular expression in the dialect of those
// files (Oniguruma's, as far as it is used there), run by PCRE2 with compiled code and with limits.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phidias/status.h"

namespace phidias {

// Immutable and safe to share between threads.
class Pattern {
 public:
  static Pattern literal(std::string text);
  // Errors: kUnsupported for syntax that the two dialects read differently, kCorrupt for what is no
  // expression.
  static Result<Pattern> regex(std::string_view expression);

  // Calls found(begin, end) for each match in `text` from left to right; matches do not overlap but
  // may be empty. `text` must be valid UTF-8. An expression that needs more work than the limits
  // allow ends the search early.
  void for_each_match(std::string_view text,
                      const std::function<void(size_t, size_t)>& found) const;
  // All matches replaced by `content`, literally.
  std::string replace(std::string_view text, std::string_view content) const;

 private:
  struct Compiled;
  std::string literal_;
  std::shared_ptr<const Compiled> compiled_;  // null for a literal
};

// Character sets for use inside [...], as tokenizer files mean them.
inline constexpr std::string_view kWhiteSpaceSet =
    R"(\x{9}-\x{d} \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// Alphabetic, marks, decimal digits, connectors and joiners; the ranges are the symbols that count
// as letters.
inline constexpr std::string_view kWordSet =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

}  // namespace phidias
