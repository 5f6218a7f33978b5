// A hub on loopback: answers from a table of paths, one connection at a time, and remembers what it
// was asked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace phidias::test {

struct HubRequest {
  std::string method;
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
  bool has(const std::string& header) const { return headers.contains(header); }
};

struct HubReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<size_t> cut_after;  // bytes of the body to send before the connection is dropped
};

class FakeHub {
 public:
  using Handler = std::function<HubReply(const HubRequest&)>;

  FakeHub();
  ~FakeHub();
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;

  // "http://<host>:<port>"; 127.0.0.1 and localhost reach the same server and are different hosts
  // to a client.
  std::string url(const std::string& host = "127.0.0.1") const;

  void on(const std::string& path, Handler handler);
  // A small file as a hub serves it: an etag in git's manner, obeys ranges.
  void add_file(const std::string& path, const std::string& content);
  // A large file: `path` redirects to `storage_host`/storage/..., with the linked headers.
  void add_linked_file(const std::string& path, const std::string& content,
                       const std::string& storage_host);

  std::vector<HubRequest> requests(const std::string& method = {}) const;
  void forget_requests();

 private:
  void serve();
  void answer(int connection);

  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;  // guards the two below
  std::map<std::string, Handler> handlers_;
  std::vector<HubRequest> requests_;
  std::thread thread_;
};

// The whole of `content`, or the part that the request's range asks for (206).
HubReply ranged(const HubRequest& request, const std::string& content);

std::string sha256(const std::string& content);
std::string git_blob_name(const std::string& content);

}  // namespace phidias::test
