// What the operating system said to an attempt on a file.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "phidias/status.h"

namespace phidias {

//   action  "open", "read the size"
//   reason  of errno
inline Error system_error(const std::filesystem::path& path, const char* action, int reason) {
  const Code code = reason == ENOENT ? Code::kNotFound : Code::kIo;
  return {code,
          std::string("cannot ") + action + ": " + std::strerror(reason),
          {path.string(), {}, {}}};
}

}  // namespace phidias
