// Checksums of reference bytes.
#pragma once

#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <string>

namespace phidias::test {

inline std::string sha256(const void* data, size_t size) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(static_cast<const unsigned char*>(data), size, digest.data());
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace phidias::test
