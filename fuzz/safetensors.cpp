// Any bytes as a safetensors file and as the index of one: an error, or tensors that fill the file
// exactly.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "formats/safetensors.h"
#include "formats/safetensors_index.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_index(std::string_view text) {
  const auto index = phidias::SafetensorsIndex::parse(text, "fuzz");
  if (!index.ok()) return;
  for (const auto& [tensor, shard] : index->weight_map) {
    require(shard.find('/') == std::string::npos && shard != "..");
    require(index->shards.contains(shard));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  check_index({reinterpret_cast<const char*>(data), size});
  const auto file = phidias::SafetensorsFile::parse(bytes, "fuzz");
  if (!file.ok()) {
    require(!file.error().message.empty());
    require(file.error().place.file == "fuzz");
    return 0;
  }
  uint64_t end = 0;
  for (const phidias::TensorEntry& entry : file->tensors) {
    require(entry.offset >= end && entry.offset <= size && entry.bytes <= size - entry.offset);
    require(entry.data == bytes.data() + entry.offset);
    end = entry.offset + entry.bytes;
    uint64_t values = 1;
    for (const uint64_t extent : entry.shape) values *= extent;
    require(values * phidias::format_row(entry.format).block_bytes == entry.bytes);
  }
  require(!file->ignored.empty() || file->tensors.empty() || end == size);
  return 0;
}
