#include <array>
#include <vector>

#include "kernels/isa.h"
#include "kernels/scalar/scalar.h"
#include "kernels/table.h"

namespace phidias {
namespace {

#ifdef PHIDIAS_ISA_AVX2
void fill_avx2(KernelTable& table) {
  avx2::fill_elementwise(table);
  avx2::fill_kv_store(table);
  avx2::fill_matmul_f32(table);
  avx2::fill_matmul_q8(table);
  avx2::fill_matmul_q4(table);
  avx2::fill_attention(table);
  avx2::fill_gradient(table);
  avx2::fill_layer_norm(table);
  avx2::fill_gegelu(table);
}
#endif

#ifdef PHIDIAS_ISA_AVX512
void fill_avx512_vnni(KernelTable& table) {
  avx512_vnni::fill_matmul_f32(table);
  avx512_vnni::fill_matmul_q8(table);
  avx512_vnni::fill_matmul_q4(table);
  avx512_vnni::fill_attention(table);
  avx512_vnni::fill_gradient(table);
}
#endif

#ifdef PHIDIAS_ISA_NEON
void fill_neon(KernelTable& table) {
  neon::fill_elementwise(table);
  neon::fill_kv_store(table);
  neon::fill_matmul_f32(table);
  neon::fill_matmul_q8(table);
  neon::fill_matmul_q4(table);
  neon::fill_attention(table);
  neon::fill_gradient(table);
  neon::fill_layer_norm(table);
  neon::fill_gegelu(table);
}
#endif

#ifdef PHIDIAS_ISA_NEON_DOTPROD
void fill_neon_dotprod(KernelTable& table) {
  neon_dotprod::fill_matmul_q8(table);
  neon_dotprod::fill_matmul_q4(table);
}
#endif

#ifdef PHIDIAS_ISA_NEON_I8MM
void fill_neon_i8mm(KernelTable& table) {
  neon_i8mm::fill_matmul_q8(table);
  neon_i8mm::fill_matmul_q4(table);
}
#endif

#ifdef PHIDIAS_ISA_AVX512_BF16
void fill_avx512_bf16(KernelTable& table) { avx512_bf16::fill_matmul_bf16(table); }
#endif

// A table of this build: how to turn a copy of the table below it into it. `fill` may use the
// instructions that `required` names, so it is called only where they are.
struct Entry {
  std::string_view name;
  CpuFeatures required;
  void (*fill)(KernelTable&);
};

constexpr Entry kEntries[] = {
    {"scalar", {}, scalar::fill},
#ifdef PHIDIAS_ISA_NEON
    {"neon", {}, fill_neon},
#endif
#ifdef PHIDIAS_ISA_NEON_DOTPROD
    {"neon_dotprod", {.neon_dotprod = true}, fill_neon_dotprod},
#endif
#ifdef PHIDIAS_ISA_NEON_I8MM
    {"neon_i8mm", {.neon_dotprod = true, .neon_i8mm = true}, fill_neon_i8mm},
#endif
#ifdef PHIDIAS_ISA_AVX2
    {"avx2", {.avx2 = true}, fill_avx2},
#endif
#ifdef PHIDIAS_ISA_AVX512
    {"avx512_vnni", {.avx2 = true, .avx512 = true, .avx512_vnni = true}, fill_avx512_vnni},
#endif
#ifdef PHIDIAS_ISA_AVX512_BF16
    {"avx512_bf16",
     {.avx2 = true, .avx512 = true, .avx512_vnni = true, .avx512_bf16 = true},
     fill_avx512_bf16},
#endif
};
constexpr size_t kCount = std::size(kEntries);

struct Tables {
  std::array<KernelTable, kCount> tables = {};
  std::vector<const KernelTable*> compiled;
  std::vector<const KernelTable*> available;

  Tables() {
    KernelTable below = {};
    for (size_t i = 0; i < kCount; ++i) {
      KernelTable& table = tables[i];
      if (cpu_features().covers(kEntries[i].required)) {
        table = below;
        kEntries[i].fill(table);
        available.push_back(&table);
      }
      table.name = kEntries[i].name;
      table.required = kEntries[i].required;
      compiled.push_back(&table);
      if (!available.empty()) below = *available.back();
    }
  }
};

const Tables& tables() {
  static const Tables instance;
  return instance;
}

}  // namespace

std::span<const KernelTable* const> available_tables() { return tables().available; }
std::span<const KernelTable* const> compiled_tables() { return tables().compiled; }
const KernelTable& best_table() { return *tables().available.back(); }

const KernelTable* table_by_name(std::string_view name) {
  for (const KernelTable* table : available_tables()) {
    if (table->name == name) return table;
  }
  return nullptr;
}

}  // namespace phidias
