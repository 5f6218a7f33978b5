// Any text as a config.json, and where it describes a vision tower also as the file that says how
// images are prepared: an error with a place, or a specification.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "model/registry.h"
#include "model/vision/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = phidias::parse_json(text, "config.json");
  if (!config.ok()) return 0;
  const phidias::JsonReader reader(*config, "config.json");
  auto spec = phidias::spec_from_config(reader);
  phidias::Status status;
  if (!spec.ok()) {
    status = spec.error();
  } else if (spec->vision) {
    status = phidias::read_image_processing(reader, *spec->vision);
    if (status.ok() && (spec->vision->crops == 0 || spec->vision->crops > phidias::kMaxCrops))
      std::abort();
  }
  if (!status.ok() &&
      (status.error().message.empty() || status.error().place.file != "config.json")) {
    std::abort();
  }
  return 0;
}
