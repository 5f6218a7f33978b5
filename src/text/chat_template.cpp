#include "text/chat_template.h"

#include <algorithm>
#include <optional>

#include "base/try.h"
#include "text/builtin_templates.h"
#include "text/jinja/letter_case.h"
#include "text/jinja/text_search.h"

namespace phidias {
namespace {

using jinja::Failure;
using Rendering = std::variant<std::string, Failure>;

// Stands behind the last message while it is rendered, to find where its content ends. The space
// tells whether the template strips the content.
constexpr std::string_view kEndMarker = "END_OF_THE_FINAL_MESSAGE ";
constexpr std::string_view kBareEndMarker = kEndMarker.substr(0, kEndMarker.size() - 1);

// The text of a message: its content, or the last part of its content that has text. Null where
// there is none.
std::string* text_of(Json& message) {
  if (!message.is_object()) return nullptr;
  const auto content = message.find("content");
  if (content == message.end()) return nullptr;
  if (content->is_string()) return content->get_ptr<std::string*>();
  if (!content->is_array()) return nullptr;
  for (auto part = content->rbegin(); part != content->rend(); ++part) {
    if (!part->is_object()) continue;
    const auto text = part->find("text");
    if (text != part->end() && text->is_string()) return text->get_ptr<std::string*>();
  }
  return nullptr;
}

bool flag(const Json& request, const char* name) {
  const auto at = request.find(name);
  return at != request.end() && at->is_boolean() && at->get<bool>();
}

// The variables that a template sees.
Json variables_of(const Json& request, const TemplateTokens& tokens) {
  if (const auto context = request.find("context"); context != request.end()) return *context;
  Json variables = {{"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}};
  for (const auto& [name, text] : tokens) variables[name] = text;
  for (const auto& [name, value] : request.items()) {
    if (name != "template" && name != "continue_final_message") variables[name] = value;
  }
  return variables;
}

std::string_view stripped(std::string_view text) {
  return jinja::strip_left(jinja::strip_right(text));
}

Rendering render_continued(const ChatTemplateImpl& chat_template, Json variables) {
  Json& messages = variables["messages"];
  std::string* text = messages.empty() ? nullptr : text_of(messages.back());
  if (text == nullptr) return Failure{"ValueError", "the last message has no text to continue"};
  const std::string content(stripped(*text));
  *text += kEndMarker;
  Rendering rendering = chat_template.program->render(variables);
  std::string* prompt = std::get_if<std::string>(&rendering);
  if (prompt == nullptr) return rendering;
  const size_t end = prompt->rfind(kBareEndMarker);
  if (end == std::string::npos || jinja::find_text(*prompt, content) == std::string::npos) {
    return Failure{
        "ValueError",
        "the template leaves out the last message or changes it, so it cannot be continued"};
  }
  const bool keeps_spaces = std::string_view(*prompt).substr(end, kEndMarker.size()) == kEndMarker;
  prompt->resize(end);
  if (!keeps_spaces) prompt->resize(jinja::strip_right(*prompt).size());
  return rendering;
}

Error to_error(const Failure& failure) {
  if (failure.by_template) return {Code::kInvalidArgument, failure.message, {}};
  Place place;
  if (failure.line > 0) place.item = "chat template, line " + std::to_string(failure.line);
  return {Code::kInvalidArgument,
          "the chat template fails on this conversation: " + failure.type + ": " + failure.message,
          std::move(place)};
}

Error request_error(std::string path, std::string message) {
  return {Code::kInvalidArgument, std::move(message), {{}, {}, std::move(path)}};
}

Result<Json> parse_request(std::string_view text) {
  PHIDIAS_TRY(Json request, parse_json(text));
  if (!request.is_object()) return request_error("", "a request must be a JSON object");
  if (const auto context = request.find("context"); context != request.end()) {
    if (!context->is_object()) return request_error("/context", "must be an object of variables");
    return request;
  }
  const auto messages = request.find("messages");
  if (messages == request.end() || !messages->is_array()) {
    return request_error("/messages", "must be a list of messages, each with a role and a content");
  }
  for (const char* name : {"add_generation_prompt", "continue_final_message"}) {
    const auto value = request.find(name);
    if (value == request.end() || value->is_boolean()) continue;
    if (!value->is_null()) return request_error("/" + std::string(name), "must be true or false");
    request.erase(value);
  }
  if (flag(request, "add_generation_prompt") && flag(request, "continue_final_message")) {
    return request_error(
        "/continue_final_message",
        "cannot be true together with add_generation_prompt: the text ends either with the last "
        "message or where an answer begins");
  }
  return request;
}

Json request_of(const std::vector<ChatMessage>& messages, const RenderOptions& options) {
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  return {
      {"messages", std::move(list)},
      {"add_generation_prompt", options.add_generation_prompt && !options.continue_final_message},
      {"continue_final_message", options.continue_final_message}};
}

Result<std::string> to_result(Rendering rendering) {
  if (const Failure* failure = std::get_if<Failure>(&rendering)) return to_error(*failure);
  return std::get<std::string>(std::move(rendering));
}

std::vector<size_t> find_untraced(const ChatTemplateImpl& chat_template, Json request,
                                  const TemplateTokens& tokens) {
  const auto messages = request.find("messages");
  if (messages == request.end()) return {};
  const auto marker = [](size_t i) { return "THE_TEXT_OF_MESSAGE_" + std::to_string(i) + "_"; };
  std::vector<size_t> marked;
  for (size_t i = 0; i < messages->size(); ++i) {
    std::string* text = text_of((*messages)[i]);
    if (text == nullptr || stripped(*text).empty()) continue;
    *text = marker(i);
    marked.push_back(i);
  }
  const Rendering rendering = render_request(chat_template, request, tokens);
  const std::string* prompt = std::get_if<std::string>(&rendering);
  if (prompt == nullptr) return {};
  std::erase_if(marked, [&](size_t i) { return prompt->find(marker(i)) != std::string::npos; });
  return marked;
}

}  // namespace

std::variant<std::string, Failure> render_request(const ChatTemplateImpl& chat_template,
                                                  const Json& request,
                                                  const TemplateTokens& tokens) {
  Json variables = variables_of(request, tokens);
  const bool continues = !request.contains("context") && flag(request, "continue_final_message");
  return continues ? render_continued(chat_template, std::move(variables))
                   : chat_template.program->render(variables);
}

ChatTemplate::ChatTemplate(std::unique_ptr<const ChatTemplateImpl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  auto parsed = jinja::Template::parse(source);
  if (const Failure* failure = std::get_if<Failure>(&parsed)) {
    return Error{Code::kCorrupt,
                 "is no valid Jinja: " + failure->type + ": " + failure->message,
                 {{}, {}, "chat template, line " + std::to_string(std::max(failure->line, 1))}};
  }
  auto impl = std::make_unique<const ChatTemplateImpl>(
      ChatTemplateImpl{std::get<0>(std::move(parsed)), std::string(source)});
  return std::make_shared<const ChatTemplate>(std::move(impl));
}

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::builtin(std::string_view name) {
  for (const BuiltinTemplate& known : kBuiltinTemplates) {
    if (known.name == name) return parse(known.source);
  }
  std::string names;
  for (const std::string& known : builtin_names()) names += (names.empty() ? "" : ", ") + known;
  return Error{Code::kNotFound,
               "there is no built-in chat template '" + std::string(name) + "'; there are " + names,
               {}};
}

std::vector<std::string> ChatTemplate::builtin_names() {
  std::vector<std::string> names;
  for (const BuiltinTemplate& known : kBuiltinTemplates) names.emplace_back(known.name);
  return names;
}

Result<std::string> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                         const RenderOptions& options,
                                         const TemplateTokens& tokens) const {
  return to_result(render_request(*impl_, request_of(messages, options), tokens));
}

Result<std::string> ChatTemplate::render_json(std::string_view request,
                                              const TemplateTokens& tokens) const {
  PHIDIAS_TRY(const Json parsed, parse_request(request));
  return to_result(render_request(*impl_, parsed, tokens));
}

std::vector<size_t> ChatTemplate::untraced_messages(const std::vector<ChatMessage>& messages,
                                                    const RenderOptions& options,
                                                    const TemplateTokens& tokens) const {
  return find_untraced(*impl_, request_of(messages, options), tokens);
}

std::vector<size_t> ChatTemplate::untraced_messages_json(std::string_view request,
                                                         const TemplateTokens& tokens) const {
  auto parsed = parse_request(request);
  return parsed.ok() ? find_untraced(*impl_, *std::move(parsed), tokens) : std::vector<size_t>();
}

const std::string& ChatTemplate::source() const { return impl_->source; }

}  // namespace phidias
