// The arguments of one call, given names as Python does.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace phidias::jinja {

class Bound {
 public:
  // Fails with TypeError where an argument is missing (of the first `required`), unknown, given
  // twice or too many.
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> names, size_t required = 0);

  // Null where argument i was not given.
  const Value* get(size_t i) const { return values_[i]; }
  // Not given and None are the same in these.
  bool given(size_t i) const { return values_[i] != nullptr && !values_[i]->is_none(); }
  Value value(size_t i) const { return values_[i] != nullptr ? *values_[i] : Value(); }
  Integer integer(size_t i, Integer fallback) const;
  bool truth(size_t i, bool fallback = false) const;
  // A string; anything else fails.
  std::optional<std::string> text(size_t i) const;

 private:
  std::string function_;
  std::vector<const Value*> values_;
};

}  // namespace phidias::jinja
