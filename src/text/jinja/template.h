// Jinja templates with the environment of chat templates: trim_blocks, lstrip_blocks, break and
// continue,
// {% generation %}, raise_exception, strftime_now, a tojson that escapes neither HTML nor other
// scripts, and a sandbox in which nothing can be changed but the attributes of namespace().
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "text/jinja/ast.h"
#include "text/jinja/failure.h"

namespace phidias::jinja {

// Immutable and safe to share between threads.
class Template {
 public:
  // Failures: TemplateSyntaxError and TemplateAssertionError with the line.
  static std::variant<std::unique_ptr<const Template>, Failure> parse(std::string_view source);

  // The text for an object of variables. Every failure has a line.
  std::variant<std::string, Failure> render(const Json& variables) const;

 private:
  explicit Template(Body body) : body_(std::move(body)) {}

  Body body_;
};

}  // namespace phidias::jinja
