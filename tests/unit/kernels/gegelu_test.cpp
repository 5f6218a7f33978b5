#include "kernel_test.h"

namespace phidias::test {
namespace {

using Gegelu = EachTable;
PHIDIAS_FOR_EACH_TABLE(Gegelu);

std::vector<float> activated(const KernelTable& table, std::span<const float> branches,
                             float limit) {
  const GuardedArray<float> guarded(branches);
  GuardedArray<float> y(branches.size() / 2);
  table.gegelu(guarded.data(), limit, y.data(), y.size());
  return {y.span().begin(), y.span().end()};
}

TEST_P(Gegelu, EveryLengthGivesTheScalarTablesBits) {
  for (const size_t n : {1U, 2U, 7U, 8U, 9U, 15U, 16U, 24U, 112U, 1000U}) {
    const std::vector<float> branches = normal_floats(2 * n, static_cast<uint32_t>(n), 3);
    ASSERT_TRUE(same_bits(activated(table(), branches, 2.0F), activated(scalar(), branches, 2.0F)))
        << n;
  }
}

TEST_P(Gegelu, ALimitIsReachedNotPassed) {
  const std::vector<float> at_limit = activated(table(), std::vector<float>{2.0F, 2.0F}, 2.0F);
  EXPECT_EQ(activated(table(), std::vector<float>{2.5F, 7.0F}, 2.0F), at_limit);
  EXPECT_NE(activated(table(), std::vector<float>{1.99F, 2.0F}, 2.0F), at_limit);
  // The gate has no lower limit.
  EXPECT_NE(activated(table(), std::vector<float>{-3.0F, 0.0F}, 2.0F),
            activated(table(), std::vector<float>{-2.0F, 0.0F}, 2.0F));
}

}  // namespace
}  // namespace phidias::test
