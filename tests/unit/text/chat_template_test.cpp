#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "support/reference.h"

namespace phidias {
namespace {

using TemplatePtr = std::shared_ptr<const ChatTemplate>;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json load(const std::filesystem::path& path) {
  auto json = parse_json(read_file(path), path.string());
  EXPECT_TRUE(json.ok()) << json.error().to_string();
  return json.ok() ? *std::move(json) : Json::object();
}

TemplatePtr parse(std::string_view source) {
  auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed.ok()) << parsed.error().to_string();
  return parsed.ok() ? *parsed : nullptr;
}

TemplatePtr builtin(std::string_view name) {
  auto found = ChatTemplate::builtin(name);
  EXPECT_TRUE(found.ok()) << found.error().to_string();
  return found.ok() ? *found : nullptr;
}

TemplateTokens tokens_of(const Json& tokens) {
  TemplateTokens list;
  for (const char* name : {"bos_token", "eos_token"})
    list.emplace_back(name, tokens[name].get<std::string>());
  return list;
}

// `wanted` has "rendered", or "error" with a message that counts where the template raised it
// itself.
void expect_outcome(const Json& wanted, const Result<std::string>& outcome) {
  if (wanted.contains("rendered")) {
    ASSERT_TRUE(outcome.ok()) << outcome.error().to_string();
    EXPECT_EQ(*outcome, wanted["rendered"].get<std::string>());
    return;
  }
  ASSERT_FALSE(outcome.ok()) << "rendered as " << *outcome;
  EXPECT_EQ(outcome.error().code, Code::kInvalidArgument);
  const Json& error = wanted["error"];
  if (error["by_template"].get<bool>()) {
    EXPECT_EQ(outcome.error().message, error["message"].get<std::string>());
  } else {
    EXPECT_NE(outcome.error().message.find(error["type"].get<std::string>()), std::string::npos)
        << outcome.error().message;
  }
}

// Every case of a reference file, by a template of the same name.
void check_reference_cases(const ChatTemplate& chat_template, const std::filesystem::path& path,
                           size_t at_least) {
  const Json file = load(path);
  for (const Json& row : file["cases"]) {
    SCOPED_TRACE(file["template"].get<std::string>() + ", " + row["name"].get<std::string>() +
                 row["kwargs"].dump());
    Json request = {{"messages", row["messages"]}, {"tools", row["tools"]}};
    request.update(row["kwargs"]);
    expect_outcome(row, chat_template.render_json(dump_json(request), tokens_of(file)));
  }
  EXPECT_GE(file["cases"].size(), at_least);
}

TEST(ChatTemplate, RendersEveryReferenceConversation) {
  const auto folder = test::reference("chat/cases");
  PHIDIAS_NEEDS_REFERENCE(folder);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto source =
        test::reference("chat") / entry.path().filename().replace_extension(".jinja");
    check_reference_cases(*parse(read_file(source)), entry.path(), 80);
    ++files;
  }
  EXPECT_GE(files, 13u);
}

TEST(BuiltinTemplate, RendersEveryReferenceConversationOfItsNamesake) {
  PHIDIAS_NEEDS_REFERENCE(test::reference("chat/cases"));
  for (const std::string& name : ChatTemplate::builtin_names()) {
    check_reference_cases(*builtin(name), test::reference("chat/cases/" + name + ".json"), 80);
  }
}

TEST(BuiltinTemplate, RendersTheCasesOfItsNamesake) {
  const Json file = load(test::data("chat/builtin_cases.json"));
  EXPECT_GE(file["cases"].size(), 350u);
  for (const Json& row : file["cases"]) {
    SCOPED_TRACE(row["template"].get<std::string>() + ", " + row["name"].get<std::string>());
    expect_outcome(row, builtin(row["template"].get<std::string>())
                            ->render_json(dump_json(row["request"]), tokens_of(row["tokens"])));
  }
}

TEST(BuiltinTemplate, UnknownNameListsTheKnownOnes) {
  const auto missing = ChatTemplate::builtin("phi-2");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  for (const std::string& name : ChatTemplate::builtin_names()) {
    EXPECT_NE(missing.error().message.find(name), std::string::npos) << name;
  }
}

