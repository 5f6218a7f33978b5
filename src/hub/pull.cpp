// Pulling a model: list the repository, choose files, ask for each one's name by content, download
// what is missing, then link all of them into the snapshot. The links come last, so that a snapshot
// made here is complete.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/json.h"
#include "base/try.h"
#include "hub/cache.h"
#include "hub/digest.h"
#include "hub/reference.h"
#include "hub/transfer.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

struct Listing {
  std::string commit;
  std::vector<std::string> files;
};

struct RemoteFile {
  std::string name;
  std::string url;
  std::string etag;
  uint64_t size = 0;  // bytes
};

// A path as part of a URL: everything but letters, digits and -._~/ becomes %XX.
std::string escaped(std::string_view path) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && (std::isalnum(byte) != 0 || std::strchr("-._~/", c) != nullptr)) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
  return out;
}

std::string escaped_component(std::string_view revision) {
  std::string out = escaped(revision);
  for (size_t at = out.find('/'); at != std::string::npos; at = out.find('/', at + 3))
    out.replace(at, 1, "%2F");
  return out;
}

Error system_error(const std::string& what, const fs::path& path) {
  return {Code::kIo, what + " (" + std::strerror(errno) + ")", {path.string(), {}, {}}};
}

Result<Listing> list_repository(HttpClient& client, const HubReference& reference,
                                const HubOptions& options,
                                const std::function<bool()>& keep_going) {
  const std::string url = options.endpoint + "/api/models/" + escaped(reference.repository) +
                          "/revision/" + escaped_component(reference.revision);
  PHIDIAS_TRY(const HttpResponse response, client.fetch({url, false, 0, {}, keep_going}));
  PHIDIAS_TRY(const Json json, parse_json(response.text, url));
  const JsonReader reader(json, url);
  Listing listing;
  PHIDIAS_TRY(listing.commit, reader.string("sha"));
  PHIDIAS_CHECK_OK(check_commit(listing.commit));
  const auto siblings = json.find("siblings");
  if (siblings == json.end() || !siblings->is_array()) {
    return reader.error(Code::kCorrupt, "the hub's answer lists no files", "siblings");
  }
  for (const Json& sibling : *siblings) {
    PHIDIAS_TRY(std::string name, JsonReader(sibling, url, "/siblings").string("rfilename"));
    PHIDIAS_CHECK_OK(check_file_name(name));
    listing.files.push_back(std::move(name));
  }
  return listing;
}

// The content's name, without the quotes and weakness mark of HTTP; it becomes a file's name, so it
// must look like one.
Result<std::string> clean_etag(std::string_view etag, const std::string& url) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"')
    etag = etag.substr(1, etag.size() - 2);
  const bool plain = std::all_of(etag.begin(), etag.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  });
  if (plain && !etag.empty() && etag.size() <= 128) return std::string(etag);
  return Error{Code::kCorrupt,
               "the hub gives this file no usable etag; is the endpoint a model hub?",
               {url, {}, {}}};
}

Result<uint64_t> parse_size(const std::string& text, const std::string& url) {
  uint64_t size = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (fault == std::errc() && end == text.data() + text.size() && !text.empty()) return size;
  return Error{Code::kCorrupt, "the hub does not say how large this file is", {url, {}, {}}};
}

Result<RemoteFile> describe_file(HttpClient& client, const std::string& name,
                                 const std::string& url, const std::function<bool()>& keep_going) {
  PHIDIAS_TRY(const HttpResponse response, client.fetch({url, true, 0, {}, keep_going}));
  // Large files are stored elsewhere; the x-linked headers describe them, the plain ones the
  // redirect.
  const bool linked = !response.header("x-linked-etag").empty();
  RemoteFile file{name, url, {}, 0};
  PHIDIAS_TRY(file.etag, clean_etag(response.header(linked ? "x-linked-etag" : "etag"), url));
  PHIDIAS_TRY(file.size,
              parse_size(response.header(linked ? "x-linked-size" : "content-length"), url));
  return file;
}

