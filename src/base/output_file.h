// A file that appears whole or not at all: written beside its final place, then renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "phidias/status.h"

namespace phidias {

// One thread at a time. A target that exists and is no regular file (a pipe, a terminal,
// /dev/stdout) is written in place, since nothing can be renamed onto it.
class OutputFile {
 public:
  // Errors: kInvalidArgument for a folder, kNotFound where the target's folder does not exist, kIo
  // with the system's reason.
  static Result<OutputFile> create(const std::filesystem::path& path);
  // Removes what was written, unless it was committed.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  // Not buffered: each call goes to the system, so hand over large pieces. After an error (kIo) the
  // file can only be dropped.
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);

  // Brings the bytes to disk and the file to its place, over an old one if there is one. Once only.
  Status commit();

  uint64_t bytes_written() const { return written_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  OutputFile() = default;
  void discard() noexcept;

  std::filesystem::path path_;       // as the caller wrote it, for errors
  std::filesystem::path target_;     // with symbolic links followed
  std::filesystem::path temporary_;  // empty where the target is written in place
  int descriptor_ = -1;
  uint64_t written_ = 0;
};

}  // namespace phidias