TEST(BuiltinTemplate, KnowsItsEndTokenWithoutBeingTold) {
  const auto text =
      builtin("phi-3-mini")->render({{"user", "Hi"}}, {.add_generation_prompt = false});
  EXPECT_EQ(*text, "<|user|>\nHi<|end|>\n<|endoftext|>");
}

TEST(BuiltinTemplate, SystemTextStandsBetweenItsTags) {
  const auto text =
      builtin("phi-3-mini")->render({{"system", "Answer only in French."}, {"user", "Hi"}}, {});
  EXPECT_EQ(*text,
            "<|system|>\nAnswer only in French.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\n");
}

TEST(BuiltinTemplate, TurnsEndWithTheEndTagAndNotWithTheEndOfText) {
  for (const char* name :
       {"phi-3-mini", "phi-3-medium", "phi-3.5-mini", "phi-3-vision", "phi-4-mini"}) {
    const auto text = builtin(name)->render({{"user", "hi"}}, {});
    EXPECT_NE(text->find("hi<|end|>"), std::string::npos) << name;
    EXPECT_EQ(text->find("<|endoftext|>"), std::string::npos) << name;
  }
}

TEST(BuiltinTemplate, AcceptsAnEmptySystemTurn) {
  const std::vector<ChatMessage> messages = {{"system", ""}, {"user", "Hi"}};
  EXPECT_EQ(*builtin("phi-3-mini")->render(messages, {}),
            "<|system|>\n<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\n");
  EXPECT_EQ(*builtin("phi-3.5-mini")->render(messages, {}), "<|user|>\nHi<|end|>\n<|assistant|>\n");
  for (const std::string& name : ChatTemplate::builtin_names()) {
    EXPECT_TRUE(builtin(name)->render(messages, {}).ok()) << name;
  }
}

TEST(ChatTemplate, TellsWhichMessagesLeaveNoTrace) {
  const auto two_branches = parse(
      "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }}{% elif m.role == "
      "'assistant' %}"
      "A:{{ m.content | trim }}{% endif %}{% endfor %}");
  // The dropped text also stands in the user's, so that looking for it in the prompt would miss it.
  const std::vector<ChatMessage> messages = {
      {"system", "Hi"}, {"user", "Hi there"}, {"tool", "3.5"}, {"assistant", "ok"}};
  EXPECT_EQ(two_branches->untraced_messages(messages, {}), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(two_branches->untraced_messages_json(
                R"({"messages": [{"role": "system", "content": [{"type": "text", "text": "Hi"}]},
                                 {"role": "user", "content": "Hi"}]})"),
            (std::vector<size_t>{0}));
  EXPECT_TRUE(
      builtin("phi-3-mini")->untraced_messages({{"system", "Hi"}, {"user", "Yo"}}, {}).empty());
  EXPECT_EQ(builtin("phi-3-medium")->untraced_messages({{"system", "Hi"}, {"user", "Yo"}}, {}),
            (std::vector<size_t>{0}));
}

TEST(ChatTemplate, AnEmptyMessageIsNotReportedAsUntraced) {
  EXPECT_TRUE(
      builtin("phi-3.5-mini")->untraced_messages({{"system", " \n"}, {"user", "Yo"}}, {}).empty());
}

TEST(ChatTemplate, ContinuedTextEndsWithTheLastMessage) {
  const RenderOptions options = {.add_generation_prompt = true, .continue_final_message = true};
  const std::vector<ChatMessage> messages = {{"user", "Count"}, {"assistant", "One, "}};
  EXPECT_EQ(*builtin("phi-4-mini")->render(messages, options),
            "<|user|>Count<|end|><|assistant|>One, ");
  const auto trimming = parse("{% for m in messages %}[{{ m.content | trim }}]{% endfor %}");
  EXPECT_EQ(*trimming->render(messages, options), "[Count][One,");
}

