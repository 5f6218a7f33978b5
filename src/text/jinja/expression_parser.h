// Expressions, with the precedence that Jinja gives them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/token_stream.h"

namespace phidias::jinja {

// Special names that a macro body mentions, which decide what the macro takes.
struct Mentions {
  bool varargs = false;
  bool kwargs = false;
  bool caller = false;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // One expression; without `conditional`, an `if` after it is left alone.
  ExpressionPtr parse(bool conditional = true);
  // One expression, or several with commas between them: a tuple. `end_name` ends it too, where not
  // empty.
  ExpressionPtr parse_tuple(bool conditional = true, std::string_view end_name = {},
                            bool in_parentheses = false);
  // | filter | filter(...), each without input. With `first_inline`, the first stands without its
  // bar.
  std::vector<ExpressionPtr> parse_filters(bool first_inline);

  // Unknown filters in here are errors only when they run: the template may ask for them
  // conditionally.
  class Tolerance {
   public:
    Tolerance(ExpressionParser& parser, bool tolerant)
        : parser_(parser), before_(parser.tolerant_) {
      parser.tolerant_ = tolerant;
    }
    ~Tolerance() { parser_.tolerant_ = before_; }
    Tolerance(const Tolerance&) = delete;
    Tolerance& operator=(const Tolerance&) = delete;

   private:
    ExpressionParser& parser_;
    bool before_;
  };

  // Held while something nested in itself is parsed.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxSourceDepth) parser_.too_deep();
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  Mentions& mentions() { return mentions_; }
  // The first unknown filter or test, to be thrown when the rest of the template turned out to be
  // well formed.
  std::optional<Failure> unknown_name() const;

 private:
  template <typename Node>
  ExpressionPtr make(int line, int inner_depth, Node node);
  [[noreturn]] void too_deep() const;

  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_postfix(ExpressionPtr object);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr input);

  ExpressionPtr parse_name();
  ExpressionPtr parse_string();
  ExpressionPtr parse_number();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_attribute(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_filter(ExpressionPtr input);
  ExpressionPtr parse_test(ExpressionPtr input);
  CallArguments parse_arguments(int& inner_depth);
  std::string parse_dotted_name();
  ExpressionPtr apply(int line, int inner_depth, Application application);

  TokenStream& tokens_;
  Budget budget_;
  int depth_ = 0;
  bool tolerant_ = false;
  Mentions mentions_;
  std::vector<Failure> unknown_names_;
};

}  // namespace phidias::jinja
