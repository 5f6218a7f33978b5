// Any text as a config.json: an error with a place, or a specification.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "model/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = phidias::parse_json(text, "config.json");
  if (!config.ok()) return 0;
  const auto spec = phidias::spec_from_config(phidias::JsonReader(*config, "config.json"));
  if (!spec.ok() && (spec.error().message.empty() || spec.error().place.file != "config.json")) {
    std::abort();
  }
  return 0;
}
