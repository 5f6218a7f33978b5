#include "kernels/generic/attention.h"

#include "kernels/avx2/vec.h"
#include "kernels/generic/attention_exact.h"
#include "kernels/isa.h"
#include "kernels/x86/fill.h"

namespace phidias::avx2 {
namespace {

using namespace x86;

void attention_f32(const AttentionArgs& args) {
  generic::attention<Vec, generic::Stored<Vec::F32Rows, false>>(args, args.head_dim * 4);
}
void attention_f16(const AttentionArgs& args) {
  generic::attention<Vec, generic::Stored<Vec::F16Rows, false>>(args, args.head_dim * 2);
}
void attention_bf16(const AttentionArgs& args) {
  generic::attention<Vec, generic::Stored<Vec::BF16Rows, false>>(args, args.head_dim * 2);
}
void attention_q8(const AttentionArgs& args) {
  const size_t bytes = (args.head_dim + 3) / 4 * 4 + sizeof(float);
  generic::attention<Vec, generic::Stored<Vec::Int8Rows, true>>(args, bytes);
}

}  // namespace

void fill_attention(KernelTable& table) {
  table.attention_exact = generic::attention_exact<Vec>;
  table.attention[kKvAt<KvType::kF32>] = attention_f32;
  table.attention[kKvAt<KvType::kF16>] = attention_f16;
  table.attention[kKvAt<KvType::kBF16>] = attention_bf16;
  table.attention[kKvAt<KvType::kQ8>] = attention_q8;
}

}  // namespace phidias::avx2
