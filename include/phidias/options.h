// The choices that shape a run, shared by all front ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "phidias/status.h"

namespace phidias {

enum class Numerics : uint8_t {
  kExact,  // every activation in f32, explicit softmax, f32 cache: the reference's mathematics
  kFast,   // whatever is quickest within the stated distance of exact
};

// What happens when a sequence outgrows the original context of a LongRoPE model.
enum class RopeSwitch : uint8_t {
  kReprefill,  // the whole sequence is run again with the long factors, as transformers' generate
               // does
  kKeep,       // new positions use the long factors, cached keys keep their short rotation
  kShort,      // the short factors throughout
  kLong,       // the long factors throughout
};

// By the names of the command line: "exact", "fast"; "reprefill", "keep", "short", "long".
Result<Numerics> numerics_from_name(std::string_view name);
Result<RopeSwitch> rope_switch_from_name(std::string_view name);
std::string_view name_of(Numerics numerics);
std::string_view name_of(RopeSwitch policy);

struct LoadOptions {
  // Type of the weights in memory: "file" (as they lie, mapped), or a number format such as "f32",
  // "bf16", "q8_0", "q4_0" ("q4" is taken as "q4_0"). Anything but "file" makes a converted copy.
  std::string weights = "file";
  size_t threads = 0;  // for the conversion; 0: all physical cores that this process may use
};

struct EngineOptions {
  size_t threads = 0;  // 0: the physical cores that this process may use
  Numerics numerics = Numerics::kFast;
  std::string kv{};  // "f32", "f16", "bf16", "q8"; empty: f16 in fast numerics, f32 in exact
  uint32_t context =
      0;  // positions of the longest sequence; 0: what the model states. More than that is refused
  uint64_t cache_budget =
      0;  // bytes of all key-value pages together; 0: the memory that is free at creation
  uint32_t step_rows =
      512;  // rows of one pass through the weights; longer steps are cut, with the same bits
  uint32_t page_positions =
      64;  // positions of a cache page, 1 to 256; part of what fixes the bits in fast numerics
  // Bytes of the features of images that are kept to be found again.
  uint64_t image_cache = 256U << 20;
  std::string isa{};  // name of a kernel table ("scalar", "avx2", ...); empty: the best of this CPU
};

}  // namespace phidias
