#include "base/json.h"

#include <cmath>

#include "base/try.h"

namespace phidias {
namespace {

constexpr int kMaxDepth = 512;
const Json kNull;

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& file) {
  // Depth is bounded before parsing: the library recurses when a value is destroyed.
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) {
        return Error{Code::kCorrupt,
                     "is nested deeper than " + std::to_string(kMaxDepth) + " levels",
                     {file, i, {}}};
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& fault) {
    return Error{
        Code::kCorrupt, "is not valid JSON", {file, fault.byte > 0 ? fault.byte - 1 : 0, {}}};
  } catch (const nlohmann::json::exception&) {
    return Error{Code::kCorrupt, "holds a number that JSON cannot represent", {file, {}, {}}};
  }
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

const Json* JsonReader::find(std::string_view key) const {
  if (!value_->is_object()) return nullptr;
  const auto at = value_->find(std::string(key));
  if (at == value_->end() || at->is_null()) return nullptr;
  return &*at;
}

bool JsonReader::has(std::string_view key) const { return find(key) != nullptr; }

JsonReader JsonReader::child(std::string_view key) const {
  const Json* found = find(key);
  return {found != nullptr ? *found : kNull, file_, path_ + "/" + std::string(key)};
}

Error JsonReader::error(Code code, std::string message, std::string_view key) const {
  std::string path = path_;
  if (!key.empty()) path += "/" + std::string(key);
  return {code, std::move(message), {file_, {}, std::move(path)}};
}

Result<std::optional<uint64_t>> JsonReader::optional_unsigned(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) return std::optional<uint64_t>();
  if (found->is_number_unsigned()) return std::optional<uint64_t>(found->get<uint64_t>());
  if (found->is_number_float()) {
    const double x = found->get<double>();
    if (x >= 0 && x < 1e15 && x == std::floor(x))
      return std::optional<uint64_t>(static_cast<uint64_t>(x));
  }
  return error(Code::kCorrupt,
               "must be a whole number that is not negative, found " + dump_json(*found), key);
}

Result<std::optional<double>> JsonReader::optional_number(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) return std::optional<double>();
  if (!found->is_number())
    return error(Code::kCorrupt, "must be a number, found " + dump_json(*found), key);
  return std::optional<double>(found->get<double>());
}

Result<std::optional<bool>> JsonReader::optional_bool(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) return std::optional<bool>();
  if (!found->is_boolean())
    return error(Code::kCorrupt, "must be true or false, found " + dump_json(*found), key);
  return std::optional<bool>(found->get<bool>());
}

Result<std::optional<std::string>> JsonReader::optional_string(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) return std::optional<std::string>();
  if (!found->is_string())
    return error(Code::kCorrupt, "must be a string, found " + dump_json(*found), key);
  return std::optional<std::string>(found->get<std::string>());
}

Result<std::optional<std::vector<double>>> JsonReader::optional_numbers(
    std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) return std::optional<std::vector<double>>();
  if (!found->is_array()) return error(Code::kCorrupt, "must be a list of numbers", key);
  std::vector<double> numbers;
  for (const Json& entry : *found) {
    if (!entry.is_number()) return error(Code::kCorrupt, "must be a list of numbers", key);
    numbers.push_back(entry.get<double>());
  }
  return std::optional<std::vector<double>>(std::move(numbers));
}

Result<uint64_t> JsonReader::positive(std::string_view key) const {
  PHIDIAS_TRY(const auto found, optional_unsigned(key));
  if (!found) return error(Code::kCorrupt, "is missing", key);
  if (*found == 0) return error(Code::kCorrupt, "must be greater than 0", key);
  return *found;
}

Result<double> JsonReader::number(std::string_view key) const {
  PHIDIAS_TRY(const auto found, optional_number(key));
  if (!found) return error(Code::kCorrupt, "is missing", key);
  return *found;
}

Result<std::string> JsonReader::string(std::string_view key) const {
  PHIDIAS_TRY(auto found, optional_string(key));
  if (!found) return error(Code::kCorrupt, "is missing", key);
  return std::move(*found);
}

}  // namespace phidias
