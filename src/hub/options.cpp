#include <algorithm>
#include <cstdlib>

#include "base/mapped_file.h"
#include "phidias/hub.h"

namespace phidias {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// A leading "~/" as shells understand it: the variables are often set in files that no shell reads.
std::filesystem::path expanded(const std::string& path) {
  if (path.starts_with("~/")) return std::filesystem::path(environment("HOME")) / path.substr(2);
  return path;
}

// A token is one line of printable characters; anything else would not be one, but could forge a
// header.
std::string cleaned_token(std::string token) {
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' '))
    token.pop_back();
  const bool plain =
      std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  return plain ? token : "";
}

}  // namespace

HubOptions HubOptions::from_environment() {
  HubOptions options;
  std::string endpoint = environment("HF_ENDPOINT");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!endpoint.empty()) options.endpoint = endpoint;

  std::filesystem::path home = expanded(environment("HF_HOME"));
  if (home.empty()) {
    const std::filesystem::path caches = expanded(environment("XDG_CACHE_HOME"));
    home = (caches.empty() ? expanded("~/.cache") : caches) / "huggingface";
  }
  const std::filesystem::path cache = expanded(environment("HF_HUB_CACHE"));
  options.cache = cache.empty() ? home / "hub" : cache;

  options.token = cleaned_token(environment("HF_TOKEN"));
  if (options.token.empty()) {
    const std::filesystem::path named = expanded(environment("HF_TOKEN_PATH"));
    Result<std::string> text = read_text_file(named.empty() ? home / "token" : named, 4096);
    if (text.ok()) options.token = cleaned_token(*text);
  }

  const std::string offline = environment("HF_HUB_OFFLINE");
  options.offline = offline == "1" || offline == "true" || offline == "TRUE" || offline == "yes" ||
                    offline == "on";
  return options;
}

}  // namespace phidias
