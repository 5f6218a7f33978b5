// Reader of GGUF files, versions 2 and 3, little-endian. Format: magic, version, counts, key-value
// pairs, tensor directory, padding to `general.alignment`, data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "formats/tensor_file.h"

namespace phidias {

// Numbers are widened on reading: all unsigned to uint64, all signed to int64, both floats to
// double. Strings are copied, so values outlive the file. An array holds values of one kind.
struct GgufValue {
  using Array = std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>,
                             std::vector<bool>, std::vector<std::string>>;
  std::variant<uint64_t, int64_t, double, bool, std::string, Array> value;
  // Its type's number and its bytes as they stand in the file, for whoever writes it again; valid
  // as long as the parsed bytes.
  std::span<const std::byte> encoded{};
};

// Immutable, safe to share. Entries point into the mapping and live as long as `file`.
struct GgufFile {
  std::shared_ptr<const MappedFile> file;
  std::string name;  // of the file, for errors
  uint32_t version = 3;
  std::vector<std::pair<std::string, GgufValue>> metadata;  // in file order
  std::vector<TensorEntry> tensors;                         // shapes outermost first; in file order

  // Refused, with file, key or tensor and byte named: wrong magic or version; counts or lengths
  // that the bytes left cannot hold; nested arrays; repeated keys or tensors; an alignment that is
  // not a power of two; a tensor type that we do not read (kUnsupported, type named); more than 4
  // dimensions; rows that are not whole blocks; data that overlaps, is not aligned or reaches past
  // the end. Bytes after the last tensor are allowed. Memory used is bounded by a small multiple of
  // the file's size.
  static Result<GgufFile> open(const std::filesystem::path& path);
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& name);

  // Typed look-ups. Absent gives nullopt (or the fallback); a value of another kind is an error
  // that names the key. Whole numbers are accepted from signed and unsigned alike, numbers also
  // where a double is wanted.
  const GgufValue* find(std::string_view key) const;
  Result<std::optional<uint64_t>> optional_unsigned(std::string_view key) const;
  Result<std::optional<double>> optional_number(std::string_view key) const;
  Result<std::optional<bool>> optional_bool(std::string_view key) const;
  Result<std::optional<std::string>> optional_string(std::string_view key) const;
  // Pointers into this object; null where absent.
  Result<const std::vector<std::string>*> optional_strings(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> optional_integers(std::string_view key) const;
  Result<std::optional<std::vector<double>>> optional_numbers(std::string_view key) const;

 private:
  friend class GgufParser;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace phidias
