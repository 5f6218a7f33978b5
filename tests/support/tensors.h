// Tensors of a reference file, decoded to f32 (I64, I32 and I8 ones as integers).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "formats/safetensors.h"

namespace phidias::test {

struct TensorMap {
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<int64_t>> integers;
  std::map<std::string, std::vector<uint64_t>> shapes;
};

inline TensorMap read_tensors(const std::filesystem::path& path) {
  TensorMap map;
  auto file = SafetensorsFile::open(path);
  EXPECT_TRUE(file.ok()) << file.error().to_string();
  if (!file.ok()) return map;
  for (const TensorEntry& tensor : file->tensors) {
    size_t count = 1;
    for (const uint64_t extent : tensor.shape) count *= extent;
    std::vector<float> values(count);
    format_row(tensor.format).decode(tensor.data, values.data(), count);
    map.floats[tensor.name] = std::move(values);
    map.shapes[tensor.name] = tensor.shape;
  }
  // Integer tensors are no number format of weights: they are read from the header here.
  const auto bytes = file->file->bytes();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  auto header =
      parse_json(std::string_view(reinterpret_cast<const char*>(bytes.data()) + 8, length));
  EXPECT_TRUE(header.ok());
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    const std::string dtype = entry["dtype"].get<std::string>();
    if (dtype != "I64" && dtype != "I32" && dtype != "I8") continue;
    const size_t width = dtype == "I64" ? 8 : dtype == "I32" ? 4 : 1;
    const auto begin = entry["data_offsets"][0].get<size_t>();
    const auto end = entry["data_offsets"][1].get<size_t>();
    std::vector<int64_t> values((end - begin) / width);
    for (size_t i = 0; i < values.size(); ++i) {
      const std::byte* at = bytes.data() + 8 + length + begin + i * width;
      int32_t narrow = 0;
      if (width == 8) std::memcpy(&values[i], at, width);
      if (width == 4) std::memcpy(&narrow, at, width);
      if (width == 1) narrow = static_cast<int8_t>(*at);
      if (width < 8) values[i] = narrow;
    }
    map.integers[name] = std::move(values);
  }
  return map;
}

inline Json read_json(const std::filesystem::path& path) {
  auto text = read_text_file(path);
  EXPECT_TRUE(text.ok()) << text.error().to_string();
  auto json = parse_json(text.ok() ? *text : "null", path.string());
  EXPECT_TRUE(json.ok());
  return json.ok() ? *json : Json();
}

// Largest difference between two tensors, in units of max(1, largest entry of the expected / unit).
inline double scaled_distance(std::span<const float> actual, std::span<const float> expected,
                              double unit) {
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    const double d = std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    // NaN counts as a difference, and stays one.
    if (!std::isnan(difference) && !(d <= difference)) difference = d;
  }
  return difference / std::max(1.0, largest / unit);
}

}  // namespace phidias::test
