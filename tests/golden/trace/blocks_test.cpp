// Which blocks of keys a block-sparse layer sees.
#include "kernels/attention_explicit.h"
#include "trace_case.h"

namespace phidias {
namespace {

using BlocksTrace = test::TraceCase;
INSTANTIATE_TEST_SUITE_P(BlockSparse, BlocksTrace,
                         testing::Values("phi3small-8k", "phi3small-128k"), test::folder_name);

TEST_P(BlocksTrace, VisibleBlocksAreThoseWhoseScoresAreNotHidden) {
  const auto engine = this->engine();
  const auto prompt = ids();
  Trace trace(*engine, prompt, {.generate = 3, .chunk = 7});
  const auto blocks = trace.read(kValues.layers.all().self_attn.visible_blocks);
  const auto scores = trace.read(kValues.layers.all().self_attn.attention_scores);
  const auto traced = run(trace);
  const size_t block = model_->info().sparse_block;
  size_t hidden = 0;
  for (size_t layer = 0; layer < model_->info().num_layers; ++layer) {
    const Tensor& seen = traced.of(blocks.read, layer);
    const Tensor& pattern = traced.of(scores.read, layer);
    const size_t heads = pattern.shape[1];
    const size_t rows = pattern.shape[2];
    ASSERT_EQ(rows, prompt.size() + 2);
    ASSERT_EQ(seen.shape, (std::vector<uint64_t>{1, heads, rows, (rows + block - 1) / block}));
    for (size_t head = 0; head < heads; ++head) {
      for (size_t query = 0; query < rows; ++query) {
        for (size_t key = 0; key < rows; ++key) {
          const size_t row = head * rows + query;
          const bool visible = seen.integers[row * seen.shape[3] + key / block] == 1;
          const bool shown = pattern.floats[row * rows + key] != kHiddenScore;
          ASSERT_EQ(shown, visible && key <= query)
              << "layer " << layer << " head " << head << " query " << query << " key " << key;
          hidden += visible || key > query ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(hidden, 0U);
}

TEST_P(BlocksTrace, PartsOfVisibleBlocksAreParts) {
  const auto engine = this->engine();
  Trace trace(*engine, ids());
  const auto all = trace.read(kValues.layers[0].self_attn.visible_blocks);
  const auto part = trace.read(kValues.layers[0].self_attn.visible_blocks.head(1).at(kLast));
  const auto traced = run(trace);
  const size_t rows = ids().size();
  const size_t blocks = traced[all].shape[3];
  ASSERT_EQ(traced[part].shape, (std::vector<uint64_t>{1, 1, 1, blocks}));
  const auto from = traced[all].integers.begin() + static_cast<ptrdiff_t>((2 * rows - 1) * blocks);
  EXPECT_EQ(traced[part].integers,
            std::vector<int64_t>(from, from + static_cast<ptrdiff_t>(blocks)));
}

}  // namespace
}  // namespace phidias
