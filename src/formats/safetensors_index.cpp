#include "formats/safetensors_index.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "base/mapped_file.h"
#include "base/try.h"

namespace phidias {
namespace {

// A name that cannot lead out of the folder.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// Some writers count in floats.
std::optional<uint64_t> whole_number(simdjson::dom::element value) {
  uint64_t whole = 0;
  if (value.get(whole) == simdjson::SUCCESS) return whole;
  double real = 0;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.get(real) != simdjson::SUCCESS || !(real >= 0 && real <= kExact)) return std::nullopt;
  whole = static_cast<uint64_t>(real);
  if (static_cast<double>(whole) != real) return std::nullopt;
  return whole;
}

}  // namespace

Result<SafetensorsIndex> SafetensorsIndex::open(const std::filesystem::path& path) {
  PHIDIAS_TRY(const std::string text, read_text_file(path));
  return parse(text, path.string());
}

Result<SafetensorsIndex> SafetensorsIndex::parse(std::string_view text, const std::string& name) {
  const auto corrupt = [&](std::string message, std::string item = {}) {
    return Error{Code::kCorrupt, std::move(message), {name, {}, std::move(item)}};
  };
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  const simdjson::padded_string padded(text);
  const auto failure = parser.parse(padded).get(root);
  if (failure != simdjson::SUCCESS) {
    return corrupt(fmt::format("is no JSON object: {}", simdjson::error_message(failure)));
  }
  SafetensorsIndex index;
  simdjson::dom::object weight_map;
  if (root["weight_map"].get(weight_map) != simdjson::SUCCESS) {
    return corrupt("must be an object that names a shard for every tensor", "/weight_map");
  }
  for (const auto& [tensor, value] : weight_map) {
    const auto item = [name_of_tensor = tensor] {
      return fmt::format("/weight_map/{}", name_of_tensor);
    };
    std::string_view shard;
    if (value.get(shard) != simdjson::SUCCESS)
      return corrupt("must be the name of a shard", item());
    if (!is_plain_file_name(shard)) {
      return corrupt(
          fmt::format("must name a file of the same folder, and \"{}\" is no plain file name",
                      shard),
          item());
    }
    if (!index.weight_map.emplace(tensor, shard).second) return corrupt("is listed twice", item());
    index.shards.emplace(shard);
  }
  simdjson::dom::element total;
  if (root["metadata"]["total_size"].get(total) == simdjson::SUCCESS) {
    index.total_size = whole_number(total);
    if (!index.total_size) return corrupt("must be a number of bytes", "/metadata/total_size");
  }
  return index;
}

}  // namespace phidias
