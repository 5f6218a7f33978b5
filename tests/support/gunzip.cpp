#include "support/gunzip.h"

#include <zlib.h>

#include <array>

namespace phidias::test {

std::string gunzip(const std::filesystem::path& path) {
  std::string contents;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return contents;
  std::array<char, 1 << 16> block;
  for (int got = 0; (got = gzread(file, block.data(), block.size())) > 0;) {
    contents.append(block.data(), static_cast<size_t>(got));
  }
  gzclose(file);
  return contents;
}

}  // namespace phidias::test
