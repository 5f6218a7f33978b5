#include "unit/hub/fake_hub.h"

#include <netinet/in.h>
#include <openssl/evp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace phidias::test {
namespace {

std::string hex_digest(const EVP_MD* kind, const std::string& content) {
  unsigned char value[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(content.data(), content.size(), value, &size, kind, nullptr);
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    const char* const digits = "0123456789abcdef";
    out += digits[value[i] >> 4U];
    out += digits[value[i] & 15U];
  }
  return out;
}

void send_all(int connection, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t put = ::send(connection, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (put <= 0) return;
    sent += static_cast<size_t>(put);
  }
}

}  // namespace

std::string sha256(const std::string& content) { return hex_digest(EVP_sha256(), content); }

std::string git_blob_name(const std::string& content) {
  return hex_digest(EVP_sha1(),
                    "blob " + std::to_string(content.size()) + std::string(1, '\0') + content);
}

HubReply ranged(const HubRequest& request, const std::string& content) {
  const auto range = request.headers.find("range");
  if (range == request.headers.end()) return {200, {}, content, {}};
  const size_t from =
      std::strtoull(range->second.c_str() + std::string("bytes=").size(), nullptr, 10);
  if (from >= content.size()) return {416, {}, "", {}};
  return {206,
          {{"Content-Range", "bytes " + std::to_string(from) + "-" +
                                 std::to_string(content.size() - 1) + "/" +
                                 std::to_string(content.size())}},
          content.substr(from),
          {}};
}

FakeHub::FakeHub() {
  listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("the fake hub cannot listen on loopback");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

FakeHub::~FakeHub() {
  ::shutdown(listener_, SHUT_RDWR);  // wakes accept()
  thread_.join();
  ::close(listener_);
}

std::string FakeHub::url(const std::string& host) const {
  return "http://" + host + ":" + std::to_string(port_);
}

void FakeHub::on(const std::string& path, Handler handler) {
  const std::lock_guard lock(mutex_);
  handlers_[path] = std::move(handler);
}

void FakeHub::add_file(const std::string& path, const std::string& content) {
  on(path, [content](const HubRequest& request) {
    HubReply reply = ranged(request, content);
    reply.headers.emplace_back("ETag", "\"" + git_blob_name(content) + "\"");
    return reply;
  });
}

void FakeHub::add_linked_file(const std::string& path, const std::string& content,
                              const std::string& storage_host) {
  const std::string stored = "/storage/" + sha256(content);
  const std::string location = url(storage_host) + stored;
  on(path, [content, location](const HubRequest&) {
    return HubReply{302,
                    {{"Location", location},
                     {"X-Linked-Etag", "\"" + sha256(content) + "\""},
                     {"X-Linked-Size", std::to_string(content.size())}},
                    "moved",
                    {}};
  });
  on(stored, [content](const HubRequest& request) { return ranged(request, content); });
}

std::vector<HubRequest> FakeHub::requests(const std::string& method) const {
  const std::lock_guard lock(mutex_);
  std::vector<HubRequest> out;
  std::copy_if(
      requests_.begin(), requests_.end(), std::back_inserter(out),
      [&](const HubRequest& request) { return method.empty() || request.method == method; });
  return out;
}

void FakeHub::forget_requests() {
  const std::lock_guard lock(mutex_);
  requests_.clear();
}

void FakeHub::serve() {
  for (int connection = 0; (connection = ::accept(listener_, nullptr, nullptr)) >= 0;) {
    answer(connection);
    ::close(connection);
  }
}

void FakeHub::answer(int connection) {
  std::string text;
  char block[4096];
  while (text.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = ::recv(connection, block, sizeof block, 0);
    if (got <= 0) return;
    text.append(block, static_cast<size_t>(got));
  }
  HubRequest request;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  std::istringstream(line) >> request.method >> request.path;
  while (std::getline(lines, line) && line != "\r") {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string name = line.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    request.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
  }

  Handler handler;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    const auto at = handlers_.find(request.path);
    if (at != handlers_.end()) handler = at->second;
  }
  const HubReply reply =
      handler ? handler(request) : HubReply{404, {}, R"({"error": "not here"})", {}};
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " Text\r\nConnection: close\r\n";
  head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
  for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
  send_all(connection, head + "\r\n");
  if (request.method != "HEAD")
    send_all(connection, reply.body.substr(0, reply.cut_after.value_or(reply.body.size())));
}

}  // namespace phidias::test
