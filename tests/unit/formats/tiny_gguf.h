// A small GGUF file with every kind of value; tests/data/formats/tiny.gguf and the seed of the fuzz
// target are what the writer makes of it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "formats/gguf_writer.h"

namespace phidias::test {

inline GgufHeader tiny_gguf_header() {
  GgufHeader header;
  header.add("general.architecture", "phi3");
  header.add("kind.uint8", uint8_t{200});
  header.add("kind.int8", int8_t{-100});
  header.add("kind.uint16", uint16_t{60000});
  header.add("kind.int16", int16_t{-30000});
  header.add("kind.uint32", uint32_t{4000000000});
  header.add("kind.int32", int32_t{-2000000000});
  header.add("kind.uint64", UINT64_MAX);
  header.add("kind.int64", INT64_MIN);
  header.add("kind.float32", 0.5F);
  header.add("kind.float64", 0.1);
  header.add("kind.bool", true);
  header.add("kind.string", std::string("line\nwith \xE2\x82\xAC"));
  const std::vector<std::string> texts = {"<unk>", "", "\xE2\x96\x81the"};
  header.add_array("kind.strings", texts);
  header.add_array("kind.floats", std::span<const float>(std::array{-1.0F, 2.5F}));
  header.add_array("kind.signed", std::span<const int32_t>(std::array{1, -2, 3}));
  header.add_array("kind.unsigned",
                   std::span<const uint64_t>(std::array{uint64_t{1}, uint64_t{2}}));
  header.add_array("kind.bools", std::span<const bool>(std::array{true, false, true}));
  header.add_array("kind.nothing", std::span<const uint8_t>());
  header.add_tensor("embedding", Format::kF16, std::array{uint64_t{3}, uint64_t{4}});
  header.add_tensor("norm", Format::kF32, std::array{uint64_t{5}});
  header.add_tensor("weight", Format::kQ8_0, std::array{uint64_t{2}, uint64_t{32}});
  return header;
}

// Data of tensor `i`: its bytes count up from i.
inline std::vector<std::byte> tiny_gguf_data(const GgufHeader& header, size_t i) {
  std::vector<std::byte> data(header.tensor_bytes()[i]);
  for (size_t at = 0; at < data.size(); ++at) data[at] = static_cast<std::byte>((at + i) & 0xFFU);
  return data;
}

}  // namespace phidias::test
