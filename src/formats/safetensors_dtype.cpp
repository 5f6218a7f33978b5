#include "formats/safetensors_dtype.h"

#include <algorithm>
#include <array>

namespace phidias {
namespace {

struct Dtype {
  std::string_view name;
  uint64_t bits;
};

constexpr std::array kDtypes = {
    Dtype{"F4", 4},      Dtype{"F6_E2M3", 6}, Dtype{"F6_E3M2", 6},  //
    Dtype{"BOOL", 8},    Dtype{"U8", 8},      Dtype{"I8", 8},       //
    Dtype{"F8_E5M2", 8}, Dtype{"F8_E4M3", 8}, Dtype{"F8_E8M0", 8},  //
    Dtype{"I16", 16},    Dtype{"U16", 16},    Dtype{"F16", 16},    Dtype{"BF16", 16},
    Dtype{"I32", 32},    Dtype{"U32", 32},    Dtype{"F32", 32},  //
    Dtype{"I64", 64},    Dtype{"U64", 64},    Dtype{"F64", 64},    Dtype{"C64", 64},
};

}  // namespace

std::optional<uint64_t> safetensors_bits(std::string_view dtype) {
  const auto at = std::find_if(kDtypes.begin(), kDtypes.end(),
                               [&](const Dtype& known) { return known.name == dtype; });
  if (at == kDtypes.end()) return std::nullopt;
  return at->bits;
}

}  // namespace phidias
