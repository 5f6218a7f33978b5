// The value types of the safetensors format.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace phidias {

// Bits of one value ("F32" -> 32, "F4" -> 4); none for a dtype that the format does not know.
std::optional<uint64_t> safetensors_bits(std::string_view dtype);

}  // namespace phidias
