#include "text/jinja/arguments.h"

#include <algorithm>

namespace phidias::jinja {

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t required)
    : function_(function), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size()) {
    fail_type(function_ + "() takes at most " + std::to_string(names.size()) + " arguments (" +
              std::to_string(arguments.positional.size()) + " given)");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto* at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      fail_type(function_ + "() got an unexpected keyword argument '" + name + "'");
    }
    const Value*& place = values_[static_cast<size_t>(at - names.begin())];
    if (place != nullptr)
      fail_type(function_ + "() got multiple values for argument '" + name + "'");
    place = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      fail_type(function_ + "() missing required argument: '" + std::string(names.begin()[i]) +
                "'");
    }
  }
}

Integer Bound::integer(size_t i, Integer fallback) const {
  if (values_[i] == nullptr) return fallback;
  if (const auto whole = values_[i]->integer()) return *whole;
  fail_type("'" + std::string(values_[i]->type_name()) +
            "' object cannot be interpreted as an integer");
}

bool Bound::truth(size_t i, bool fallback) const {
  return values_[i] != nullptr ? values_[i]->truthy() : fallback;
}

std::optional<std::string> Bound::text(size_t i) const {
  if (!given(i)) return std::nullopt;
  if (const Text* text = values_[i]->text()) return text->bytes;
  fail_type("must be str, not " + std::string(values_[i]->type_name()));
}

}  // namespace phidias::jinja
