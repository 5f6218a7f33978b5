#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "base/system_error.h"
#include "base/try.h"

namespace phidias {
namespace {

constexpr mode_t kMode = 0666;  // what the umask leaves of it
constexpr int kAttempts = 100;

// A name in the folder of `target` that no other process and no other thread uses.
std::filesystem::path temporary_name(const std::filesystem::path& target) {
  static std::atomic<uint64_t> counter{0};
  const std::string suffix =
      "." + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)) + ".tmp";
  return target.parent_path() / ("." + target.filename().string() + suffix);
}

// Renames are on disk once their folder is. Not every file system can do this, and the file is
// whole anyway.
void synchronize_folder(std::filesystem::path folder) {
  if (folder.empty()) folder = ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  static_cast<void>(::fsync(descriptor));
  ::close(descriptor);
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
  OutputFile file;
  file.path_ = path;
  file.target_ = path;
  struct stat info = {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    return Error{
        Code::kInvalidArgument, "is a folder; name a file to write", {path.string(), {}, {}}};
  }
  if (exists && !S_ISREG(info.st_mode)) {
    file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file.descriptor_ < 0) return system_error(path, "open for writing", errno);
    return file;
  }
  if (exists) {
    std::error_code failure;
    const std::filesystem::path resolved = std::filesystem::canonical(path, failure);
    if (!failure) file.target_ = resolved;
  }
  for (int attempt = 0; attempt < kAttempts && file.descriptor_ < 0; ++attempt) {
    std::filesystem::path name = temporary_name(file.target_);
    file.descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
    if (file.descriptor_ >= 0) {
      file.temporary_ = std::move(name);
    } else if (errno != EEXIST) {
      break;
    }
  }
  if (file.descriptor_ < 0) return system_error(path, "create a file in this folder", errno);
  // An old file keeps its permissions.
  if (exists && ::fchmod(file.descriptor_, info.st_mode & 07777U) != 0) {
    return system_error(path, "set the permissions", errno);
  }
  return file;
}

OutputFile::~OutputFile() { discard(); }

OutputFile::OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  path_ = std::move(other.path_);
  target_ = std::move(other.target_);
  temporary_ = std::exchange(other.temporary_, {});
  descriptor_ = std::exchange(other.descriptor_, -1);
  written_ = std::exchange(other.written_, 0);
  return *this;
}

void OutputFile::discard() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  PHIDIAS_ASSERT(descriptor_ >= 0);
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return system_error(path_, "write", errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
    written_ += static_cast<uint64_t>(count);
  }
  return {};
}

Status OutputFile::write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

Status OutputFile::commit() {
  PHIDIAS_ASSERT(descriptor_ >= 0);
  const bool in_place = temporary_.empty();
  if (!in_place && ::fsync(descriptor_) != 0) return system_error(path_, "write to disk", errno);
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 && errno != EINTR) return system_error(path_, "write", errno);
  if (in_place) return {};
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return system_error(path_, "move the finished file into place", errno);
  }
  temporary_.clear();
  synchronize_folder(target_.parent_path());
  return {};
}

}  // namespace phidias
