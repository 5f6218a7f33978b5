// Hostile templates end with a failure, in bounded time and memory.
#include <gtest/gtest.h>

#include <chrono>

#include "text/jinja/budget.h"
#include "text/jinja/template.h"

namespace phidias {
namespace {

std::string repeat(std::string_view what, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += what;
  return out;
}

// The type of the failure; "rendered" if there was none.
std::string outcome(std::string_view source, const Json& variables = Json::object()) {
  const auto start = std::chrono::steady_clock::now();
  auto parsed = jinja::Template::parse(source);
  std::string type = "rendered";
  if (auto* failure = std::get_if<jinja::Failure>(&parsed)) {
    type = failure->type;
  } else {
    auto rendering = std::get<0>(parsed)->render(variables);
    if (auto* refused = std::get_if<jinja::Failure>(&rendering)) type = refused->type;
  }
  // A generous bound: sanitizers and a loaded machine are slow, but an unbounded loop never ends.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60))
      << source.substr(0, 100);
  return type;
}

TEST(JinjaLimits, LoopsInLoopsEnd) {
  const std::string loop = "{% for a in range(100000) %}";
  const std::string end = "{% endfor %}";
  EXPECT_EQ(outcome(repeat(loop, 4) + repeat(end, 4)), "TemplateRuntimeError");
  EXPECT_EQ(outcome(loop + "{% set x = a ~ a %}" + end), "rendered");
}

TEST(JinjaLimits, OutputEnds) {
  EXPECT_EQ(outcome("{% for a in range(100000) %}{{ 'x' * 1000 }}{% endfor %}"),
            "TemplateRuntimeError");
}

TEST(JinjaLimits, GrowthByDoublingEnds) {
  EXPECT_EQ(outcome("{% set n = namespace(s='x') %}{% for i in range(100) %}{% set n.s = n.s ~ n.s "
                    "%}{% endfor %}"),
            "TemplateRuntimeError");
  EXPECT_EQ(outcome("{% set n = namespace(s=[1]) %}{% for i in range(100) %}{% set n.s = n.s + n.s "
                    "%}{% endfor %}"),
            "TemplateRuntimeError");
  EXPECT_EQ(outcome("{% set n = namespace(s=[1]) %}{% for i in range(100) %}{% set n.s = [n.s, "
                    "n.s] %}{% endfor %}"
                    "{{ n.s }}"),
            "TemplateRuntimeError");
  EXPECT_EQ(
      outcome(
          "{% set n = namespace(s=[1], t=[1]) %}{% for i in range(100) %}{% set n.s = [n.s, n.s] %}"
          "{% set n.t = [n.t, n.t] %}{% endfor %}{{ n.s == n.t }}"),
      "TemplateRuntimeError");
}

TEST(JinjaLimits, GreatNumbersInArgumentsAreRefused) {
  for (const char* expression :
       {"'x' * 10 ** 18", "[1] * 10 ** 18", "'x' | center(10 ** 18)", "'x'.ljust(10 ** 18)",
        "'1'.zfill(10 ** 18)", "'a\nb' | indent(10 ** 9, true)", "'%999999999d' | format(1)",
        "'{:>999999999}'.format(1)", "[1] | batch(10 ** 18, 'x') | list",
        "[1] | slice(10 ** 18) | list", "range(10 ** 18)", "'%*d' % (10 ** 18, 1)",
        "('a' * 100000).replace('', 'b' * 100000)", "('a' * 100000) | replace('a', 'b' * 100000)",
        "('x,' * 100000).split(',') | join('y' * 100000)", "2 ** (10 ** 9)",
        "('a\t' * 1000000).expandtabs(1000)"}) {
    EXPECT_NE(outcome("{{ " + std::string(expression) + " }}"), "rendered") << expression;
  }
}

TEST(JinjaLimits, SearchTakesLinearTime) {
  EXPECT_EQ(
      outcome(
          "{% set a = 'a' * 4000000 %}{% set b = 'a' * 2000000 ~ 'b' %}{{ b in a }}{{ a.find(b) }}"
          "{{ a.rfind(b) }}{{ a.count(b) }}{{ a.replace(b, '') | length }}{{ a.split(b) | length "
          "}}"),
      "rendered");
}

TEST(JinjaLimits, NestedSourceIsRefused) {
  constexpr size_t kDeep = 100'000;
  for (const char* open :
       {"(", "[", "{1:", "not ", "-", "f(", "x[", "1 if 2 else ", "1 ** -", "x is x is "}) {
    EXPECT_EQ(outcome("{{ " + repeat(open, kDeep)), "TemplateSyntaxError") << open;
  }
  for (const char* link :
       {" + 1", ".x", "[0]", "()", "|e", " and 1", " or 1", " ** 1", " * 1", " is odd"}) {
    EXPECT_EQ(outcome("{{ x" + repeat(link, kDeep) + " }}"), "TemplateSyntaxError") << link;
  }
  EXPECT_EQ(outcome(repeat("{% if x %}", kDeep)), "TemplateSyntaxError");
  EXPECT_EQ(outcome(repeat("{% for x in x %}", kDeep / 2)), "TemplateSyntaxError");
  EXPECT_EQ(outcome("{% set " + repeat("(", kDeep)), "TemplateSyntaxError");
  EXPECT_EQ(outcome(repeat("{# ", kDeep)), "TemplateSyntaxError");
  EXPECT_EQ(outcome(repeat("{% raw %}", kDeep)), "TemplateSyntaxError");
}

TEST(JinjaLimits, ManyBranchesAndPartsAreNoNesting) {
  constexpr size_t kMany = 5000;
  EXPECT_EQ(outcome("{% if x %}" + repeat("{% elif x %}", kMany) + "{% endif %}"), "rendered");
  EXPECT_EQ(outcome("{{ 1" + repeat(" ~ 1", kMany) + " }}"), "rendered");
  EXPECT_EQ(outcome("{{ [1" + repeat(", 1", kMany) + "] }}"), "rendered");
}

TEST(JinjaLimits, RecursionEnds) {
  EXPECT_EQ(outcome("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), "RecursionError");
  EXPECT_EQ(
      outcome("{% macro f(x) %}{% call f(x) %}{% endcall %}{{ caller }}{% endmacro %}{{ f(1) }}"),
      "RecursionError");
  EXPECT_EQ(outcome("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), "RecursionError");
  EXPECT_EQ(outcome("{% set n = namespace() %}{% set n.n = n %}{{ n }}"), "RecursionError");
  EXPECT_EQ(outcome("{% set n = namespace(x=1) %}{% for i in range(10000) %}{% set n.x = [n.x] "
                    "%}{% endfor %}"),
            "RecursionError");
  EXPECT_EQ(outcome("{% set n = namespace(x=[]) %}{% for i in range(10000) %}{% set n.x = "
                    "[n.x.index] %}{% endfor %}"),
            "RecursionError");
  EXPECT_EQ(outcome("{{ '{:{:{:{}}}}'.format(1, 1, 1, 1) }}"), "ValueError");
}

TEST(JinjaLimits, MacrosMayCallThemselvesAHundredDeep) {
  EXPECT_EQ(
      outcome("{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(100) }}"),
      "rendered");
}

TEST(JinjaLimits, LongSourceIsRefused) {
  EXPECT_EQ(outcome(std::string(jinja::kMaxSourceBytes + 1, 'x')), "TemplateSyntaxError");
  EXPECT_EQ(outcome(std::string(jinja::kMaxSourceBytes, 'x')), "rendered");
}

TEST(JinjaLimits, ALongConversationFits) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", repeat("word ", 400)}});
  EXPECT_EQ(outcome("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content | trim + '<|end|>' "
                    "}}{% endfor %}",
                    {{"messages", messages}}),
            "rendered");
}

}  // namespace
}  // namespace phidias
