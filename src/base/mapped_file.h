// A file mapped read-only into memory; its size is known and never trusted beyond.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "phidias/status.h"

namespace phidias {

// Immutable and safe to share between threads. The mapping lives as long as the object.
class MappedFile {
 public:
  // Errors: kNotFound, kIo (with the system's reason), kCorrupt for what is not a regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::filesystem::path path_;
  const std::byte* data_;
  size_t size_;
};

// Says that this part of a mapping will not be read again soon: its memory can be given back. It is
// read from the file once more if it is. Never for memory that is not a MappedFile's.
void release_mapped(const std::byte* data, size_t bytes);

// The whole of a file as a string, for configs and templates.
//   limit   bytes; a larger file is refused (kCapacityExceeded)
Result<std::string> read_text_file(const std::filesystem::path& path, size_t limit = 256U << 20);

}  // namespace phidias
