// phidias render.
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "input_options.h"
#include "output.h"
#include "phidias/chat.h"
#include "run_options.h"

namespace phidias::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RenderArguments {
  ModelOption model;
  std::string template_file;
  bool jsonl = false;
};

struct Renderer {
  std::shared_ptr<const Tokenizer> tokenizer;  // may be null
  std::shared_ptr<const ChatTemplate>
      fallback;  // for lines without a template of their own; may be null

  Json render(const std::string& line) const {
    const Json request = Json::parse(line, nullptr, false);
    if (!request.is_object()) return {{"error", "the line is not a JSON object"}};
    std::shared_ptr<const ChatTemplate> own = fallback;
    if (const auto at = request.find("template"); at != request.end() && at->is_string()) {
      auto parsed = ChatTemplate::parse(at->get<std::string>());
      if (!parsed.ok()) return {{"error", parsed.error().message}};
      own = std::move(*parsed);
    }
    if (!own)
      return {{"error", "there is no template: give -m, --template, or \"template\" in the line"}};
    const auto tokens = tokenizer ? tokenizer->template_tokens()
                                  : std::vector<std::pair<std::string, std::string>>();
    auto text = own->render_json(line, tokens);
    if (!text.ok()) return {{"error", text.error().message}};
    Json answer = {{"text", *text}};
    if (tokenizer)
      answer["ids"] = tokenizer->encode(*text, {.add_special = false, .markers = true, .guard = 0});
    return answer;
  }
};

Result<int> render(const RenderArguments& arguments) {
  Renderer renderer;
  if (!arguments.model.name.empty()) {
    auto path = arguments.model.find();
    if (!path.ok()) return std::move(path).error();
    auto tokenizer = Tokenizer::load(*path);
    if (tokenizer.ok())
      renderer.tokenizer = std::move(*tokenizer);
    else if (tokenizer.error().code != Code::kNotFound)
      return std::move(tokenizer).error();
    auto chat_template = load_chat_template(*path);
    if (chat_template.ok())
      renderer.fallback = std::move(*chat_template);
    else if (chat_template.error().code != Code::kNotFound)
      return std::move(chat_template).error();
  }
  if (!arguments.template_file.empty()) {
    auto source = read_input(arguments.template_file);
    if (!source.ok()) return std::move(source).error();
    auto parsed = ChatTemplate::parse(*source);
    if (!parsed.ok()) {
      Error error = std::move(parsed).error();
      error.place.file = arguments.template_file;
      return error;
    }
    renderer.fallback = std::move(*parsed);
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.empty()) continue;
    if (!print(renderer.render(line).dump(-1, ' ', true, Json::error_handler_t::replace) + "\n"))
      break;
  }
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_render(CommandOptions& command) {
  auto arguments = std::make_shared<RenderArguments>();
  arguments->model.declare(command, false);
  command.add_option("--template", arguments->template_file,
                     "A Jinja file in place of the checkpoint's template");
  command.add_flag(
      "--jsonl", arguments->jsonl,
      "Each line of standard input is {\"messages\": [...], \"add_generation_prompt\": "
      "true, ...}, each line of output "
      "{\"text\": ..., \"ids\": [...]} or {\"error\": ...} (the default)");
  return [arguments] { return render(*arguments); };
}

}  // namespace phidias::cli