TEST(ChatTemplate, ContinuingWhatTheTemplateDropsIsAnError) {
  const RenderOptions options = {.continue_final_message = true};
  EXPECT_EQ(builtin("phi-3-medium")->render({{"user", "a"}, {"system", "b"}}, options).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(builtin("phi-3-medium")->render({}, options).error().code, Code::kInvalidArgument);
}

TEST(ChatTemplate, ContinuingAndPromptingAtOnceIsAnError) {
  const auto both =
      builtin("phi-3-mini")
          ->render_json(
              R"({"messages": [], "add_generation_prompt": true, "continue_final_message": true})");
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.error().place.item, "/continue_final_message");
}

TEST(ChatTemplate, VariablesOfTheRequestGoBeforeTokens) {
  const auto variables = parse(
      "{{ bos_token }} {{ extra.a }} {{ tools }} {{ documents }} {{ add_generation_prompt }}");
  EXPECT_EQ(
      *variables->render_json(R"({"messages": [], "extra": {"a": [1]}})", {{"bos_token", "<s>"}}),
      "<s> [1] None None False");
  EXPECT_EQ(*variables->render_json(R"({"messages": [], "bos_token": "X", "extra": {}})",
                                    {{"bos_token", "<s>"}}),
            "X  None None False");
}

TEST(ChatTemplate, ContextTakesThePlaceOfMessages) {
  const auto variables = parse("{{ x }}{{ messages is defined }}{{ bos_token is defined }}");
  EXPECT_EQ(*variables->render_json(R"({"context": {"x": 1.0}, "template": "ignored"})",
                                    {{"bos_token", "<s>"}}),
            "1.0FalseFalse");
}

TEST(ChatTemplate, RequestsThatAreNoneAreRefusedWithTheirPlace) {
  const auto any = parse("x");
  EXPECT_EQ(any->render_json("{").error().code, Code::kCorrupt);
  EXPECT_EQ(any->render_json("[]").error().code, Code::kInvalidArgument);
  EXPECT_EQ(any->render_json("{}").error().place.item, "/messages");
  EXPECT_EQ(any->render_json(R"({"messages": "Hi"})").error().place.item, "/messages");
  EXPECT_EQ(any->render_json(R"({"context": 1})").error().place.item, "/context");
  EXPECT_EQ(any->render_json(R"({"messages": [], "add_generation_prompt": 1})").error().place.item,
            "/add_generation_prompt");
}

TEST(ChatTemplate, RefusalOfTheTemplateIsTheMessage) {
  const auto strict = parse("{{ raise_exception('Only ' ~ 'users speak') }}");
  const auto refused = strict->render({}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().to_string(), "Only users speak");
}

TEST(ChatTemplate, FailureNamesErrorAndLine) {
  const auto failed = parse("\n\n{{ 'a' + none }}")->render({}, {});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().place.item, "chat template, line 3");
  EXPECT_NE(
      failed.error().message.find("TypeError: can only concatenate str (not \"NoneType\") to str"),
      std::string::npos);
}

TEST(ChatTemplate, SourceThatIsNoTemplateIsCorrupt) {
  const auto broken = ChatTemplate::parse("x\n{% if a %}");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, Code::kCorrupt);
  EXPECT_EQ(broken.error().place.item, "chat template, line 2");
  EXPECT_NE(broken.error().message.find("The innermost block that needs to be closed is 'if'."),
            std::string::npos);
}

TEST(ChatTemplate, LineEndingsOfTheTemplateBecomeNewlines) {
  const auto windows = parse("a\r\n{% if true %}\r\nb\r\n{% endif %}\r\n");
  EXPECT_EQ(*windows->render({}, {}), "a\nb\n");
  EXPECT_EQ(windows->source(), "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\n");
}

TEST(ChatTemplate, TextOfTheUserIsNeverReadAsATemplate) {
  const auto text = builtin("phi-4-mini")
                        ->render({{"user", "{{ eos_token }}{% raw %}"}}, {}, {{"eos_token", "X"}});
  EXPECT_EQ(*text, "<|user|>{{ eos_token }}{% raw %}<|end|><|assistant|>");
}

}  // namespace
}  // namespace phidias
