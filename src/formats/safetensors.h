// Reader of safetensors files. Format: 8 bytes little-endian length of the header, a JSON header
// {name: {dtype, shape, data_offsets: [begin, end]}, "__metadata__": {...}}, then the data.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "formats/tensor_file.h"

namespace phidias {

// Immutable, safe to share. Entries point into the mapping and live as long as `file`.
struct SafetensorsFile {
  // A tensor of a dtype that is no number format of ours ("I64"); its place in the file is checked
  // like any other.
  struct Ignored {
    std::string name;
    std::string dtype;
  };

  std::shared_ptr<const MappedFile> file;
  std::map<std::string, std::string> metadata;
  std::vector<TensorEntry> tensors;  // in the order of their data
  std::vector<Ignored> ignored;

  // Refused as kCorrupt, with the file and the tensor named: a header that is longer than the file,
  // is not JSON or repeats a name; a shape whose product overflows or disagrees with the size of
  // the data; offsets that are unordered, overlap, leave holes or do not end exactly at the end of
  // the file. A header of more than 100 MB is kCapacityExceeded. Memory used is bounded by the size
  // of the file's header.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  // The same on bytes in memory; `name` is used in errors. Entry for the fuzz target.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& name);
};

}  // namespace phidias