// blobs/<etag>.incomplete: what has arrived of a file, held by one process at a time.
class PartialFile {
 public:
  static Result<PartialFile> open(const fs::path& path) {
    std::error_code fault;
    fs::create_directories(path.parent_path(), fault);
    PartialFile file(path);
    file.descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file.descriptor_ < 0) return system_error("cannot be opened", path);
    if (::flock(file.descriptor_, LOCK_EX | LOCK_NB) != 0) {
      return Error{Code::kIo,
                   "another process is downloading this file; wait for it, or stop it",
                   {path.string(), {}, {}}};
    }
    return file;
  }
  PartialFile(PartialFile&& other) noexcept
      : path_(std::move(other.path_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        size_(other.size_) {}
  PartialFile& operator=(PartialFile&&) = delete;
  ~PartialFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  uint64_t size() const { return size_; }

  // Reads what an earlier run left, at most `limit` bytes, into the digest; more than that is cut
  // off.
  Status resume(uint64_t limit, Digest& digest) {
    std::array<std::byte, 1U << 16> block{};
    size_ = 0;
    while (size_ < limit) {
      const ssize_t got =
          ::read(descriptor_, block.data(), std::min<uint64_t>(block.size(), limit - size_));
      if (got < 0) return system_error("cannot be read", path_);
      if (got == 0) break;
      digest.update({block.data(), static_cast<size_t>(got)});
      size_ += static_cast<uint64_t>(got);
    }
    if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0)
      return system_error("cannot be cut", path_);
    return {};
  }

  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t put =
          ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (put < 0) return system_error("cannot be written", path_);
      size_ += static_cast<uint64_t>(put);
      bytes = bytes.subspan(static_cast<size_t>(put));
    }
    return {};
  }

  Status clear() {
    size_ = 0;
    if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) != 0) {
      return system_error("cannot be emptied", path_);
    }
    return {};
  }

  void remove() { ::unlink(path_.c_str()); }

  Status finish(const fs::path& target) {
    if (::fsync(descriptor_) != 0) return system_error("cannot be written", path_);
    if (::rename(path_.c_str(), target.c_str()) != 0)
      return system_error("cannot be renamed", path_);
    return {};
  }

 private:
  explicit PartialFile(fs::path path) : path_(std::move(path)) {}

  fs::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

class Puller {
 public:
  Puller(const HubReference& reference, const HubOptions& options,
         const HubProgressCallback& progress)
      : reference_(reference),
        options_(options),
        progress_(progress),
        cache_(options.cache, reference.repository),
        client_(options),
        keep_going_([this] { return !progress_ || progress_(state_); }) {}

  Result<fs::path> run() {
    PHIDIAS_TRY(const Listing listing, list_repository(client_, reference_, options_, keep_going_));
    PHIDIAS_TRY(const std::vector<std::string> chosen, choose_files(listing.files, reference_));
    std::vector<RemoteFile> files;
    for (const std::string& name : chosen) {
      const std::string url = options_.endpoint + "/" + escaped(reference_.repository) +
                              "/resolve/" + listing.commit + "/" + escaped(name);
      PHIDIAS_TRY(RemoteFile file, describe_file(client_, name, url, keep_going_));
      state_.total += file.size;
      files.push_back(std::move(file));
    }
    PHIDIAS_CHECK_OK(check_room(files));
    for (const RemoteFile& file : files) PHIDIAS_CHECK_OK(download(file));
    for (const RemoteFile& file : files)
      PHIDIAS_CHECK_OK(cache_.link(listing.commit, file.name, file.etag));
    if (reference_.revision != listing.commit)
      PHIDIAS_CHECK_OK(cache_.set_ref(reference_.revision, listing.commit));
    const fs::path snapshot = cache_.snapshot(listing.commit);
    return files.size() == 1 && is_gguf(files[0].name) ? snapshot / files[0].name : snapshot;
  }

 private:
  bool have(const RemoteFile& file) const {
    std::error_code ignored;
    return fs::file_size(cache_.blob(file.etag), ignored) == file.size && !ignored;
  }

  fs::path partial_path(const RemoteFile& file) const {
    return cache_.blob(file.etag + ".incomplete");
  }

  // Refuses before the first byte what the disk cannot hold.
  Status check_room(const std::vector<RemoteFile>& files) const {
    uint64_t needed = 0;
    for (const RemoteFile& file : files) {
      if (have(file)) continue;
      std::error_code ignored;
      const uintmax_t left = fs::file_size(partial_path(file), ignored);
      needed += file.size - (ignored ? 0 : std::min<uint64_t>(left, file.size));
    }
    std::error_code fault;
    fs::create_directories(cache_.root(), fault);
    const fs::space_info space = fault ? fs::space_info{} : fs::space(cache_.root(), fault);
    if (fault)
      return Error{Code::kIo,
                   "cannot be created (" + fault.message() + ")",
                   {cache_.root().string(), {}, {}}};
    if (needed <= space.available) return {};
    return Error{Code::kIo,
                 "the download needs " + std::to_string(needed) + " bytes, and only " +
                     std::to_string(space.available) +
                     " are free; make room, or set HF_HUB_CACHE to another disk",
                 {cache_.root().string(), {}, {}}};
  }

