#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "base/try.h"
#include "base/utf8.h"

namespace phidias {
namespace {

// Far above what published tokenizers need on a text of megabytes, and less than a second of work.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 256U << 10;
constexpr size_t kMaxExpressionBytes = 64U << 10;

// What \w is in an expression: inside [...] kWordSet without its joiners, alone that and six number
// forms of Latin-1. Measured over all code points.
constexpr std::string_view kWordInClass =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kWordAlone =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})"
    R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

// Between a word character and another, or not.
std::string word_border(bool wanted) {
  const std::string word = "[" + std::string(kWordAlone) + "]";
  const std::string before = "(?<=" + word + ")";
  const std::string not_before = "(?<!" + word + ")";
  const std::string behind = "(?=" + word + ")";
  const std::string not_behind = "(?!" + word + ")";
  return wanted ? "(?:" + before + not_behind + "|" + not_before + behind + ")"
                : "(?:" + before + behind + "|" + not_before + not_behind + ")";
}

Error refuse(std::string_view what) {
  return {Code::kUnsupported,
          "the regular expression uses " + std::string(what) + ", which this build does not read",
          {}};
}

// Rewrites what PCRE2 reads differently (^ and $ are at lines in both, by an option): \s there
// includes U+180E, \w leaves marks out, \h is another class.
Result<std::string> translate(std::string_view expression) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    const char next = i + 1 < expression.size() ? expression[i + 1] : '\0';
    if (c == '\\') {
      ++i;
      const auto set = [&](std::string_view members) {
        out += in_class ? std::string(members) : "[" + std::string(members) + "]";
      };
      const auto complement = [&](std::string_view members) -> Status {
        if (in_class) return refuse(std::string("\\") + next + " inside a character class");
        out += "[^" + std::string(members) + "]";
        return {};
      };
      if (next == 's') {
        set(kWhiteSpaceSet);
      } else if (next == 'w') {
        set(in_class ? kWordInClass : kWordAlone);
      } else if (next == 'S') {
        PHIDIAS_CHECK_OK(complement(kWhiteSpaceSet));
      } else if (next == 'W') {
        PHIDIAS_CHECK_OK(complement(kWordAlone));
      } else if ((next == 'b' || next == 'B') && !in_class) {
        out += word_border(next == 'b');
      } else if (next == 'u') {
        const std::string_view digits = expression.substr(i + 1, 4);
        if (digits.size() != 4) return refuse("\\u without four digits");
        out += "\\x{" + std::string(digits) + "}";
        i += 4;
      } else {
        const bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
        const bool same = std::string_view("dDpPrntfvxbAz").find(next) != std::string_view::npos;
        if (next == '\0' || (letter && !same)) return refuse(std::string("\\") + next);
        out += c;
        out += next;
        if (i + 1 < expression.size() && expression[i + 1] == '{' && letter) {
          const size_t end = expression.find('}', i);
          if (end == std::string_view::npos) return refuse("{ without }");
          out += expression.substr(i + 1, end - i);
          i = end;
        }
      }
      continue;
    }
    if (in_class) {
      if (c == '[' && next != ':') return refuse("a character class inside another");
      if (c == '&' && next == '&') return refuse("an intersection of character classes");
      if (c == ']') in_class = false;
      if (c == '[') {  // [:name:] is copied whole, so that its bracket does not end the class
        const size_t end = expression.find(":]", i + 2);
        if (end == std::string_view::npos) return refuse("[: without :]");
        out += expression.substr(i, end + 2 - i);
        i = end + 1;
        continue;
      }
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(' && next == '*') {
      return refuse("(*");
    } else if (c == '}' && next == '+') {
      return refuse("}+ (possessive in one dialect, repeated in the other)");
    }
    out += c;
  }
  return out;
}

struct MatchDataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

size_t character_length(std::string_view text, size_t at) {
  return at < text.size() ? read_valid_utf8(text, at).length : 1;
}

}  // namespace

struct Pattern::Compiled {
  Compiled(pcre2_code* compiled, pcre2_match_context* limits_of_match)
      : code(compiled), limits(limits_of_match) {}
  ~Compiled() {
    pcre2_code_free(code);
    pcre2_match_context_free(limits);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  pcre2_code* code;
  pcre2_match_context* limits;
};

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Result<Pattern> Pattern::regex(std::string_view expression) {
  if (expression.size() > kMaxExpressionBytes) return refuse("more than 64 KiB");
  PHIDIAS_TRY(const std::string translated, translate(expression));
  int reason = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE,
      &reason, &offset, nullptr);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message = {};
    pcre2_get_error_message(reason, message.data(), message.size());
    return Error{
        Code::kCorrupt,
        "is not a regular expression: " + std::string(reinterpret_cast<char*>(message.data())),
        {}};
  }
  // Without compiled code (a platform that forbids it) the interpreter runs: slower, same matches.
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(limits, kMatchLimit);
  pcre2_set_heap_limit(limits, kHeapLimitKib);
  Pattern pattern;
  pattern.compiled_ = std::make_shared<const Compiled>(code, limits);
  return pattern;
}

void Pattern::for_each_match(std::string_view text,
                             const std::function<void(size_t, size_t)>& found) const {
  if (!compiled_) {
    if (literal_.empty()) return;
    for (size_t at = text.find(literal_); at != std::string_view::npos;
         at = text.find(literal_, at + literal_.size())) {
      found(at, at + literal_.size());
    }
    return;
  }

  const std::unique_ptr<pcre2_match_data, MatchDataFree> data(pcre2_match_data_create(1, nullptr));
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t from = 0;
  size_t last_end = std::string_view::npos;
  while (from <= text.size()) {
    // The text is valid already; checking it again at each match would be quadratic.
    int count = pcre2_match(compiled_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                            data.get(), compiled_->limits);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = pcre2_match(compiled_->code, subject, text.size(), from,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), compiled_->limits);
    }
    if (count < 0) return;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    const size_t begin = range[0];
    const size_t end = range[1];
    if (begin == end && begin == last_end) {  // an empty match right behind a match does not count
      from = end + character_length(text, end);
      continue;
    }
    found(begin, end);
    last_end = end;
    from = begin < end ? end : end + character_length(text, end);
  }
}

std::string Pattern::replace(std::string_view text, std::string_view content) const {
  std::string out;
  size_t copied = 0;
  for_each_match(text, [&](size_t begin, size_t end) {
    out += text.substr(copied, begin - copied);
    out += content;
    copied = end;
  });
  out += text.substr(copied);
  return out;
}

}  // namespace phidias
