// Template source to statements.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace phidias::jinja {

// Throws Failure: TemplateSyntaxError, or TemplateAssertionError for an unknown filter or test.
Body parse_template(std::string_view source);

}  // namespace phidias::jinja
