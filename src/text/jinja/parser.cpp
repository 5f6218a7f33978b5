#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "text/jinja/expression_parser.h"

namespace phidias::jinja {
namespace {

using Kind = Token::Kind;
using TagNames = std::vector<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Body parse() {
    Body body = parse_until({});
    if (const auto failure = expressions_.unknown_name()) throw *failure;
    return body;
  }

 private:
  using Tolerance = ExpressionParser::Tolerance;
  using Level = ExpressionParser::Level;

  // What stands inside a loop may break out of it; a macro or a call block inside starts afresh.
  class LoopDepth {
   public:
    LoopDepth(Parser& parser, int depth) : parser_(parser), before_(parser.loop_depth_) {
      parser.loop_depth_ = depth;
    }
    ~LoopDepth() { parser_.loop_depth_ = before_; }
    LoopDepth(const LoopDepth&) = delete;
    LoopDepth& operator=(const LoopDepth&) = delete;

   private:
    Parser& parser_;
    int before_;
  };

  template <typename Node>
  static std::unique_ptr<const Statement> make(int line, Node node) {
    return std::make_unique<const Statement>(Statement{line, std::move(node)});
  }

  // Statements up to a tag with one of these names, which becomes the current token; with none, up
  // to the end.
  Body parse_until(const TagNames& end_tags) {
    Body body;
    if (!end_tags.empty()) awaited_.push_back(end_tags);
    while (!tokens_.is(Kind::kEnd)) {
      const int line = tokens_.current().line;
      if (tokens_.is(Kind::kData)) {
        body.push_back(make(line, Output{tokens_.next().text}));
      } else if (tokens_.is(Kind::kVariableBegin)) {
        tokens_.next();
        body.push_back(make(line, Print{expressions_.parse_tuple()}));
        tokens_.expect(Kind::kVariableEnd);
      } else {
        tokens_.expect(Kind::kBlockBegin);
        const auto ends = [this](std::string_view name) { return tokens_.is_name(name); };
        if (std::any_of(end_tags.begin(), end_tags.end(), ends)) break;
        parse_statement(body);
        tokens_.expect(Kind::kBlockEnd);
      }
    }
    if (!end_tags.empty()) {
      if (tokens_.is(Kind::kEnd)) unexpected_tag(std::nullopt);
      awaited_.pop_back();
    }
    return body;
  }

  // The rest of an opening tag, and the body up to one of these tags.
  Body parse_body(const TagNames& end_tags) {
    tokens_.skip_operator(":");  // Jinja allows Python's colon
    tokens_.expect(Kind::kBlockEnd);
    return parse_until(end_tags);
  }

  // A body up to its only possible end, which is passed.
  Body parse_whole_body(std::string_view end_tag) {
    Body body = parse_body({end_tag});
    tokens_.next();
    return body;
  }

  // The body of what has names of its own.
  Body parse_scoped_body(std::string_view end_tag) {
    const Tolerance hard(expressions_, false);
    return parse_whole_body(end_tag);
  }

  void parse_statement(Body& body) {
    if (!tokens_.is(Kind::kName)) tokens_.syntax_error("tag name expected");
    const Level level(expressions_);
    using Parse = void (Parser::*)(int line, Body&);
    constexpr std::pair<std::string_view, Parse> kTags[] = {
        {"if", &Parser::parse_if},
        {"for", &Parser::parse_for},
        {"set", &Parser::parse_set},
        {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call_block},
        {"filter", &Parser::parse_filter_block},
        {"with", &Parser::parse_with},
        {"print", &Parser::parse_print},
        {"generation", &Parser::parse_generation},
        {"break", &Parser::parse_break},
        {"continue", &Parser::parse_continue},
    };
    constexpr std::string_view kOtherTags[] = {"block",  "extends", "include",
                                               "import", "from",    "autoescape"};
    const Token tag = tokens_.current();
    for (const auto& [name, parse] : kTags) {
      if (tag.text != name) continue;
      tokens_.next();
      open_tags_.push_back(name);
      (this->*parse)(tag.line, body);
      open_tags_.pop_back();
      return;
    }
    for (const std::string_view name : kOtherTags) {
      if (tag.text == name) {
        tokens_.syntax_error("The tag '" + tag.text + "' is not supported in chat templates.");
      }
    }
    unexpected_tag(tag.text);
  }

