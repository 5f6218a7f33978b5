// Any bytes as a GGUF file: an error, or a file whose tensors lie inside it and can be decoded.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "formats/gguf.h"

namespace {

using phidias::FormatRow;
using phidias::GgufFile;
using phidias::TensorEntry;

void require(bool condition) {
  if (!condition) std::abort();
}

// At most a few blocks: how many there are makes no difference to what can go wrong.
void decode_some(const TensorEntry& entry) {
  const FormatRow& row = phidias::format_row(entry.format);
  const uint64_t blocks = std::min<uint64_t>(entry.bytes / row.block_bytes, 4);
  std::vector<float> values(blocks * row.block_values);
  row.decode(entry.data, values.data(), values.size());
}

void look_up(const GgufFile& file, const std::string& key) {
  require(file.find(key) != nullptr);
  static_cast<void>(file.optional_unsigned(key).ok());
  static_cast<void>(file.optional_number(key).ok());
  static_cast<void>(file.optional_bool(key).ok());
  static_cast<void>(file.optional_string(key).ok());
  static_cast<void>(file.optional_strings(key).ok());
  static_cast<void>(file.optional_integers(key).ok());
  static_cast<void>(file.optional_numbers(key).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const auto file = GgufFile::parse(bytes, "fuzz");
  if (!file.ok()) {
    require(!file.error().message.empty());
    require(file.error().place.file == "fuzz");
    return 0;
  }
  for (const auto& [key, value] : file->metadata) look_up(*file, key);
  for (const TensorEntry& entry : file->tensors) {
    require(entry.offset <= size && entry.bytes <= size - entry.offset);
    require(entry.data == bytes.data() + entry.offset);
    decode_some(entry);
  }
  return 0;
}
