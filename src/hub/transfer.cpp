#include "hub/transfer.h"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <thread>

#include "base/ascii.h"
#include "base/json.h"
#include "base/try.h"
#include "phidias/version.h"

namespace phidias {
namespace {

constexpr size_t kMaxText = 32U << 20;
constexpr size_t kMaxHeaders = 256U << 10;
constexpr int kMaxRedirects = 10;
constexpr int64_t kMaxRetryAfter = 60;  // seconds; a server that asks for more is taken as failed

struct UrlParts {
  std::string scheme;
  std::string host;
  std::string origin;  // scheme, host and port
};

// Empty for what is no URL.
UrlParts split_url(const std::string& url) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parsed(curl_url(), curl_url_cleanup);
  UrlParts parts;
  if (!parsed || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK)
    return parts;
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    if (curl_url_get(parsed.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK)
      return std::string();
    std::string out(text);
    curl_free(text);
    return out;
  };
  parts.scheme = part(CURLUPART_SCHEME);
  parts.host = part(CURLUPART_HOST);
  parts.origin = parts.scheme + "://" + parts.host + ":" + part(CURLUPART_PORT);
  return parts;
}

// What a server said, made fit for one line of a terminal.
std::string printable(std::string_view text) {
  constexpr size_t kShown = 200;
  std::string out;
  for (const char c : text.substr(0, kShown))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out;
}

// The hub's own words: a header, or the "error" of a JSON body.
std::string hub_message(const HttpResponse& response) {
  const std::string& header = response.header("x-error-message");
  if (!header.empty()) return printable(header);
  const Result<Json> body = parse_json(response.text);
  if (!body.ok()) return {};
  const auto message = JsonReader(*body, {}).optional_string("error");
  return message.ok() && message->has_value() ? printable(**message) : std::string();
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_transient(CURLcode code) {
  switch (code) {
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
      return true;
    default:
      return false;
  }
}

}  // namespace

const std::string& HttpResponse::header(const std::string& name) const {
  static const std::string none;
  const auto at = headers.find(name);
  return at == headers.end() ? none : at->second;
}

// The state that libcurl's callbacks work on. No exception may pass through libcurl: each callback
// catches.
struct HttpClient::Transfer {
  const HttpRequest* request = nullptr;
  CURL* curl = nullptr;
  HttpResponse response;
  size_t header_bytes = 0;
  std::optional<Error> error;  // why a callback ended the transfer

  static size_t on_header(char* data, size_t, size_t size, void* self) {
    return static_cast<Transfer*>(self)->guarded(size, [&](Transfer& transfer) {
      transfer.take_header({data, size});
    });
  }
  static size_t on_body(char* data, size_t, size_t size, void* self) {
    return static_cast<Transfer*>(self)->guarded(size, [&](Transfer& transfer) {
      transfer.take_body({data, size});
    });
  }
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    Transfer& transfer = *static_cast<Transfer*>(self);
    return static_cast<int>(transfer.guarded(0, [](Transfer& t) {
      if (t.request->keep_going && !t.request->keep_going()) {
        t.error =
            Error{Code::kCancelled, "the download was stopped; a later one goes on from here", {}};
      }
    }));
  }

  // Runs a callback's work; `done` on success, another number (which ends the transfer) on an
  // error.
  template <typename Work>
  size_t guarded(size_t done, const Work& work) {
    try {
      work(*this);
    } catch (const std::bad_alloc&) {
      error = Error{Code::kOutOfMemory, "there is not enough memory for the server's answer", {}};
    }
    return error ? done + 1 : done;
  }

  void take_header(std::string_view line) {
    if ((header_bytes += line.size()) > kMaxHeaders) {
      error = Error{Code::kCorrupt, "the server's answer has more headers than is reasonable", {}};
      return;
    }
    if (line.starts_with("HTTP/"))
      response.headers.clear();  // the answer proper, after an interim one
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    std::string_view value = line.substr(colon + 1);
    const size_t first = value.find_first_not_of(" \t");
    const size_t last = value.find_last_not_of(" \t\r\n");
    response.headers[ascii_lower(line.substr(0, colon))] =
        first == std::string_view::npos ? "" : value.substr(first, last - first + 1);
  }

  void take_body(std::string_view bytes) {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    if (request->sink && (status == 200 || status == 206)) {
      Status taken = request->sink(response, std::as_bytes(std::span(bytes.data(), bytes.size())));
      if (!taken.ok()) error = std::move(taken).error();
    } else if (response.text.size() + bytes.size() > kMaxText) {
      error = Error{Code::kCorrupt, "the server's answer is larger than is reasonable", {}};
    } else {
      response.text.append(bytes);
    }
  }
};

HttpClient::HttpClient(const HubOptions& options)
    : options_(options), curl_(nullptr, curl_easy_cleanup) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  PHIDIAS_ASSERT(initialised == CURLE_OK);
  curl_.reset(curl_easy_init());
  PHIDIAS_ASSERT(curl_ != nullptr);
  origin_ = split_url(options_.endpoint).origin;
}

HttpClient::~HttpClient() = default;

