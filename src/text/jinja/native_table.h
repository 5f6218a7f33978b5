// Tables of natives, searched by name.
#pragma once

#include <string_view>

#include "text/jinja/value.h"

namespace phidias::jinja {

struct NamedNative {
  std::string_view name;
  Native code;
};

template <size_t kSize>
Native find_native(const NamedNative (&table)[kSize], std::string_view name) {
  for (const NamedNative& entry : table) {
    if (entry.name == name) return entry.code;
  }
  return nullptr;
}

// The three files of filters.
Native find_text_filter(std::string_view name);
Native find_number_filter(std::string_view name);
Native find_sequence_filter(std::string_view name);

}  // namespace phidias::jinja
