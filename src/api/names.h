// Values that options choose by name.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/invalid.h"

namespace phidias {

template <typename Value, size_t kCount>
using NameTable = std::array<std::pair<std::string_view, Value>, kCount>;

// Errors: kInvalidArgument, with the names that there are.
template <typename Value, size_t kCount>
Result<Value> by_name(const NameTable<Value, kCount>& table, std::string_view name,
                      std::string_view option) {
  std::string known;
  for (const auto& [candidate, value] : table) {
    if (candidate == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(candidate);
  }
  return invalid("\"" + std::string(name) + "\" is not known; choose one of " + known, option);
}

// Empty for a value that has no name.
template <typename Value, size_t kCount>
std::string_view name_in(const NameTable<Value, kCount>& table, Value value) {
  for (const auto& [name, candidate] : table) {
    if (candidate == value) return name;
  }
  return {};
}

}  // namespace phidias
