// Writer of GGUF files, version 3, little-endian: the header first, then the data as they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "base/output_file.h"
#include "formats/gguf_types.h"
#include "phidias/status.h"
#include "quant/format.h"

namespace phidias {

template <typename T>
constexpr GgufType gguf_type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return GgufType::kBool;
  else if constexpr (std::is_same_v<T, float>)
    return GgufType::kFloat32;
  else if constexpr (std::is_same_v<T, double>)
    return GgufType::kFloat64;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return GgufType::kUint8;
  else if constexpr (std::is_same_v<T, int8_t>)
    return GgufType::kInt8;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return GgufType::kUint16;
  else if constexpr (std::is_same_v<T, int16_t>)
    return GgufType::kInt16;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return GgufType::kUint32;
  else if constexpr (std::is_same_v<T, int32_t>)
    return GgufType::kInt32;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return GgufType::kUint64;
  else if constexpr (std::is_same_v<T, int64_t>)
    return GgufType::kInt64;
  else
    static_assert(!sizeof(T), "GGUF has no such type");
}

// Collects metadata and tensors in the order in which they will stand in the file. Names, keys and
// shapes are the caller's own: writing one twice, a row that is not whole blocks, or more than 4
// dimensions is a mistake that ends the process.
class GgufHeader {
 public:
  // `alignment` of the data is a power of two; the key general.alignment is written where it is
  // not 32.
  explicit GgufHeader(uint32_t alignment = kGgufDefaultAlignment);

  template <typename T>
  requires std::is_arithmetic_v<T>
  void add(std::string_view key, T value) {
    begin_value(key, gguf_type_of<T>());
    append(&value, sizeof(T));
  }
  void add(std::string_view key, std::string_view text);
  void add(std::string_view key, const char* text) { add(key, std::string_view(text)); }
  template <typename T>
  void add_array(std::string_view key, std::span<const T> values) {
    begin_array(key, gguf_type_of<T>(), values.size());
    append(values.data(), values.size_bytes());
  }
  void add_array(std::string_view key, std::span<const std::string> texts);
  // A value as another file has it (GgufValue::encoded): type, then bytes, to the letter.
  void add_encoded(std::string_view key, std::span<const std::byte> encoded);

  //   shape   outermost first, as everywhere in this program
  void add_tensor(std::string_view name, Format format, std::span<const uint64_t> shape);

  // Everything up to the data, padded to the alignment.
  std::vector<std::byte> bytes() const;
  uint32_t alignment() const { return alignment_; }
  // Bytes of each tensor, without padding, in file order.
  const std::vector<uint64_t>& tensor_bytes() const { return tensor_bytes_; }

 private:
  void begin_value(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType type, uint64_t count);
  void append(const void* data, size_t size);
  void append_text(std::vector<std::byte>& out, std::string_view text) const;

  uint32_t alignment_;
  uint64_t metadata_count_ = 0;
  std::vector<std::byte> metadata_;
  std::vector<std::byte> directory_;
  std::vector<uint64_t> tensor_bytes_;
  uint64_t data_end_ = 0;  // from the start of the data, padded
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::string> names_;
};

// One thread at a time.
class GgufWriter {
 public:
  // Errors: those of OutputFile::create.
  static Result<GgufWriter> create(const std::filesystem::path& path, const GgufHeader& header);

  // Blocks of all tensors one after another, without padding, in pieces that end where a tensor
  // ends or before; the padding between tensors is added here.
  Status write(std::span<const std::byte> bytes);
  // The file appears under its name. kInternal unless all tensors were written.
  Status commit();

 private:
  GgufWriter(OutputFile file, const GgufHeader& header)
      : file_(std::move(file)),
        alignment_(header.alignment()),
        tensor_bytes_(header.tensor_bytes()) {}
  Status finish_tensors();

  OutputFile file_;
  uint32_t alignment_;
  std::vector<uint64_t> tensor_bytes_;
  size_t tensor_ = 0;  // being written
  uint64_t done_in_tensor_ = 0;
};

}  // namespace phidias
