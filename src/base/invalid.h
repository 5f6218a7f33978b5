// The error of an option or a request that cannot be honoured as written.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "phidias/status.h"

namespace phidias {

//   item  what it is about: an option, an entry, a path
inline Error invalid(std::string message, std::string_view item = {}) {
  return {Code::kInvalidArgument, std::move(message), {{}, {}, std::string(item)}};
}

}  // namespace phidias
