#include "kernels/probes.h"

#include "kernels/table.h"

namespace phidias {
namespace {

uint64_t read_plain(const std::byte* data, size_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  uint64_t sums[8] = {};
  for (size_t i = 0; i < bytes / sizeof(uint64_t); i += 8) {
    for (size_t k = 0; k < 8; ++k) sums[k] += words[i + k];
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

constexpr size_t kChains = 8;

uint64_t float_rounds(size_t rounds) {
  float sums[kChains] = {};
  for (size_t r = 0; r < rounds; ++r) {
    for (float& sum : sums) sum = sum * 0.5F + 1.0F;
  }
  float total = 0;
  for (const float sum : sums) total += sum;
  return static_cast<uint64_t>(total);
}

uint64_t integer_rounds(size_t rounds) {
  uint32_t sums[kChains] = {};
  for (size_t r = 0; r < rounds; ++r) {
    for (size_t k = 0; k < kChains; ++k) sums[k] = sums[k] * 3 + static_cast<uint32_t>(k);
  }
  uint64_t total = 0;
  for (const uint32_t sum : sums) total += sum;
  return total;
}

constexpr ReadPattern kReads[] = {{"plain", read_plain}};

}  // namespace

namespace scalar {
constinit const MachineProbes kProbes = {kReads,
                                         {"multiply and add", 2.0 * kChains, float_rounds},
                                         {"multiply and add", 2.0 * kChains, integer_rounds}};
}

const MachineProbes& machine_probes(std::string_view table) {
  if (table.empty()) table = best_table().name;
#ifdef PHIDIAS_ISA_AVX512
  if (table.starts_with("avx512")) return avx512_vnni::kProbes;
#endif
#ifdef PHIDIAS_ISA_AVX2
  if (table.starts_with("avx2")) return avx2::kProbes;
#endif
#ifdef PHIDIAS_ISA_NEON_I8MM
  if (table == "neon_i8mm") return neon_i8mm::kProbes;
#endif
#ifdef PHIDIAS_ISA_NEON_DOTPROD
  if (table == "neon_dotprod") return neon_dotprod::kProbes;
#endif
#ifdef PHIDIAS_ISA_NEON
  if (table == "neon") return neon::kProbes;
#endif
  return scalar::kProbes;
}

}  // namespace phidias
