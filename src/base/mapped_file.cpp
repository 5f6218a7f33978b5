#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/system_error.h"
#include "base/try.h"

namespace phidias {
Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not make us wait
  if (descriptor < 0) return system_error(path, "open", errno);
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) {
    const int reason = errno;
    ::close(descriptor);
    return system_error(path, "read the size", reason);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return Error{Code::kInvalidArgument, "is not a regular file", {path.string(), {}, {}}};
  }
  const auto size = static_cast<size_t>(info.st_size);
  const std::byte* data = nullptr;
  if (size > 0) {
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) {
      const int reason = errno;
      ::close(descriptor);
      return system_error(path, "map", reason);
    }
    data = static_cast<const std::byte*>(mapped);
  }
  ::close(descriptor);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void release_mapped(const std::byte* data, size_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::string> read_text_file(const std::filesystem::path& path, size_t limit) {
  PHIDIAS_TRY(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  if (bytes.size() > limit) {
    return Error{Code::kCapacityExceeded,
                 "has " + std::to_string(bytes.size()) + " bytes, more than the " +
                     std::to_string(limit) + " allowed for this kind of file",
                 {path.string(), {}, {}}};
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace phidias
