// The chat formats of the family, for checkpoints that come without a template.
#pragma once

#include <string_view>

namespace phidias {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view source;  // Jinja
};

inline constexpr size_t kBuiltinTemplateCount = 10;
extern const BuiltinTemplate kBuiltinTemplates[kBuiltinTemplateCount];

}  // namespace phidias