  static std::string quoted_list(const TagNames& names) {
    std::string list;
    for (const std::string_view name : names) {
      list += (list.empty() ? "'" : " or '") + std::string(name) + "'";
    }
    return list;
  }

  // At a tag that does not belong here, or at the end of the template where one was missing.
  [[noreturn]] void unexpected_tag(const std::optional<std::string>& name) const {
    std::string message =
        name ? "Encountered unknown tag '" + *name + "'." : "Unexpected end of template.";
    if (!awaited_.empty()) {
      const bool awaited_further_out =
          name && std::any_of(awaited_.begin(), awaited_.end(), [&](const auto& tags) {
            return std::find(tags.begin(), tags.end(), *name) != tags.end();
          });
      const std::string looking_for = quoted_list(awaited_.back());
      message +=
          awaited_further_out
              ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently"
                " looking for " +
                    looking_for + "."
              : " Jinja was looking for the following tags: " + looking_for + ".";
    }
    if (!open_tags_.empty()) {
      message += " The innermost block that needs to be closed is '" +
                 std::string(open_tags_.back()) + "'.";
    }
    tokens_.syntax_error(std::move(message));
  }

  void parse_if(int line, Body& body) {
    const Tolerance soft(expressions_, true);
    If node;
    std::string tag;
    do {
      ExpressionPtr test = expressions_.parse_tuple(false);
      node.branches.emplace_back(std::move(test), parse_body({"elif", "else", "endif"}));
      tag = tokens_.next().text;
    } while (tag == "elif");
    if (tag == "else") node.otherwise = parse_whole_body("endif");
    body.push_back(make(line, std::move(node)));
  }

  void parse_for(int line, Body& body) {
    For node;
    node.target = parse_target(false, "in");
    if (node.target.mentions("loop")) {
      throw Failure{"TemplateAssertionError",
                    "Can't assign to special loop variable in for-loop target", false, line};
    }
    tokens_.expect_name("in");
    node.iterable = expressions_.parse_tuple(false, "recursive");
    if (tokens_.skip_name("if")) node.filter = expressions_.parse();
    node.recursive = tokens_.skip_name("recursive");
    const Tolerance hard(expressions_, false);
    {
      const LoopDepth inside(*this, loop_depth_ + 1);
      node.body = parse_body({"endfor", "else"});
    }
    if (tokens_.next().text == "else") node.otherwise = parse_whole_body("endfor");
    body.push_back(make(line, std::move(node)));
  }

  void parse_set(int line, Body& body) {
    Target target = parse_target(true);
    if (tokens_.skip_operator("=")) {
      body.push_back(make(line, Set{std::move(target), expressions_.parse_tuple()}));
      return;
    }
    std::vector<ExpressionPtr> filters = expressions_.parse_filters(false);
    body.push_back(
        make(line, SetBlock{std::move(target), std::move(filters), parse_scoped_body("endset")}));
  }

  void parse_macro(int line, Body& body) {
    std::string name = tokens_.expect(Kind::kName).text;
    body.push_back(make(line, parse_callable(std::move(name), true, "endmacro")));
  }

  void parse_call_block(int line, Body& body) {
    CallBlock node;
    std::vector<Parameter> parameters;
    if (tokens_.is_operator("(")) parameters = parse_parameters();
    node.call = expressions_.parse();
    if (!std::holds_alternative<Call>(node.call->node))
      TokenStream::syntax_error("expected call", line);
    node.caller = parse_callable("caller", false, "endcall");
    node.caller.parameters = std::move(parameters);
    body.push_back(make(line, std::move(node)));
  }

  // What follows the name of a macro, or the call of a call block.
  Macro parse_callable(std::string name, bool with_parameters, std::string_view end_tag) {
    Macro macro;
    macro.name = std::move(name);
    if (with_parameters) macro.parameters = parse_parameters();
    const Mentions outer = std::exchange(expressions_.mentions(), Mentions{});
    const LoopDepth afresh(*this, 0);
    macro.body = parse_scoped_body(end_tag);
    Mentions& mentions = expressions_.mentions();
    macro.takes_rest = mentions.varargs;
    macro.takes_named = mentions.kwargs;
    macro.takes_caller = mentions.caller;
    mentions = {mentions.varargs || outer.varargs, mentions.kwargs || outer.kwargs,
                mentions.caller || outer.caller};
    return macro;
  }