HttpFailure HttpClient::explain_status(const HttpResponse& response) const {
  const std::string& kind = response.header("x-error-code");
  std::string said = hub_message(response);
  if (!said.empty()) said = " (" + said + ")";
  const std::string what = "the hub answered " + std::to_string(response.status) + said + ": ";
  const Place place{response.url, {}, {}};
  const bool gated = kind == "GatedRepo" || response.status == 403;
  if (gated || response.status == 401) {
    const std::string token = options_.token.empty()
                                  ? "then set HF_TOKEN to an access token of that account"
                                  : "then check that the token in use belongs to that account";
    if (gated) {
      return {{Code::kIo,
               what + "the repository is gated: accept its conditions on its page, " + token,
               place}};
    }
    return {{Code::kNotFound,
             what +
                 "there is no such repository, or it is private or gated. Check the name; if it is "
                 "right, ask for "
                 "access on its page, " +
                 token,
             place}};
  }
  if (response.status == 404) {
    const std::string missing = kind == "RevisionNotFound" ? "revision"
                                : kind == "EntryNotFound"  ? "file"
                                                           : "repository, revision or file";
    return {
        {Code::kNotFound, what + "there is no such " + missing + ". Check the spelling", place}};
  }
  const bool transient = response.status == 408 || response.status == 429 || response.status >= 500;
  return {{Code::kIo, what + (transient ? "try again later" : "the request was refused"), place},
          transient};
}

std::variant<HttpResponse, HttpFailure> HttpClient::send_once(const HttpRequest& request,
                                                              const std::string& url) {
  CURL* curl = curl_.get();
  curl_easy_reset(curl);  // options only; connections are kept
  Transfer transfer{&request, curl, {}, 0, {}};
  transfer.response.url = url;
  char reason[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "phidias/" PHIDIAS_VERSION);
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 20L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT,
                   1L);  // no byte at all for half a minute: the line is dead
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 30L);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  if (request.head) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  const std::string range = std::to_string(request.from) + "-";
  if (request.from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  if (!options_.token.empty() && split_url(url).origin == origin_) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, options_.token.c_str());
  }

  const CURLcode code = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  transfer.response.status = static_cast<int>(status);
  if (transfer.error) {
    if (transfer.error->place.file.empty()) transfer.error->place.file = url;
    return HttpFailure{std::move(*transfer.error)};
  }
  if (code == CURLE_OK) return std::move(transfer.response);

  const std::string text = reason[0] != '\0' ? reason : curl_easy_strerror(code);
  const Place place{url, {}, {}};
  if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
      code == CURLE_COULDNT_CONNECT) {
    return HttpFailure{{Code::kIo,
                        "the hub cannot be reached (" + text +
                            "). Check the network; behind a proxy set HTTPS_PROXY, "
                            "for a mirror HF_ENDPOINT. Without a network, only models already in "
                            "the cache can be used",
                        place}};
  }
  return HttpFailure{{Code::kIo, "the transfer failed (" + text + ")", place}, is_transient(code)};
}

std::variant<HttpResponse, HttpFailure> HttpClient::send(const HttpRequest& request) {
  if (options_.offline) {
    return HttpFailure{{Code::kIo,
                        "the network is not to be used (HF_HUB_OFFLINE is set)",
                        {request.url, {}, {}}}};
  }
  std::string url = request.url;
  for (int hops = 0; hops <= kMaxRedirects; ++hops) {
    auto outcome = send_once(request, url);
    if (std::holds_alternative<HttpFailure>(outcome)) return outcome;
    HttpResponse& response = std::get<HttpResponse>(outcome);
    if (!is_redirect(response.status)) {
      if (response.status == 200 || response.status == 206 || response.status == 416)
        return outcome;
      HttpFailure failure = explain_status(response);
      curl_off_t retry_after = 0;
      curl_easy_getinfo(curl_.get(), CURLINFO_RETRY_AFTER, &retry_after);
      failure.retry_after_s = retry_after;
      return failure;
    }
    if (request.head && !response.header("x-linked-etag").empty()) return outcome;
    const char* next = nullptr;
    curl_easy_getinfo(curl_.get(), CURLINFO_REDIRECT_URL, &next);
    const Place place{url, {}, {}};
    if (next == nullptr) return HttpFailure{{Code::kIo, "the hub redirects to nowhere", place}};
    if (split_url(url).scheme == "https" && split_url(next).scheme != "https") {
      return HttpFailure{{Code::kIo,
                          "the hub redirects from https to " + printable(next) + "; not followed",
                          place}};
    }
    url = next;
  }
  return HttpFailure{{Code::kIo, "the hub redirects in circles", {request.url, {}, {}}}};
}

Result<HttpResponse> HttpClient::fetch(const HttpRequest& request) {
  Backoff backoff(options_);
  while (true) {
    auto outcome = send(request);
    if (auto* response = std::get_if<HttpResponse>(&outcome)) return std::move(*response);
    auto& failure = std::get<HttpFailure>(outcome);
    if (!backoff.wait(failure, request.keep_going)) return std::move(failure.error);
  }
}

bool Backoff::wait(const HttpFailure& failure, const std::function<bool()>& keep_going) {
  using Clock = std::chrono::steady_clock;
  if (!failure.transient || ++tries_ >= options_->attempts ||
      failure.retry_after_s > kMaxRetryAfter)
    return false;
  const auto own =
      std::chrono::milliseconds(options_->first_wait_ms) * (1 << std::min(tries_ - 1, 6));
  const auto asked = std::chrono::seconds(std::max<int64_t>(failure.retry_after_s, 0));
  const auto end = Clock::now() + std::max<Clock::duration>(own, asked);
  while (Clock::now() < end) {
    if (keep_going && !keep_going()) return false;
    std::this_thread::sleep_for(
        std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(100)));
  }
  return true;
}

}  // namespace phidias
