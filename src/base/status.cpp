#include "phidias/status.h"

namespace phidias {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kOutOfMemory:
      return "out_of_memory";
    case Code::kCapacityExceeded:
      return "capacity_exceeded";
    case Code::kNonFinite:
      return "non_finite";
    case Code::kCancelled:
      return "cancelled";
    case Code::kIo:
      return "io";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

std::string Error::to_string() const {
  std::string text;
  auto add = [&text](const std::string& part) {
    if (!text.empty()) text += ", ";
    text += part;
  };
  if (!place.file.empty()) add(place.file);
  if (!place.item.empty()) add(place.item);
  if (place.offset) add("at byte " + std::to_string(*place.offset));
  if (!text.empty()) text += ": ";
  return text + message;
}

}  // namespace phidias
