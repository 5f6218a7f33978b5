// The built-in names of templates.
#pragma once

#include <string_view>

#include "text/jinja/value.h"

namespace phidias::jinja {

// Each is null where there is no such name.
Native find_filter(std::string_view name);
Native find_test(std::string_view name);
Native find_global(std::string_view name);  // range, dict, namespace, raise_exception, ...
// Methods of str, list, tuple and dict.
Native find_method(const Value& self, std::string_view name);
// Whether `name` is a method by which Python changes a list or a dict. The sandbox refuses those.
bool is_mutating_method(const Value& self, std::string_view name);

}  // namespace phidias::jinja
