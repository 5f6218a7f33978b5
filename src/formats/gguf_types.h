// The numbers that stand in a GGUF file.
#pragma once

#include <cstdint>
#include <string_view>

namespace phidias {

inline constexpr char kGgufMagic[4] = {'G', 'G', 'U', 'F'};
inline constexpr uint32_t kGgufOldestVersion = 2;  // version 1 had 32-bit counts
inline constexpr uint32_t kGgufNewestVersion = 3;
inline constexpr uint64_t kGgufDefaultAlignment = 32;
inline constexpr uint32_t kGgufMaxDimensions = 4;
inline constexpr uint64_t kGgufMaxKeyBytes = 65535;
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

}  // namespace phidias
