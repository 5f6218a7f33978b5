#include "kernel_test.h"
#include "support/reference.h"
#include "support/tensors.h"
#include "support/tolerance.h"

namespace phidias::test {
namespace {

using Gegelu = EachTable;
PHIDIAS_FOR_EACH_TABLE(Gegelu);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> activated(const KernelTable& table, std::span<const float> branches,
                             float limit) {
  const GuardedArray<float> guarded(branches);
  GuardedArray<float> y(branches.size() / 2);
  table.gegelu(guarded.data(), limit, y.data(), y.size());
  return {y.span().begin(), y.span().end()};
}

TEST_P(Gegelu, EqualsTheReferenceAtEveryLimitWithInfinitiesAndNan) {
  const auto path = reference("models/phi3small-8k/gegelu.safetensors");
  PHIDIAS_NEEDS_REFERENCE(path);
  const TensorMap tensors = read_tensors(path);
  const std::vector<float>& input = tensors.floats.at("input");
  for (const auto& [name, limit] : {std::pair("limit_20", 20.0F), std::pair("limit_2", 2.0F),
                                    std::pair("no_limit", kInfinity)}) {
    const std::vector<float>& want = tensors.floats.at(name);
    const std::vector<float> got = activated(table(), input, limit);
    ASSERT_TRUE(same_bits(got, activated(scalar(), input, limit))) << name;
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << name << " " << i;
      } else if (std::isinf(want[i])) {
        EXPECT_EQ(got[i], want[i]) << name << " " << i;
      } else {
        // Two evaluations of the same formula, each within a few roundings and an exponential of
        // an argument that is itself rounded: 1.702 * 50 with 2^-24 of relative error.
        EXPECT_NEAR(got[i], want[i], 2 * (gamma(12) + 86 * gamma(1)) * std::fabs(want[i])) << i;
      }
    }
  }
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
