#include "hub/reference.h"

#include <algorithm>
#include <cctype>

#include "base/ascii.h"
#include "base/try.h"

namespace phidias {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool is_name_char(char c) { return is_word(c) || c == '-' || c == '_' || c == '.'; }

// One component of a repository or revision: the hub's own alphabet, and nothing that a path could
// misread.
bool is_component(std::string_view text) {
  return !text.empty() && text.size() <= 128 && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](std::string_view s) { return name.ends_with(s); });
}

// Whether `selector` stands in `name` as a word of its own: "Q4_K" does in "m-Q4_K.gguf", not in
// "m-Q4_K_M.gguf".
bool has_word(const std::string& name, const std::string& selector) {
  const auto joins = [](char c) { return is_word(c) || c == '_'; };
  for (size_t at = name.find(selector); at != std::string::npos; at = name.find(selector, at + 1)) {
    const size_t end = at + selector.size();
    if ((at == 0 || !joins(name[at - 1])) && (end == name.size() || !joins(name[end]))) return true;
  }
  return false;
}

std::string quoted_list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    if (i > 0) out += ", ";
    out += names[i];
  }
  if (names.size() > kShown) out += " and " + std::to_string(names.size() - kShown) + " more";
  return out;
}

std::vector<std::string> gguf_files(std::span<const std::string> listing) {
  std::vector<std::string> found;
  std::copy_if(listing.begin(), listing.end(), std::back_inserter(found), is_gguf);
  return found;
}

Result<std::vector<std::string>> choose_selected(std::span<const std::string> listing,
                                                 const HubReference& reference) {
  if (std::find(listing.begin(), listing.end(), reference.selector) != listing.end()) {
    return std::vector<std::string>{reference.selector};
  }
  const std::string selector = ascii_lower(reference.selector);
  const std::vector<std::string> ggufs = gguf_files(listing);
  std::vector<std::string> words;
  std::vector<std::string> parts;
  for (const std::string& name : ggufs) {
    const std::string low = ascii_lower(name);
    if (has_word(low, selector)) words.push_back(name);
    if (low.find(selector) != std::string::npos) parts.push_back(name);
  }
  const std::vector<std::string>& matches = words.empty() ? parts : words;
  if (matches.size() == 1) return matches;
  if (matches.size() > 1) {
    return Error{Code::kInvalidArgument,
                 "several files match \"" + reference.selector +
                     "\"; write more of the name: " + quoted_list(matches),
                 {{}, {}, reference.repository}};
  }
  return Error{Code::kNotFound,
               "no file matches \"" + reference.selector + "\"; " +
                   (ggufs.empty() ? "there are no .gguf files"
                                  : "the .gguf files are " + quoted_list(ggufs)),
               {{}, {}, reference.repository}};
}

}  // namespace

bool is_gguf(std::string_view name) { return name.ends_with(".gguf"); }

Result<HubReference> HubReference::parse(std::string_view text) {
  HubReference reference;
  const size_t colon = text.find(':');
  reference.repository = text.substr(0, colon);
  if (colon != std::string_view::npos) reference.selector = text.substr(colon + 1);
  const std::vector<std::string_view> parts = split(reference.repository, '/');
  // Two hyphens separate owner and name in the cache's folder names, so hubs do not allow them.
  const bool plain = parts.size() <= 2 && std::all_of(parts.begin(), parts.end(), is_component) &&
                     reference.repository.find("--") == std::string::npos;
  if (!plain || (colon != std::string_view::npos && !check_file_name(reference.selector).ok())) {
    return Error{Code::kInvalidArgument,
                 "\"" + std::string(text) +
                     "\" is not the name of a model: write owner/name, or owner/name:Q4_K_M "
                     "for one .gguf file",
                 {}};
  }
  return reference;
}

Status check_file_name(std::string_view name) {
  const bool printable = std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\';
  });
  const std::vector<std::string_view> parts = split(name, '/');
  const bool inside = std::none_of(parts.begin(), parts.end(), [](std::string_view part) {
    return part.empty() || part == "." || part == ".." || part.size() > 255;
  });
  if (printable && inside && name.size() <= 1024) return {};
  return Error{
      Code::kCorrupt,
      "the hub lists a file whose name leads out of its repository; nothing was downloaded",
      {{}, {}, std::string(name.substr(0, 100))}};
}

Status check_commit(std::string_view commit) {
  const bool hex = std::all_of(commit.begin(), commit.end(), [](char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0;
  });
  if (hex && (commit.size() == 40 || commit.size() == 64)) return {};
  return Error{Code::kCorrupt, "the hub's answer names no commit", {{}, {}, "/sha"}};
}

Result<std::vector<std::string>> choose_files(std::span<const std::string> listing,
                                              const HubReference& reference) {
  if (!reference.selector.empty()) return choose_selected(listing, reference);

  std::vector<std::string> texts;
  std::vector<std::string> weights;
  std::vector<std::string> other_weights;
  for (const std::string& name : listing) {
    if (name.find('/') != std::string::npos) continue;  // copies for other programs lie in folders
    if (name.ends_with(".safetensors")) {
      (name.starts_with("model") ? weights : other_weights).push_back(name);
    } else if (ends_with_any(name, {".json", ".jinja", ".tiktoken"}) || name == "tokenizer.model") {
      texts.push_back(name);
    }
  }
  if (weights.empty()) weights = other_weights;
  if (!weights.empty()) {
    texts.insert(texts.end(), weights.begin(), weights.end());
    return texts;
  }

  const std::vector<std::string> ggufs = gguf_files(listing);
  if (ggufs.size() == 1) return ggufs;
  if (ggufs.size() > 1) {
    return Error{Code::kInvalidArgument,
                 "holds several .gguf files; choose one as " + reference.repository +
                     ":NAME, where NAME is enough of " + quoted_list(ggufs),
                 {{}, {}, reference.repository}};
  }
  return Error{Code::kNotFound,
               "holds neither .safetensors nor .gguf files; other formats are not read",
               {{}, {}, reference.repository}};
}

}  // namespace phidias
