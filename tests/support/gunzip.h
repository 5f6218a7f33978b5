// Reference files that lie packed.
#pragma once

#include <filesystem>
#include <string>

namespace phidias::test {

// The contents of a gzip file; empty if it cannot be read (the test that needs it then fails).
std::string gunzip(const std::filesystem::path& path);

}  // namespace phidias::test
