// Typed look-ups in the metadata of a GGUF file.
#include "formats/gguf.h"

#include <fmt/format.h>

#include <limits>

#include "base/try.h"

namespace phidias {
namespace {

std::string_view kind_of(const GgufValue::Array& array) {
  switch (array.index()) {
    case 0:
      return "an array of unsigned numbers";
    case 1:
      return "an array of signed numbers";
    case 2:
      return "an array of floats";
    case 3:
      return "an array of bools";
    default:
      return "an array of strings";
  }
}

std::string_view kind_of(const GgufValue& value) {
  switch (value.value.index()) {
    case 0:
      return "an unsigned number";
    case 1:
      return "a signed number";
    case 2:
      return "a float";
    case 3:
      return "a bool";
    case 4:
      return "a string";
    default:
      return kind_of(std::get<GgufValue::Array>(value.value));
  }
}

Error wrong_kind(const GgufFile& file, std::string_view key, std::string_view wanted,
                 std::string_view found) {
  return {Code::kCorrupt,
          fmt::format("must be {}, found {}", wanted, found),
          {file.name, {}, std::string(key)}};
}

constexpr std::string_view kWhole = "a whole number that is not negative";
constexpr std::string_view kWholes = "an array of whole numbers below 2^63";

}  // namespace

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto at = index_.find(std::string(key));
  return at == index_.end() ? nullptr : &metadata[at->second].second;
}

Result<std::optional<uint64_t>> GgufFile::optional_unsigned(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<uint64_t>();
  if (const auto* number = std::get_if<uint64_t>(&found->value)) return std::optional(*number);
  if (const auto* number = std::get_if<int64_t>(&found->value)) {
    if (*number >= 0) return std::optional(static_cast<uint64_t>(*number));
    return wrong_kind(*this, key, kWhole, std::to_string(*number));
  }
  return wrong_kind(*this, key, kWhole, kind_of(*found));
}

Result<std::optional<double>> GgufFile::optional_number(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<double>();
  if (const auto* number = std::get_if<double>(&found->value)) return std::optional(*number);
  if (const auto* number = std::get_if<uint64_t>(&found->value)) {
    return std::optional(static_cast<double>(*number));
  }
  if (const auto* number = std::get_if<int64_t>(&found->value)) {
    return std::optional(static_cast<double>(*number));
  }
  return wrong_kind(*this, key, "a number", kind_of(*found));
}

Result<std::optional<bool>> GgufFile::optional_bool(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<bool>();
  if (const auto* flag = std::get_if<bool>(&found->value)) return std::optional(*flag);
  return wrong_kind(*this, key, "a bool", kind_of(*found));
}

Result<std::optional<std::string>> GgufFile::optional_string(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<std::string>();
  if (const auto* text = std::get_if<std::string>(&found->value)) return std::optional(*text);
  return wrong_kind(*this, key, "a string", kind_of(*found));
}

Result<const std::vector<std::string>*> GgufFile::optional_strings(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return static_cast<const std::vector<std::string>*>(nullptr);
  if (const auto* array = std::get_if<GgufValue::Array>(&found->value)) {
    if (const auto* strings = std::get_if<std::vector<std::string>>(array)) return strings;
  }
  return wrong_kind(*this, key, "an array of strings", kind_of(*found));
}

Result<std::optional<std::vector<int64_t>>> GgufFile::optional_integers(
    std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<std::vector<int64_t>>();
  if (const auto* array = std::get_if<GgufValue::Array>(&found->value)) {
    if (const auto* values = std::get_if<std::vector<int64_t>>(array))
      return std::optional(*values);
    if (const auto* values = std::get_if<std::vector<uint64_t>>(array)) {
      std::vector<int64_t> integers;
      integers.reserve(values->size());
      for (const uint64_t value : *values) {
        if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
          return wrong_kind(*this, key, kWholes, std::to_string(value));
        }
        integers.push_back(static_cast<int64_t>(value));
      }
      return std::optional(std::move(integers));
    }
  }
  return wrong_kind(*this, key, kWholes, kind_of(*found));
}

Result<std::optional<std::vector<double>>> GgufFile::optional_numbers(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<std::vector<double>>();
  if (const auto* array = std::get_if<GgufValue::Array>(&found->value)) {
    if (const auto* values = std::get_if<std::vector<double>>(array)) return std::optional(*values);
    if (const auto* values = std::get_if<std::vector<int64_t>>(array)) {
      return std::optional(std::vector<double>(values->begin(), values->end()));
    }
    if (const auto* values = std::get_if<std::vector<uint64_t>>(array)) {
      return std::optional(std::vector<double>(values->begin(), values->end()));
    }
  }
  return wrong_kind(*this, key, "an array of numbers", kind_of(*found));
}

}  // namespace phidias
