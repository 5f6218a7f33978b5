#include "base/cpu.h"

#include <fstream>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace phidias {
namespace {

#if defined(__x86_64__) || defined(__i386__)

// Which register state the operating system saves: XCR0.
uint64_t saved_state() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

constexpr bool bit(uint32_t word, int index) { return (word >> index & 1U) != 0; }

// Bit numbers: Intel Software Developer's Manual, volume 2, CPUID.
CpuFeatures detect() {
  CpuFeatures found;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const bool fma = bit(c, 12);
  const bool f16c = bit(c, 29);
  const bool saves_state = bit(c, 27);
  if (!saves_state) return found;
  constexpr uint64_t kYmm = 0x6;
  constexpr uint64_t kZmm = 0xE6;
  const uint64_t state = saved_state();

  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  const uint32_t subleaves = a;
  found.avx2 = (state & kYmm) == kYmm && fma && f16c && bit(b, 5);
  const bool f_dq_bw_vl = bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31);
  found.avx512 = found.avx2 && (state & kZmm) == kZmm && f_dq_bw_vl;
  found.avx512_vnni = found.avx512 && bit(c, 11);
  if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    found.avx512_bf16 = found.avx512 && bit(a, 5);
  }
  return found;
}

#elif defined(__aarch64__) && defined(__linux__)

// Bit numbers: asm/hwcap.h of Linux for arm64.
CpuFeatures detect() {
  CpuFeatures found;
  found.neon_dotprod = (getauxval(AT_HWCAP) >> 20 & 1U) != 0;
  found.neon_i8mm = (getauxval(AT_HWCAP2) >> 13 & 1U) != 0;
  return found;
}

#elif defined(__aarch64__) && defined(__APPLE__)

bool system_says(const char* name) {
  int value = 0;
  size_t size = sizeof(value);
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}

CpuFeatures detect() {
  CpuFeatures found;
  found.neon_dotprod = system_says("hw.optional.arm.FEAT_DotProd");
  found.neon_i8mm = system_says("hw.optional.arm.FEAT_I8MM");
  return found;
}

#else

CpuFeatures detect() { return {}; }

#endif

std::string arm_name(const std::string& implementer, const std::string& part) {
  return "Arm, implementer " + implementer + ", part " + part;
}

}  // namespace

bool CpuFeatures::covers(const CpuFeatures& needed) const {
  const auto has = [](bool here, bool wanted) { return here || !wanted; };
  return has(avx2, needed.avx2) && has(avx512, needed.avx512) &&
         has(avx512_vnni, needed.avx512_vnni) && has(avx512_bf16, needed.avx512_bf16) &&
         has(neon_dotprod, needed.neon_dotprod) && has(neon_i8mm, needed.neon_i8mm);
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::string cpu_name(const char* proc_root) {
  std::ifstream file(std::string(proc_root) + "/cpuinfo");
  std::string implementer;  // Arm's have numbers alone
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) return arm_name(implementer, value);
  }
  return "unknown CPU";
}

}  // namespace phidias
