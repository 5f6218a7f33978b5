// What stands behind a ChatTemplate.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "phidias/chat.h"
#include "text/jinja/template.h"

namespace phidias {

struct ChatTemplateImpl {
  std::unique_ptr<const jinja::Template> program;
  std::string source;
};

using TemplateTokens = std::vector<std::pair<std::string, std::string>>;

// The prompt of one request, as ChatTemplate::render_json takes it, with the failure as the
// template's own.
std::variant<std::string, jinja::Failure> render_request(const ChatTemplateImpl& chat_template,
                                                         const Json& request,
                                                         const TemplateTokens& tokens);

}  // namespace phidias
