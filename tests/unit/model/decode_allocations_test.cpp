#include "model/decoder.h"
#include "support/checkpoint_model.h"
#include "unit/engine/allocation_count.h"

namespace phidias::test {
namespace {

// One position after another; the buffers are there after the first two.
TEST(DecodeStep, AllocatesNothing) {
  const CheckpointModel model = read_model(PHIDIAS_TEST_DATA "/models/mini-4k");
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const KvLayout layout(model.spec, KvType::kF32, 64);
    AlignedBuffer<std::byte> page(layout.page_bytes());
    std::byte* const pages[] = {page.data()};
    ThreadPool pool(2);
    RunContext context(best_table(), pool, numerics);
    Decoder decoder(model.spec, model.weights, layout);
    std::vector<float> logits(model.spec.vocab);
    const uint32_t output = 0;
    size_t before = 0;
    for (uint32_t position = 0; position < 6; ++position) {
      if (position == 2) before = allocation_count();
      const int32_t token = 5;
      const BatchRun run{.tokens = {&token, 1}, .position = position, .cache = {pages}};
      decoder.forward({{&run, 1}, {&output, 1}}, context);
      decoder.logits(0, 1, logits.data(), context);
    }
    EXPECT_EQ(allocation_count(), before);
  }
}

}  // namespace
}  // namespace phidias::test
