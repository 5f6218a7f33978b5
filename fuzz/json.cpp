// Any text as JSON: an error, or a value that survives being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_keys(const phidias::JsonReader& reader, int depth) {
  if (!reader.value().is_object() || depth > 4) return;
  for (const auto& [key, value] : reader.value().items()) {
    static_cast<void>(reader.optional_unsigned(key).ok());
    static_cast<void>(reader.optional_number(key).ok());
    static_cast<void>(reader.optional_bool(key).ok());
    static_cast<void>(reader.optional_string(key).ok());
    static_cast<void>(reader.optional_numbers(key).ok());
    static_cast<void>(reader.positive(key).ok());
    read_keys(reader.child(key), depth + 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = phidias::parse_json(text, "fuzz");
  if (!value.ok()) {
    require(value.error().place.file == "fuzz");
    return 0;
  }
  read_keys(phidias::JsonReader(*value, "fuzz"), 0);
  const std::string written = phidias::dump_json(*value);
  const auto again = phidias::parse_json(written, "again");
  require(again.ok());
  require(phidias::dump_json(*again) == written);
  return 0;
}