  void report(uint64_t file_done) {
    state_.done += file_done - state_.file_done;
    state_.file_done = file_done;
  }

  Status download(const RemoteFile& file) {
    state_.file = file.name;
    state_.file_done = 0;
    state_.file_total = file.size;
    if (have(file)) {
      report(file.size);
      if (keep_going_()) return {};
      return Error{Code::kCancelled, "the download was stopped; a later one goes on from here", {}};
    }
    PHIDIAS_TRY(PartialFile partial, PartialFile::open(partial_path(file)));
    Digest digest(file.etag, file.size);
    PHIDIAS_CHECK_OK(partial.resume(file.size, digest));
    report(partial.size());
    if (partial.size() < file.size) PHIDIAS_CHECK_OK(transfer(file, partial, digest));
    if (partial.size() != file.size || !digest.matches()) {
      partial.remove();
      return Error{Code::kCorrupt,
                   "what arrived does not have the checksum that the hub gives for it, and was "
                   "removed. Try again; if "
                   "it happens twice, the hub's copy or the way to it is damaged",
                   {file.url, {}, file.name}};
    }
    return partial.finish(cache_.blob(file.etag));
  }

  // Fetches the bytes that `partial` lacks, trying again while bytes keep arriving.
  Status transfer(const RemoteFile& file, PartialFile& partial, Digest& digest) {
    Backoff backoff(options_);
    while (partial.size() < file.size) {
      const uint64_t before = partial.size();
      bool first = true;
      HttpRequest request{file.url, false, before, {}, keep_going_};
      request.sink = [&](const HttpResponse& response, std::span<const std::byte> bytes) -> Status {
        if (first) PHIDIAS_CHECK_OK(begin(response, file, partial, digest));
        first = false;
        if (bytes.size() > file.size - partial.size()) {
          return Error{Code::kCorrupt,
                       "the server sends more than the hub says the file holds",
                       {file.url, {}, {}}};
        }
        PHIDIAS_CHECK_OK(partial.append(bytes));
        digest.update(bytes);
        report(partial.size());
        return {};
      };
      auto outcome = client_.send(request);
      HttpFailure failure{
          {Code::kIo, "the server sent less than it should have", {file.url, {}, {}}}, true};
      if (auto* failed = std::get_if<HttpFailure>(&outcome)) failure = std::move(*failed);
      if (partial.size() >= file.size) return {};
      if (partial.size() > before) backoff.reset();
      if (!backoff.wait(failure, keep_going_)) return std::move(failure.error);
    }
    return {};
  }

  // Before the body's first byte: does it start where the partial file ends? A server may ignore
  // the range (200), then everything comes again.
  Status begin(const HttpResponse& response, const RemoteFile& file, PartialFile& partial,
               Digest& digest) {
    if (partial.size() == 0 && response.status == 200) return {};
    if (response.status == 206) {
      const std::string expected = "bytes " + std::to_string(partial.size()) + "-";
      if (response.header("content-range").starts_with(expected)) return {};
      return Error{
          Code::kCorrupt, "the server sends another range than was asked for", {file.url, {}, {}}};
    }
    digest = Digest(file.etag, file.size);
    PHIDIAS_CHECK_OK(partial.clear());
    report(0);
    return {};
  }

  const HubReference& reference_;
  const HubOptions& options_;
  const HubProgressCallback& progress_;
  CachedRepository cache_;
  HttpClient client_;
  HubProgress state_;
  std::function<bool()> keep_going_;
};

}  // namespace

Result<fs::path> pull_model(const HubReference& reference, const HubOptions& options,
                            const HubProgressCallback& progress) {
  if (reference.repository.find('/') == std::string::npos) {
    return Error{Code::kInvalidArgument,
                 "write the model's name as owner/name",
                 {{}, {}, reference.repository}};
  }
  if (!check_file_name(reference.revision).ok()) {
    return Error{Code::kInvalidArgument,
                 "is not a revision: a branch, tag or commit",
                 {{}, {}, reference.revision}};
  }
  return Puller(reference, options, progress).run();
}

}  // namespace phidias
