#include "text/jinja/template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "support/reference.h"

namespace phidias {
namespace {

using Outcome = std::variant<std::string, jinja::Failure>;

Outcome render(std::string_view source, const Json& variables) {
  auto parsed = jinja::Template::parse(source);
  if (auto* failure = std::get_if<jinja::Failure>(&parsed)) return *failure;
  return std::get<0>(parsed)->render(variables);
}

std::string text_of(const Outcome& outcome) {
  if (const auto* failure = std::get_if<jinja::Failure>(&outcome)) {
    return "<" + failure->type + ": " + failure->message + ">";
  }
  return std::get<std::string>(outcome);
}

std::string rendered(std::string_view source, const Json& variables = Json::object()) {
  return text_of(render(source, variables));
}

Json load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  auto json = parse_json(std::string(std::istreambuf_iterator<char>(file), {}), path.string());
  EXPECT_TRUE(json.ok()) << json.error().to_string();
  return json.ok() ? *std::move(json) : Json::object();
}

// The text, or the type of the error, its words where the case has them, and whether the template
// raised it.
void expect_outcome(const Json& wanted, const Outcome& outcome) {
  if (wanted.contains("rendered")) {
    EXPECT_EQ(text_of(outcome), wanted["rendered"].get<std::string>());
    return;
  }
  const auto* failure = std::get_if<jinja::Failure>(&outcome);
  ASSERT_NE(failure, nullptr) << "rendered as " << text_of(outcome);
  EXPECT_EQ(failure->type, wanted["error"]["type"].get<std::string>());
  EXPECT_EQ(failure->by_template, wanted["error"]["by_template"].get<bool>());
  if (wanted["error"].contains("message")) {
    EXPECT_EQ(failure->message, wanted["error"]["message"].get<std::string>());
  }
}

size_t check_cases(const std::filesystem::path& path) {
  const Json file = load(path);
  for (const Json& row : file["cases"]) {
    const auto source = row["template"].get<std::string>();
    SCOPED_TRACE(source);
    const Json& context = row["context"];
    expect_outcome(
        row, render(source,
                    context.is_string() ? file["contexts"][context.get<std::string>()] : context));
  }
  return file["cases"].size();
}

TEST(Jinja, RendersTheCasesOfChatTemplates) {
  EXPECT_GE(check_cases(test::data("chat/jinja_cases.json")), 100u);
}

TEST(Jinja, AgreesWithJinjaOnExpressionsStatementsAndErrors) {
  EXPECT_GE(check_cases(test::data("chat/template_cases.json")), 700u);
}

TEST(Jinja, RendersTheReferenceCases) {
  const auto path = test::reference("chat/jinja_cases.json");
  PHIDIAS_NEEDS_REFERENCE(path);
  EXPECT_GE(check_cases(path), 100u);
}

TEST(Jinja, FailureNamesTheLine) {
  const auto unknown = render("a\nb\n{% nosuch %}", Json::object());
  EXPECT_EQ(std::get<jinja::Failure>(unknown).line, 3);
  const auto undefined = render("a\n\n\n{% if true %}\n{{ x.y }}{% endif %}", Json::object());
  EXPECT_EQ(std::get<jinja::Failure>(undefined).line, 5);
  const auto filter = render("\n{{ 1 | nosuch }}", Json::object());
  EXPECT_EQ(std::get<jinja::Failure>(filter).line, 2);
}

TEST(Jinja, KeepsTheOrderOfKeys) {
  const Json variables = {{"d", {{"z", 1}, {"a", 2}, {"m", 3}}}};
  EXPECT_EQ(rendered("{{ d | tojson }}{{ d }}", variables),
            R"({"z": 1, "a": 2, "m": 3}{'z': 1, 'a': 2, 'm': 3})");
}

TEST(Jinja, HoldsIntegersBeyond64Bits) {
  EXPECT_EQ(rendered("{{ 18446744073709551615 + 1 }}"), "18446744073709551616");
  EXPECT_EQ(rendered("{{ 10 ** 20 // 7 }}"), "14285714285714285714");
  EXPECT_EQ(rendered("{{ x }}", {{"x", 18446744073709551615ull}}), "18446744073709551615");
  EXPECT_EQ(rendered("{{ 10 ** 100 }}"), "<OverflowError: the integer is too large>");
}

TEST(Jinja, SourceThatIsNotUtf8IsRefused) {
  EXPECT_EQ(rendered("a\xFF"), "<TemplateSyntaxError: the template is not UTF-8>");
}

TEST(Jinja, DamagedTextInVariablesPassesThrough) {
  EXPECT_EQ(rendered("{{ x }}|{{ x | reverse }}|{{ x | length }}", {{"x", "a\xFF\xC3z"}}),
            "a\xFF\xC3z|z\xC3\xFF"
            "a|4");
}

TEST(Jinja, TagsOfTemplateInheritanceAreNamedAsUnsupported) {
  EXPECT_EQ(rendered("{% include 'x' %}"),
            "<TemplateSyntaxError: The tag 'include' is not supported in chat templates.>");
}

TEST(Jinja, StrftimeNowGivesToday) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  EXPECT_EQ(rendered("{{ strftime_now('%Y') }}"), std::to_string(local.tm_year + 1900));
}

TEST(Jinja, OneTemplateRendersInManyThreads) {
  auto parsed = jinja::Template::parse(
      "{% macro m(x) %}<{{ x ~ 'é' }}>{% endmacro %}{% for i in xs %}{{ m(i) }}{% endfor %}");
  const auto& program = *std::get<0>(parsed);
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) text = text_of(program.render({{"xs", {1, "b", nullptr}}}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "<1é><bé><Noneé>");
}

}  // namespace
}  // namespace phidias
