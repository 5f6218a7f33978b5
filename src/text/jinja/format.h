// Python's two ways of putting values into text.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace phidias::jinja {

// format % values: values is a tuple, a dict for %(name)s, or one value.
Value percent_format(Runtime& runtime, std::string_view format, const Value& values);
// format.format(...): {}, {0}, {name}, {name.attribute[0]}, with !r, !s and a specification after a
// colon.
Value brace_format(Runtime& runtime, std::string_view format, const Arguments& arguments);

}  // namespace phidias::jinja
