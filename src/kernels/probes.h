// What this machine can do at most, measured by loops that do nothing else: the limits that
// benchmarks hold their figures against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace phidias {

// One way of reading memory. Which is fastest differs from machine to machine and from hour to
// hour: measure all, take the best.
struct ReadPattern {
  std::string_view name;
  // Reads [data, data + bytes) once, bytes a multiple of 4096; the result is there so that nothing
  // is optimised away.
  uint64_t (*read)(const std::byte* data, size_t bytes);
};

// A loop of independent multiply-adds on registers.
struct PeakProbe {
  std::string_view name;        // of the instructions
  double operations_per_round;  // one multiply-add counts as two
  uint64_t (*run)(size_t rounds);
};

struct MachineProbes {
  std::span<const ReadPattern> reads;
  PeakProbe floats;    // f32
  PeakProbe integers;  // u8 x s8 into int32, as the kernels of this instruction set do it
};

// The probes for the best kernel table of this CPU, or for the named one ("avx2"); the plain ones
// where a table has none of its own.
const MachineProbes& machine_probes(std::string_view table = {});

namespace scalar {
extern const MachineProbes kProbes;
}
#ifdef PHIDIAS_ISA_AVX2
namespace avx2 {
extern const MachineProbes kProbes;
}
#endif
#ifdef PHIDIAS_ISA_AVX512
namespace avx512_vnni {
extern const MachineProbes kProbes;
}
#endif
#ifdef PHIDIAS_ISA_NEON
namespace neon {
extern const MachineProbes kProbes;
}
#endif
#ifdef PHIDIAS_ISA_NEON_DOTPROD
namespace neon_dotprod {
extern const MachineProbes kProbes;
}
#endif
#ifdef PHIDIAS_ISA_NEON_I8MM
namespace neon_i8mm {
extern const MachineProbes kProbes;
}
#endif

}  // namespace phidias
