// Template source to tokens, with white space handled as chat templates have it: the newline after
// a block tag goes (trim_blocks), and so do the spaces before one that starts a line
// (lstrip_blocks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phidias::jinja {

struct Token {
  enum class Kind : uint8_t {
    kData,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,   // text is the string without quotes and escapes
    kInteger,  // text is the literal without _
    kFloat,
    kOperator,  // text is the operator
    kEnd,
    kFault,  // text says why the source cannot be read on; the last token
  };

  Kind kind = Kind::kEnd;
  std::string text;
  int line = 1;

  bool is(Kind other) const { return kind == other; }
  bool is_name(std::string_view name) const { return kind == Kind::kName && text == name; }
  bool is_operator(std::string_view symbol) const {
    return kind == Kind::kOperator && text == symbol;
  }
};

// How error messages name a kind of token that is no name or operator.
std::string_view describe(Token::Kind kind);

// Every line ending as "\n", and without the last one.
std::string normalize_newlines(std::string_view source);

// `source` as normalize_newlines() leaves it. The last token is kEnd or kFault.
std::vector<Token> tokenize(std::string_view source);

}  // namespace phidias::jinja
