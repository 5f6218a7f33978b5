// What this CPU has, as a value.
#pragma once

#include <cstdint>
#include <string>

namespace phidias {

struct CpuFeatures {
  bool avx2 = false;    // with FMA and F16C
  bool avx512 = false;  // F, BW, VL, DQ
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool neon_dotprod = false;
  bool neon_i8mm = false;

  // True if every feature of `needed` is here too.
  bool covers(const CpuFeatures& needed) const;
};

// Asked of the CPU and the operating system once; thread safe.
const CpuFeatures& cpu_features();
// The CPU's own name, for reports.
std::string cpu_name(const char* proc_root = "/proc");

}  // namespace phidias
