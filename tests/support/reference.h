// Where the reference data lies. A test that needs it calls PHIDIAS_NEEDS_REFERENCE(path): without
// it the test is skipped, and says which file it missed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace phidias::test {

inline std::filesystem::path reference(const std::filesystem::path& relative) {
  return std::filesystem::path(PHIDIAS_REFERENCE_DATA) / relative;
}

// Data that the project itself carries, under tests/data.
inline std::filesystem::path data(const std::filesystem::path& relative) {
  return std::filesystem::path(PHIDIAS_TEST_DATA) / relative;
}

// Of tests that run for several models: GoogleTest's names have no dashes.
inline std::string folder_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace phidias::test

#define PHIDIAS_NEEDS_REFERENCE(where)                                                      \
  do {                                                                                      \
    if (!std::filesystem::exists(where)) {                                                  \
      GTEST_SKIP() << "reference data not found: " << std::filesystem::path(where).string() \
                   << " (set PHIDIAS_REFERENCE_DATA)";                                      \
    }                                                                                       \
  } while (false)
