// tokenizer.json as simdjson's tree, read key by key with the JSON path kept for errors. (The
// configs are small and go through base/json.h; a tokenizer.json has up to 15 MB and is read in a
// tenth of the time this way.)
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "phidias/status.h"

namespace phidias {

class DomReader {
 public:
  DomReader(simdjson::dom::element element, std::string path)
      : element_(element), path_(std::move(path)) {}

  Error error(Code code, std::string message) const {
    return {code, std::move(message), {{}, {}, path_}};
  }
  const simdjson::dom::element& element() const { return element_; }

  // Null and absent are the same.
  bool has(std::string_view key) const {
    simdjson::dom::element found;
    return element_[key].get(found) == simdjson::SUCCESS && !found.is_null();
  }
  Result<DomReader> child(std::string_view key) const {
    simdjson::dom::element found;
    if (element_[key].get(found) != simdjson::SUCCESS)
      return at(key).error(Code::kCorrupt, "is missing");
    return DomReader(found, at(key).path_);
  }
  Result<std::string_view> text() const {
    std::string_view found;
    if (element_.get(found) != simdjson::SUCCESS) return error(Code::kCorrupt, "must be a string");
    if (!is_valid_utf8(found)) return error(Code::kCorrupt, "holds half of a surrogate pair");
    return found;
  }
  Result<std::string_view> string(std::string_view key) const {
    auto found = child(key);
    if (!found.ok()) return std::move(found).error();
    return found->text();
  }
  Result<bool> flag(std::string_view key, bool fallback) const {
    if (!has(key)) return fallback;
    bool found = false;
    if (element_[key].get(found) != simdjson::SUCCESS)
      return at(key).error(Code::kCorrupt, "must be true or false");
    return found;
  }
  Result<uint64_t> whole_number(std::string_view key) const {
    uint64_t found = 0;
    if (element_[key].get(found) != simdjson::SUCCESS) {
      return at(key).error(Code::kCorrupt, "must be a whole number that is not negative");
    }
    return found;
  }
  // The entries of a list; none where it is absent.
  Result<std::vector<DomReader>> list(std::string_view key) const {
    std::vector<DomReader> entries;
    if (!has(key)) return entries;
    simdjson::dom::array found;
    if (element_[key].get(found) != simdjson::SUCCESS)
      return at(key).error(Code::kCorrupt, "must be a list");
    for (const simdjson::dom::element entry : found) {
      entries.emplace_back(entry, at(key).path_ + "/" + std::to_string(entries.size()));
    }
    return entries;
  }

 private:
  DomReader at(std::string_view key) const { return {element_, path_ + "/" + std::string(key)}; }

  simdjson::dom::element element_;
  std::string path_;
};

}  // namespace phidias
