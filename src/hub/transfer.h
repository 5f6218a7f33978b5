// HTTP as a hub needs it: redirects that keep the token at home, ranges, and failures that say
// whether trying again may help. Built on libcurl, which does the rest (TLS, proxies, kept
// connections).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "phidias/hub.h"

namespace phidias {

struct HttpResponse {
  int status = 0;
  std::string url;                             // where the answer came from, after redirects
  std::map<std::string, std::string> headers;  // names in lower case; of the last answer
  std::string text;                            // the body, where no sink took it

  // The header's value, empty where it is missing.
  const std::string& header(const std::string& name) const;
};

struct HttpFailure {
  Error error;
  bool transient = false;     // the same request may succeed later
  int64_t retry_after_s = 0;  // what the server asked for
};

struct HttpRequest {
  std::string url;
  bool head = false;
  uint64_t from = 0;  // first byte wanted; the answer's status says whether the server obeyed (206)
                      // or not (200)
  // Takes the body of a 200 or 206, piece by piece; an error ends the transfer. Without it the body
  // goes to `text`, 32 MiB at most.
  std::function<Status(const HttpResponse&, std::span<const std::byte>)> sink;
  // Asked several times a second; false ends the transfer with kCancelled.
  std::function<bool()> keep_going;
};

// One request at a time.
class HttpClient {
 public:
  explicit HttpClient(const HubOptions& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // One try. Follows redirects, except that a HEAD ends at the first answer with an x-linked-etag:
  // hubs send it along with the redirect to where large files are stored. The token goes to the
  // endpoint's own scheme, host and port alone; nothing is followed from https to http. Succeeds
  // with 200, 206, a redirect as just said, and 416.
  std::variant<HttpResponse, HttpFailure> send(const HttpRequest& request);
  // send(), again and again while that may help.
  Result<HttpResponse> fetch(const HttpRequest& request);

 private:
  struct Transfer;
  std::variant<HttpResponse, HttpFailure> send_once(const HttpRequest& request,
                                                    const std::string& url);
  HttpFailure explain_status(const HttpResponse& response) const;

  HubOptions options_;
  std::string origin_;  // of the endpoint
  std::unique_ptr<void, void (*)(void*)> curl_;
};

// The pauses between tries: first_wait_ms, doubled each time, or what the server asks for.
class Backoff {
 public:
  explicit Backoff(const HubOptions& options) : options_(&options) {}
  // Sleeps, then true: try again. False: the failure is not transient, the tries are used up, or
  // keep_going says no.
  bool wait(const HttpFailure& failure, const std::function<bool()>& keep_going);
  // After progress the count starts again.
  void reset() { tries_ = 0; }

 private:
  const HubOptions* options_;
  int tries_ = 0;
};

}  // namespace phidias