  std::vector<Parameter> parse_parameters() {
    std::vector<Parameter> parameters;
    tokens_.expect_operator("(");
    while (!tokens_.is_operator(")")) {
      if (!parameters.empty()) tokens_.expect_operator(",");
      Parameter parameter{tokens_.expect(Kind::kName).text, nullptr};
      if (tokens_.skip_operator("=")) {
        parameter.fallback = expressions_.parse();
      } else if (!parameters.empty() && parameters.back().fallback) {
        tokens_.syntax_error("non-default argument follows default argument");
      }
      parameters.push_back(std::move(parameter));
    }
    tokens_.expect_operator(")");
    return parameters;
  }

  void parse_filter_block(int line, Body& body) {
    std::vector<ExpressionPtr> filters = expressions_.parse_filters(true);
    body.push_back(make(line, FilterBlock{std::move(filters), parse_scoped_body("endfilter")}));
  }

  void parse_with(int line, Body& body) {
    With node;
    while (!tokens_.is(Kind::kBlockEnd)) {
      if (!node.values.empty()) tokens_.expect_operator(",");
      Target target = parse_target(false);
      tokens_.expect_operator("=");
      node.values.emplace_back(std::move(target), expressions_.parse());
    }
    node.body = parse_scoped_body("endwith");
    body.push_back(make(line, std::move(node)));
  }

  void parse_print(int, Body& body) {
    bool first = true;
    while (!tokens_.is(Kind::kBlockEnd)) {
      if (!first) tokens_.expect_operator(",");
      first = false;
      const int line = tokens_.current().line;
      body.push_back(make(line, Print{expressions_.parse()}));
    }
  }

  void parse_generation(int line, Body& body) {
    const LoopDepth afresh(*this, 0);
    body.push_back(make(line, Generation{parse_scoped_body("endgeneration")}));
  }

  void parse_break(int line, Body& body) {
    if (loop_depth_ == 0) throw Failure{"SyntaxError", "'break' outside loop", false, line};
    body.push_back(make(line, Break{}));
  }

  void parse_continue(int line, Body& body) {
    if (loop_depth_ == 0)
      throw Failure{"SyntaxError", "'continue' not properly in loop", false, line};
    body.push_back(make(line, Continue{}));
  }

  // Names with commas between them, in parentheses or not, up to the name `end_name`.
  Target parse_target(bool with_namespace, std::string_view end_name = {}) {
    Target whole;
    while (true) {
      if (!whole.items.empty()) tokens_.expect_operator(",");
      const bool ends = tokens_.is(Kind::kBlockEnd) || tokens_.is_operator(")") ||
                        tokens_.is_operator("=") ||
                        (!end_name.empty() && tokens_.is_name(end_name));
      if (ends && !whole.items.empty()) break;
      whole.items.push_back(parse_single_target(with_namespace));
      if (!tokens_.is_operator(",")) break;
      whole.is_tuple = true;
    }
    if (!whole.is_tuple) return std::move(whole.items.front());
    return whole;
  }

  Target parse_single_target(bool with_namespace) {
    if (tokens_.skip_operator("(")) {
      const Level level(expressions_);
      Target inside = parse_target(with_namespace);
      tokens_.expect_operator(")");
      return inside;
    }
    if (tokens_.is(Kind::kBlockEnd)) {
      tokens_.syntax_error("Expected an expression, got '" + tokens_.describe_current() + "'");
    }
    if (tokens_.is(Kind::kString) || tokens_.is(Kind::kInteger) || tokens_.is(Kind::kFloat)) {
      tokens_.syntax_error("can't assign to 'const'");
    }
    if (!tokens_.is(Kind::kName)) {
      tokens_.syntax_error("unexpected '" + tokens_.describe_current() + "'");
    }
    Target target;
    target.name = tokens_.next().text;
    constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
    for (const std::string_view constant : kConstants) {
      if (target.name == constant) tokens_.syntax_error("can't assign to 'const'");
    }
    if (with_namespace && tokens_.skip_operator("."))
      target.attribute = tokens_.expect(Kind::kName).text;
    return target;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::vector<TagNames> awaited_;  // the tags that may end each open body
  std::vector<std::string_view> open_tags_;
  int loop_depth_ = 0;
};

}  // namespace

Body parse_template(std::string_view source) { return Parser(source).parse(); }

}  // namespace phidias::jinja
