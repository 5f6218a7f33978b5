// Files put together byte by byte, valid or not, and the check that a reader refuses them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/status.h"
#include "unit/formats/allocation_watch.h"

namespace phidias::test {

class FileBytes {
 public:
  FileBytes& u8(uint8_t value) { return number(value); }
  FileBytes& u32(uint32_t value) { return number(value); }
  FileBytes& u64(uint64_t value) { return number(value); }
  FileBytes& f32(float value) { return number(value); }
  FileBytes& raw(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  // As GGUF writes a string.
  FileBytes& text(std::string_view text) { return u64(text.size()).raw(text); }
  FileBytes& fill(size_t count, uint8_t value = 0) {
    bytes_.insert(bytes_.end(), count, static_cast<std::byte>(value));
    return *this;
  }
  FileBytes& align(size_t alignment) {
    return fill((alignment - bytes_.size() % alignment) % alignment);
  }

  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> span() const { return bytes_; }

 private:
  template <typename T>
  FileBytes& number(T value) {
    std::byte raw_bytes[sizeof(T)];
    std::memcpy(raw_bytes, &value, sizeof(T));
    bytes_.insert(bytes_.end(), raw_bytes, raw_bytes + sizeof(T));
    return *this;
  }

  std::vector<std::byte> bytes_;
};

inline constexpr const char* kFileName = "hostile.file";
inline constexpr size_t kFlat =
    64U << 10;  // bytes; no file of these tests justifies a larger allocation

// Checks that `File::parse` gives an error of this code that names the file and holds all of
// `parts`, and that nothing large was allocated on the way. Returns the key or tensor that the
// error names.
template <typename File>
std::string expect_refused(std::span<const std::byte> bytes, Code code,
                           std::initializer_list<std::string_view> parts) {
  // Exactly as large as the file, so that a sanitizer sees a read beyond it.
  const std::vector<std::byte> exact(bytes.begin(), bytes.end());
  forget_allocations();
  const auto parsed = File::parse(exact, kFileName);
  EXPECT_LE(largest_allocation(), kFlat);
  if (parsed.ok()) {
    ADD_FAILURE() << "was accepted";
    return {};
  }
  const std::string message = parsed.error().to_string();
  EXPECT_EQ(code_name(parsed.error().code), code_name(code)) << message;
  EXPECT_EQ(parsed.error().place.file, kFileName) << message;
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "\"" << part << "\" is not in: " << message;
  }
  return parsed.error().place.item;
}

}  // namespace phidias::test
