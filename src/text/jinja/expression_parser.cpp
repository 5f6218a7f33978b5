#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/natives.h"

namespace phidias::jinja {
namespace {

using Kind = Token::Kind;

int depth_of(const ExpressionPtr& expression) { return expression ? expression->depth : 0; }

// A literal such as 12, 0xff, 0b1 or 0o7.
Integer integer_value(std::string_view text) {
  unsigned base = 10;
  if (text.size() > 2 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    if (base != 10) text.remove_prefix(2);
  }
  Integer value = 0;
  for (const char c : text) {
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (__builtin_mul_overflow(value, Integer{base}, &value) ||
        __builtin_add_overflow(value, Integer{digit}, &value)) {
      fail("TemplateSyntaxError", "the integer is too large");
    }
  }
  return value;
}

}  // namespace

template <typename Node>
ExpressionPtr ExpressionParser::make(int line, int inner_depth, Node node) {
  if (inner_depth >= kMaxSourceDepth) too_deep();
  return std::make_unique<const Expression>(Expression{line, inner_depth + 1, std::move(node)});
}

void ExpressionParser::too_deep() const {
  tokens_.syntax_error("the template is nested too deeply");
}

std::optional<Failure> ExpressionParser::unknown_name() const {
  if (unknown_names_.empty()) return std::nullopt;
  return unknown_names_.front();
}

ExpressionPtr ExpressionParser::parse(bool conditional) {
  const Level level(*this);
  const int line = tokens_.current().line;
  const size_t unknown_before = unknown_names_.size();
  ExpressionPtr value = parse_or();
  // a if b if c else d if e: what has been read so far is the value of the next condition.
  while (conditional && tokens_.skip_name("if")) {
    ExpressionPtr test = parse_or();
    ExpressionPtr otherwise = tokens_.skip_name("else") ? parse() : nullptr;
    unknown_names_.resize(std::min(unknown_before, unknown_names_.size()));
    const int depth = std::max({depth_of(test), depth_of(value), depth_of(otherwise)});
    value = make(line, depth, Conditional{std::move(test), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_tuple(bool conditional, std::string_view end_name,
                                            bool in_parentheses) {
  const int line = tokens_.current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  int depth = 0;
  while (true) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.is(Kind::kVariableEnd) || tokens_.is(Kind::kBlockEnd) || tokens_.is_operator(")") ||
        (!end_name.empty() && tokens_.is_name(end_name))) {
      break;
    }
    items.push_back(parse(conditional));
    depth = std::max(depth, items.back()->depth);
    if (!tokens_.is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items.front());
    if (!in_parentheses) {
      tokens_.syntax_error("Expected an expression, got '" + tokens_.describe_current() + "'");
    }
  }
  return make(line, depth, SequenceLiteral{SequenceKind::kTuple, std::move(items)});
}

ExpressionPtr ExpressionParser::parse_or() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_and();
  while (tokens_.skip_name("or")) {
    ExpressionPtr right = parse_and();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, depth, Logic{false, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_not();
  while (tokens_.skip_name("and")) {
    ExpressionPtr right = parse_not();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, depth, Logic{true, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!tokens_.is_name("not")) return parse_comparison();
  const Level level(*this);
  const int line = tokens_.next().line;
  ExpressionPtr operand = parse_not();
  const int depth = operand->depth;
  return make(line, depth, Unary{UnaryOperator::kNot, std::move(operand)});
}

ExpressionPtr ExpressionParser::parse_comparison() {
  constexpr std::pair<std::string_view, ComparisonOperator> kOperators[] = {
      {"==", ComparisonOperator::kEqual},  {"!=", ComparisonOperator::kNotEqual},
      {"<", ComparisonOperator::kLess},    {"<=", ComparisonOperator::kLessEqual},
      {">", ComparisonOperator::kGreater}, {">=", ComparisonOperator::kGreaterEqual},
  };
  const auto skip_operator = [this, &kOperators]() -> std::optional<ComparisonOperator> {
    for (const auto& [symbol, op] : kOperators) {
      if (tokens_.skip_operator(symbol)) return op;
    }
    if (tokens_.skip_name("in")) return ComparisonOperator::kIn;
    if (!tokens_.is_name("not") || !tokens_.look().is_name("in")) return std::nullopt;
    tokens_.next();
    tokens_.next();
    return ComparisonOperator::kNotIn;
  };
  const int line = tokens_.current().line;
  Comparison comparison{parse_sum(), {}};
  int depth = comparison.first->depth;
  while (const auto op = skip_operator()) {
    comparison.rest.emplace_back(*op, parse_sum());
    depth = std::max(depth, comparison.rest.back().second->depth);
  }
  if (comparison.rest.empty()) return std::move(comparison.first);
  return make(line, depth, std::move(comparison));
}

ExpressionPtr ExpressionParser::parse_sum() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_concatenation();
  while (tokens_.is_operator("+") || tokens_.is_operator("-")) {
    const bool plus = tokens_.next().text == "+";
    ExpressionPtr right = parse_concatenation();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, depth,
                Binary{plus ? BinaryOperator::kAdd : BinaryOperator::kSubtract, std::move(left),
                       std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  const int line = tokens_.current().line;
  Concatenation whole;
  whole.parts.push_back(parse_product());
  int depth = whole.parts.back()->depth;
  while (tokens_.skip_operator("~")) {
    whole.parts.push_back(parse_product());
    depth = std::max(depth, whole.parts.back()->depth);
  }
  if (whole.parts.size() == 1) return std::move(whole.parts.front());
  return make(line, depth, std::move(whole));
}

ExpressionPtr ExpressionParser::parse_product() {
  constexpr std::pair<std::string_view, BinaryOperator> kOperators[] = {
      {"*", BinaryOperator::kMultiply},
      {"/", BinaryOperator::kDivide},
      {"//", BinaryOperator::kFloorDivide},
      {"%", BinaryOperator::kModulo},
  };
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_power();
  while (true) {
    const auto* op = std::find_if(std::begin(kOperators), std::end(kOperators),
                                  [this](const auto& o) { return tokens_.is_operator(o.first); });
    if (op == std::end(kOperators)) return left;
    tokens_.next();
    ExpressionPtr right = parse_power();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, depth, Binary{op->second, std::move(left), std::move(right)});
  }
}

// Unlike Python's, Jinja's powers group from the left.
ExpressionPtr ExpressionParser::parse_power() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_unary();
  while (tokens_.skip_operator("**")) {
    ExpressionPtr right = parse_unary();
    const int depth = std::max(left->depth, right->depth);
    left = make(line, depth, Binary{BinaryOperator::kPower, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Level level(*this);
  ExpressionPtr value;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    const Token sign = tokens_.next();
    ExpressionPtr operand = parse_unary(false);
    const int depth = operand->depth;
    const UnaryOperator op = sign.text == "-" ? UnaryOperator::kMinus : UnaryOperator::kPlus;
    value = make(sign.line, depth, Unary{op, std::move(operand)});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_primary() {
  if (tokens_.is(Kind::kName)) return parse_name();
  if (tokens_.is(Kind::kString)) return parse_string();
  if (tokens_.is(Kind::kInteger) || tokens_.is(Kind::kFloat)) return parse_number();
  if (tokens_.is_operator("[")) return parse_list();
  if (tokens_.is_operator("{")) return parse_dict();
  if (!tokens_.skip_operator("(")) {
    tokens_.syntax_error("unexpected '" + tokens_.describe_current() + "'");
  }
  ExpressionPtr inside = parse_tuple(true, {}, true);
  tokens_.expect_operator(")");
  return inside;
}

ExpressionPtr ExpressionParser::parse_name() {
  const Token token = tokens_.next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.line, 0, Literal{Value(true)});
  if (name == "false" || name == "False") return make(token.line, 0, Literal{Value(false)});
  if (name == "none" || name == "None") return make(token.line, 0, Literal{Value()});
  mentions_.varargs |= name == "varargs";
  mentions_.kwargs |= name == "kwargs";
  mentions_.caller |= name == "caller";
  return make(token.line, 0, Name{name});
}

ExpressionPtr ExpressionParser::parse_string() {
  const int line = tokens_.current().line;
  std::string text;
  while (tokens_.is(Kind::kString)) text += tokens_.next().text;
  return make(line, 0, Literal{Value::text(budget_, std::move(text))});
}

ExpressionPtr ExpressionParser::parse_number() {
  const Token token = tokens_.next();
  if (token.is(Kind::kInteger))
    return make(token.line, 0, Literal{Value(integer_value(token.text))});
  // A literal beyond the largest float reads as infinity, and one below the smallest as 0.
  return make(token.line, 0, Literal{Value(std::strtod(token.text.c_str(), nullptr))});
}

ExpressionPtr ExpressionParser::parse_list() {
  const int line = tokens_.next().line;
  SequenceLiteral list;
  int depth = 0;
  while (!tokens_.is_operator("]")) {
    if (!list.items.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.is_operator("]")) break;
    }
    list.items.push_back(parse());
    depth = std::max(depth, list.items.back()->depth);
  }
  tokens_.expect_operator("]");
  return make(line, depth, std::move(list));
}

ExpressionPtr ExpressionParser::parse_dict() {
  const int line = tokens_.next().line;
  DictLiteral dict;
  int depth = 0;
  while (!tokens_.is_operator("}")) {
    if (!dict.entries.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.is_operator("}")) break;
    }
    ExpressionPtr key = parse();
    tokens_.expect_operator(":");
    ExpressionPtr value = parse();
    depth = std::max({depth, key->depth, value->depth});
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  tokens_.expect_operator("}");
  return make(line, depth, std::move(dict));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr object) {
  while (true) {
    if (tokens_.is_operator(".")) {
      object = parse_attribute(std::move(object));
    } else if (tokens_.is_operator("[")) {
      object = parse_subscript(std::move(object));
    } else if (tokens_.is_operator("(")) {
      object = parse_call(std::move(object));
    } else {
      return object;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr input) {
  while (true) {
    if (tokens_.skip_operator("|")) {
      input = parse_filter(std::move(input));
    } else if (tokens_.is_name("is")) {
      input = parse_test(std::move(input));
    } else if (tokens_.is_operator("(")) {
      input = parse_call(std::move(input));
    } else {
      return input;
    }
  }
}

ExpressionPtr ExpressionParser::parse_attribute(ExpressionPtr object) {
  const int line = tokens_.next().line;
  const int depth = object->depth;
  if (tokens_.is(Kind::kInteger)) {
    ExpressionPtr index = parse_number();
    return make(line, depth, Subscript{std::move(object), std::move(index)});
  }
  if (!tokens_.is(Kind::kName)) tokens_.syntax_error("expected name or number");
  return make(line, depth, Attribute{std::move(object), tokens_.next().text});
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const int line = tokens_.next().line;
  const auto at_end = [this] { return tokens_.is_operator("]") || tokens_.is_operator(","); };
  ExpressionPtr parts[3];  // start, stop, step
  size_t part = 0;
  int depth = object->depth;
  while (!at_end()) {
    if (tokens_.skip_operator(":")) {
      if (++part > 2) tokens_.syntax_error("expected token ']', got ':'");
    } else if (parts[part] == nullptr) {
      parts[part] = parse();
      depth = std::max(depth, parts[part]->depth);
    } else {
      break;
    }
  }
  if (tokens_.is_operator(",")) {
    if (parts[0] == nullptr) tokens_.syntax_error("unexpected ','");
    if (part > 0) tokens_.syntax_error("expected token ']', got ','");
    std::vector<ExpressionPtr> items;
    items.push_back(std::move(parts[0]));
    while (tokens_.skip_operator(",")) {
      items.push_back(parse());
      depth = std::max(depth, items.back()->depth);
    }
    parts[0] = make(line, depth, SequenceLiteral{SequenceKind::kTuple, std::move(items)});
    ++depth;
  }
  tokens_.expect_operator("]");
  if (part > 0) {
    return make(
        line, depth,
        Slice{std::move(object), std::move(parts[0]), std::move(parts[1]), std::move(parts[2])});
  }
  if (parts[0] == nullptr) parts[0] = make(line, 0, SequenceLiteral{SequenceKind::kTuple, {}});
  return make(line, depth, Subscript{std::move(object), std::move(parts[0])});
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  const int line = tokens_.current().line;
  int depth = callee->depth;
  CallArguments arguments = parse_arguments(depth);
  return make(line, depth, Call{std::move(callee), std::move(arguments)});
}

CallArguments ExpressionParser::parse_arguments(int& inner_depth) {
  const int line = tokens_.current().line;
  tokens_.expect_operator("(");
  CallArguments arguments;
  const auto require = [line](bool condition) {
    if (!condition) {
      TokenStream::syntax_error("invalid syntax for function call expression", line);
    }
  };
  const auto parse_one = [this, &inner_depth] {
    ExpressionPtr value = parse();
    inner_depth = std::max(inner_depth, value->depth);
    return value;
  };
  bool first = true;
  while (!tokens_.is_operator(")")) {
    if (!first) {
      tokens_.expect_operator(",");
      if (tokens_.is_operator(")")) break;
    }
    first = false;
    if (tokens_.skip_operator("*")) {
      require(!arguments.spread_positional && !arguments.spread_named);
      arguments.spread_positional = parse_one();
    } else if (tokens_.skip_operator("**")) {
      require(!arguments.spread_named);
      arguments.spread_named = parse_one();
    } else if (tokens_.is(Kind::kName) && tokens_.look().is_operator("=")) {
      require(!arguments.spread_named);
      std::string name = tokens_.next().text;
      tokens_.next();
      for (const auto& other : arguments.named) {
        if (other.first == name)
          throw Failure{"SyntaxError", "keyword argument repeated: " + name, false, line};
      }
      arguments.named.emplace_back(std::move(name), parse_one());
    } else {
      require(arguments.named.empty() && !arguments.spread_positional && !arguments.spread_named);
      arguments.positional.push_back(parse_one());
    }
  }
  tokens_.expect_operator(")");
  return arguments;
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = tokens_.expect(Kind::kName).text;
  while (tokens_.skip_operator(".")) name += "." + tokens_.expect(Kind::kName).text;
  return name;
}

ExpressionPtr ExpressionParser::apply(int line, int inner_depth, Application application) {
  application.code =
      application.is_test ? find_test(application.name) : find_filter(application.name);
  if (application.code == nullptr && !tolerant_) {
    const std::string kind = application.is_test ? "test" : "filter";
    unknown_names_.push_back({"TemplateAssertionError",
                              "No " + kind + " named '" + application.name + "'.", false, line});
  }
  return make(line, inner_depth, std::move(application));
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr input) {
  const int line = tokens_.current().line;
  int depth = depth_of(input);
  Application filter{std::move(input), parse_dotted_name(), nullptr, false, {}};
  if (tokens_.is_operator("(")) filter.arguments = parse_arguments(depth);
  return apply(line, depth, std::move(filter));
}

std::vector<ExpressionPtr> ExpressionParser::parse_filters(bool first_inline) {
  std::vector<ExpressionPtr> filters;
  if (first_inline) filters.push_back(parse_filter(nullptr));
  while (tokens_.skip_operator("|")) filters.push_back(parse_filter(nullptr));
  return filters;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr input) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip_name("not");
  int depth = input->depth;
  Application test{std::move(input), parse_dotted_name(), nullptr, true, {}};
  const bool literal = tokens_.is(Kind::kName) || tokens_.is(Kind::kString) ||
                       tokens_.is(Kind::kInteger) || tokens_.is(Kind::kFloat) ||
                       tokens_.is_operator("[") || tokens_.is_operator("{");
  const bool keyword = tokens_.is_name("else") || tokens_.is_name("or") || tokens_.is_name("and");
  if (tokens_.is_operator("(")) {
    test.arguments = parse_arguments(depth);
  } else if (literal && !keyword) {
    if (tokens_.is_name("is")) tokens_.syntax_error("You cannot chain multiple tests with is");
    test.arguments.positional.push_back(parse_postfix(parse_primary()));
    depth = std::max(depth, test.arguments.positional.back()->depth);
  }
  ExpressionPtr result = apply(line, depth, std::move(test));
  if (!negated) return result;
  return make(line, depth + 1, Unary{UnaryOperator::kNot, std::move(result)});
}

}  // namespace phidias::jinja
