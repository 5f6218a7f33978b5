// The JSON library with our limits and our errors: a parse error has a file and a byte, a missing
// or wrong value has a JSON path, and no exception leaves this file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/status.h"

namespace phidias {

using Json = nlohmann::ordered_json;  // key order matters: tools and schemas are printed as they
                                      // were written

// Errors: kCorrupt with the byte of the first fault, or for nesting deeper than 512.
//   file    named in errors; may be empty
Result<Json> parse_json(std::string_view text, const std::string& file = {});

// JSON text of any value; bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string dump_json(const Json& value, int indent = -1);

// An object read key by key, with the file and the path so far kept for errors.
class JsonReader {
 public:
  JsonReader(const Json& value, std::string file, std::string path = {})
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const Json& value() const { return *value_; }
  // Null and absent are the same here.
  bool has(std::string_view key) const;
  // The object under `key`; an empty reader (has() is false for all) where it is absent or null.
  JsonReader child(std::string_view key) const;

  // Absent or null gives nullopt; a value of another type is an error.
  Result<std::optional<uint64_t>> optional_unsigned(std::string_view key) const;
  Result<std::optional<double>> optional_number(std::string_view key) const;
  Result<std::optional<bool>> optional_bool(std::string_view key) const;
  Result<std::optional<std::string>> optional_string(std::string_view key) const;
  Result<std::optional<std::vector<double>>> optional_numbers(std::string_view key) const;
  // As above, but absent is an error, and so is 0.
  Result<uint64_t> positive(std::string_view key) const;
  Result<double> number(std::string_view key) const;
  Result<std::string> string(std::string_view key) const;

  Error error(Code code, std::string message, std::string_view key = {}) const;

 private:
  const Json* find(std::string_view key) const;

  const Json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace phidias
