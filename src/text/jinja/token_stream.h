// Tokens with one of look-ahead, and the errors that Jinja words for an unexpected one.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/lexer.h"

namespace phidias::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) { check_fault(); }

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool is(Token::Kind kind) const { return current().is(kind); }
  bool is_name(std::string_view name) const { return current().is_name(name); }
  bool is_operator(std::string_view symbol) const { return current().is_operator(symbol); }

  Token next() {
    Token token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    check_fault();
    return token;
  }

  bool skip_name(std::string_view name) { return is_name(name) && skip(); }
  bool skip_operator(std::string_view symbol) { return is_operator(symbol) && skip(); }

  Token expect(Token::Kind kind) {
    if (!is(kind)) unexpected(describe(kind));
    return next();
  }
  void expect_name(std::string_view name) {
    if (!is_name(name)) unexpected(name);
    next();
  }
  void expect_operator(std::string_view symbol) {
    if (!is_operator(symbol)) unexpected(symbol);
    next();
  }

  std::string describe_current() const {
    const Token& token = current();
    const bool by_text = token.is(Token::Kind::kName) || token.is(Token::Kind::kOperator);
    return by_text ? token.text : std::string(describe(token.kind));
  }

  [[noreturn]] void syntax_error(std::string message) const {
    syntax_error(std::move(message), current().line);
  }
  [[noreturn]] static void syntax_error(std::string message, int line) {
    throw Failure{"TemplateSyntaxError", std::move(message), false, line};
  }

 private:
  bool skip() {
    next();
    return true;
  }

  void check_fault() const {
    if (is(Token::Kind::kFault)) syntax_error(current().text);
  }

  [[noreturn]] void unexpected(std::string_view wanted) const {
    if (is(Token::Kind::kEnd)) {
      syntax_error("unexpected end of template, expected '" + std::string(wanted) + "'.");
    }
    syntax_error("expected token '" + std::string(wanted) + "', got '" + describe_current() + "'");
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace phidias::jinja
