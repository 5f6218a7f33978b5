#include "text/jinja/lexer.h"

#include <algorithm>
#include <optional>

#include "text/jinja/failure.h"
#include "text/jinja/letter_case.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

using Kind = Token::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Text between quotes, with Python's escapes undone.
class StringReader {
 public:
  explicit StringReader(std::string_view text) : text_(text) {}

  std::string read() {
    while (at_ < text_.size()) {
      if (text_[at_] != '\\') {
        out_ += text_[at_++];
      } else {
        ++at_;
        read_escape();
      }
    }
    return std::move(out_);
  }

 private:
  void read_escape() {
    const char c = text_[at_++];  // the lexer let no string end in a single backslash
    constexpr std::string_view kPlain = "\\'\"abfnrtv";
    if (const size_t which = kPlain.find(c); which != kPlain.npos) {
      out_ += "\\'\"\a\b\f\n\r\t\v"[which];
    } else if (c >= '0' && c <= '7') {
      char32_t code = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
        code = code * 8 + static_cast<char32_t>(text_[at_++] - '0');
      }
      append_character(out_, code);
    } else if (c == 'x') {
      append_character(out_, hex_digits(2, "\\xXX"));
    } else if (c == 'u') {
      append_character(out_, utf16());
    } else if (c == 'U') {
      const char32_t code = hex_digits(8, "\\UXXXXXXXX");
      if (code > 0x10FFFF) syntax_error("illegal Unicode character");
      append_character(out_, code);
    } else if (c == 'N') {
      syntax_error("characters by name are not supported: write the character itself");
    } else if (c != '\n') {  // an escaped newline is no character
      out_ += '\\';
      out_ += c;
    }
  }

  // Two halves of a surrogate pair are one character.
  char32_t utf16() {
    const char32_t high = hex_digits(4, "\\uXXXX");
    if (high < 0xD800 || high >= 0xDC00 || text_.substr(at_, 2) != "\\u") return high;
    const size_t rewind = at_;
    at_ += 2;
    const char32_t low = hex_digits(4, "\\uXXXX");
    if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    at_ = rewind;
    return high;
  }

  char32_t hex_digits(int count, const char* form) {
    char32_t code = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const int digit = at_ < text_.size() ? hex_value(text_[at_]) : -1;
      if (digit < 0) syntax_error(std::string("truncated ") + form + " escape");
      code = code * 16 + static_cast<char32_t>(digit);
    }
    return code;
  }

  [[noreturn]] static void syntax_error(std::string message) {
    fail("TemplateSyntaxError", std::move(message));
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    try {
      while (at_ < source_.size()) read_data();
      push(Kind::kEnd, "");
    } catch (Failure& failure) {
      push(Kind::kFault, std::move(failure.message));
    }
    return std::move(tokens_);
  }

 private:
  [[noreturn]] static void syntax_error(std::string message) {
    fail("TemplateSyntaxError", std::move(message));
  }

  void push(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  bool ahead(std::string_view text) const { return source_.substr(at_, text.size()) == text; }

  void advance(size_t bytes) {
    const std::string_view passed = source_.substr(at_, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    at_ += passed.size();
  }

  void skip_space() { advance(source_.size() - at_ - strip_left(source_.substr(at_)).size()); }

  size_t find_tag() const {
    size_t tag = source_.find('{', at_);
    while (tag != source_.npos && tag + 1 < source_.size()) {
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') return tag;
      tag = source_.find('{', tag + 1);
    }
    return source_.npos;
  }

  // Template text up to the next tag, then what the tag opens.
  void read_data() {
    const size_t tag = find_tag();
    if (tag == source_.npos) {
      push(Kind::kData, std::string(source_.substr(at_)));
      advance(source_.size() - at_);
      return;
    }
    const char opening = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    push_stripped(tag, sign, opening != '{');
    advance(tag - at_ + 2);
    if (sign == '-' || sign == '+') advance(1);
    if (opening == '#') {
      skip_comment();
    } else if (opening == '{') {
      push(Kind::kVariableBegin, "");
      read_expression(Kind::kVariableEnd);
    } else if (const auto length = raw_tag_length()) {
      advance(*length);
      read_raw();
    } else {
      push(Kind::kBlockBegin, "");
      read_expression(Kind::kBlockEnd);
    }
  }

  // The text from here to `end`, where a tag with this sign begins.
  void push_stripped(size_t end, char sign, bool strip_line) {
    std::string_view text = source_.substr(at_, end - at_);
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && strip_line) {
      const size_t newline = text.rfind('\n');
      const bool at_line_start = at_ == 0 || source_[at_ - 1] == '\n';
      if (newline != text.npos || at_line_start) {
        const size_t start = newline == text.npos ? 0 : newline + 1;
        if (strip_left(text.substr(start)).empty()) text = text.substr(0, start);
      }
    }
    if (!text.empty()) push(Kind::kData, std::string(text));
  }

  // How many bytes the end of a tag has at `at`, with the white space it takes along; 0 if there is
  // none.
  size_t tag_end_length(size_t at, std::string_view end) const {
    const bool is_variable = end == "}}";
    const std::string_view rest = source_.substr(at);
    if (rest.empty()) return 0;
    if (rest.substr(0, 2) == end) return !is_variable && rest.substr(2, 1) == "\n" ? 3 : 2;
    if (rest.substr(1, 2) != end) return 0;
    if (rest[0] == '+' && !is_variable) return 3;
    if (rest[0] == '-') return rest.size() - strip_left(rest.substr(3)).size();
    return 0;
  }

  void skip_comment() {
    const size_t start = at_;
    if (start == source_.size()) return;  // Jinja lets a template end right after "{#"
    const size_t end = source_.find("#}", at_);
    if (end == source_.npos) syntax_error("Missing end of comment tag");
    const bool signed_end = end > start && (source_[end - 1] == '-' || source_[end - 1] == '+');
    advance(end - start - (signed_end ? 1 : 0));
    advance(tag_end_length(at_, "#}"));
  }

  // The rest of a raw tag, if this is one.
  std::optional<size_t> raw_tag_length() const {
    std::string_view rest = strip_left(source_.substr(at_));
    if (rest.substr(0, 3) != "raw") return std::nullopt;
    rest = strip_left(rest.substr(3));
    if (rest.substr(0, 2) == "%}") {
      rest.remove_prefix(2);
    } else if (rest.substr(0, 3) == "-%}") {
      rest = strip_left(rest.substr(3));
    } else {
      return std::nullopt;
    }
    return source_.size() - at_ - rest.size();
  }

  void read_raw() {
    for (size_t tag = source_.find("{%", at_); tag != source_.npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const bool is_signed = sign == '-' || sign == '+';
      constexpr std::string_view kName = "endraw";
      const std::string_view inside = strip_left(source_.substr(tag + (is_signed ? 3 : 2)));
      if (inside.substr(0, kName.size()) != kName) continue;
      const std::string_view closing = strip_left(inside.substr(kName.size()));
      const size_t length = tag_end_length(source_.size() - closing.size(), "%}");
      if (length == 0) continue;
      push_stripped(tag, sign, true);
      advance(source_.size() - closing.size() + length - at_);
      return;
    }
    syntax_error("Missing end of raw directive");
  }

  // Tokens up to the end of the tag. Brackets that are open keep "}}" from being it.
  void read_expression(Kind end) {
    const std::string_view end_text = end == Kind::kVariableEnd ? "}}" : "%}";
    std::string open;
    while (at_ < source_.size()) {
      if (open.empty()) {
        if (const size_t length = tag_end_length(at_, end_text)) {
          push(end, "");
          advance(length);
          return;
        }
      }
      const size_t before = at_;
      skip_space();
      if (at_ != before) continue;
      if (is_digit(peek())) {
        read_number();
      } else if (peek() == '\'' || peek() == '"') {
        read_string();
      } else if (const size_t length = name_length()) {
        push(Kind::kName, std::string(source_.substr(at_, length)));
        advance(length);
      } else {
        read_operator(open);
      }
    }
  }

  size_t name_length() const {
    size_t length = 0;
    while (true) {
      const std::string_view character = character_at(source_, at_ + length);
      const char32_t code = character.empty() ? U' ' : decode(character);
      if (code != U'_' && !is_alpha(code) && !is_decimal(code)) return length;
      length += character.size();
    }
  }

  // Digits of a base, with single _ between them.
  size_t digits_length(size_t from, int base) const {
    size_t length = 0;
    while (true) {
      const size_t skip = length > 0 && peek(from + length) == '_' ? 1 : 0;
      const int digit = hex_value(peek(from + length + skip));
      if (digit < 0 || digit >= base) return length;
      length += skip + 1;
    }
  }

  size_t float_length() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return 0;  // x.0.1 is two subscripts
    const size_t whole = digits_length(0, 10);
    size_t length = whole;
    if (peek(length) == '.') {
      if (const size_t fraction = digits_length(length + 1, 10)) length += 1 + fraction;
    }
    if (peek(length) == 'e' || peek(length) == 'E') {
      const size_t sign = peek(length + 1) == '+' || peek(length + 1) == '-' ? 1 : 0;
      const size_t exponent = digits_length(length + 1 + sign, 10);
      if (exponent > 0) length += 1 + sign + exponent;
    }
    return length > whole ? length : 0;
  }

  size_t integer_length() const {
    if (peek() != '0') return digits_length(0, 10);
    const char letter = static_cast<char>(peek(1) | 0x20);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (base != 0) {
      const size_t prefix = peek(2) == '_' ? 3 : 2;
      if (const size_t digits = digits_length(prefix, base)) return prefix + digits;
    }
    return digits_length(0, 1);
  }

  void read_number() {
    const size_t as_float = float_length();
    const size_t length = as_float != 0 ? as_float : integer_length();
    std::string text(source_.substr(at_, length));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    push(as_float != 0 ? Kind::kFloat : Kind::kInteger, std::move(text));
    advance(length);
  }

  void read_string() {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != peek()) {
      end += source_[end] == '\\' ? size_t{2} : size_t{1};
    }
    if (end >= source_.size()) unexpected_character();
    push(Kind::kString, StringReader(source_.substr(at_ + 1, end - at_ - 1)).read());
    advance(end + 1 - at_);
  }

  void read_operator(std::string& open) {
    constexpr std::string_view kLong[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kShort = "+-/*%~[](){}><=.:|,;";
    std::string symbol;
    for (const std::string_view candidate : kLong) {
      if (ahead(candidate)) symbol = candidate;
    }
    if (symbol.empty()) {
      if (kShort.find(peek()) == kShort.npos) unexpected_character();
      symbol = peek();
    }
    if (symbol == "(") {
      open += ')';
    } else if (symbol == "[") {
      open += ']';
    } else if (symbol == "{") {
      open += '}';
    } else if (symbol == ")" || symbol == "]" || symbol == "}") {
      if (open.empty()) syntax_error("unexpected '" + symbol + "'");
      const char expected = open.back();
      open.pop_back();
      if (symbol[0] != expected) {
        syntax_error("unexpected '" + symbol + "', expected '" + expected + "'");
      }
    }
    push(Kind::kOperator, symbol);
    advance(symbol.size());
  }

  [[noreturn]] void unexpected_character() const {
    std::string quoted;
    append_quoted(character_at(source_, at_), quoted);
    syntax_error("unexpected char " + quoted + " at " +
                 std::to_string(count_characters(source_.substr(0, at_))));
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::string_view describe(Token::Kind kind) {
  switch (kind) {
    case Kind::kData:
      return "template data / text";
    case Kind::kVariableBegin:
      return "begin of print statement";
    case Kind::kVariableEnd:
      return "end of print statement";
    case Kind::kBlockBegin:
      return "begin of statement block";
    case Kind::kBlockEnd:
      return "end of statement block";
    case Kind::kName:
      return "name";
    case Kind::kString:
      return "string";
    case Kind::kInteger:
      return "integer";
    case Kind::kFloat:
      return "float";
    case Kind::kOperator:
      return "operator";
    case Kind::kEnd:
      return "end of template";
    case Kind::kFault:
      break;
  }
  return "fault";
}

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace phidias::jinja
