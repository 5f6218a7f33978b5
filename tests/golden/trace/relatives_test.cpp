// What the models with biases and centred norms add to a logit.
#include <cmath>

#include "api/model_impl.h"
#include "phidias/lens.h"
#include "trace_case.h"

namespace phidias {
namespace {

using RelativesTrace = test::TraceCase;
INSTANTIATE_TEST_SUITE_P(Biased, RelativesTrace,
                         testing::Values("phi3small-8k", "phi3small-128k", "phi3small-vocab",
                                         "phimoe"),
                         test::folder_name);

// T20 and I22.
TEST_P(RelativesTrace, PartsOfALogitAndItsBiasesAddUpToIt) {
  const auto engine = this->engine();
  for (const bool by_heads : {true, false}) {
    for (const std::optional<TokenId> other : {std::optional<TokenId>(), {22}}) {
      const auto parts = direct_attribution(*engine, ids(), 11, other, by_heads);
      ASSERT_TRUE(parts.ok()) << parts.error().to_string();
      EXPECT_NEAR(parts->total, parts->logit, 1e-5 * std::max(1.0, std::abs(parts->logit)));
      const auto value_of = [&](std::string_view name) {
        const auto part = std::find_if(parts->parts.begin(), parts->parts.end(),
                                       [&](const auto& one) { return one.name == name; });
        return part == parts->parts.end() ? 0.0 : part->value;
      };
      EXPECT_NE(value_of("norm.bias"), 0);
      EXPECT_EQ(value_of("layers.0.self_attn.o_proj.bias") != 0, by_heads);
    }
  }
}

TEST_P(RelativesTrace, AMaskedTokensLogitHasNoParts) {
  const std::vector<int32_t>& masked = model_->impl().spec.masked_ids;
  if (masked.empty()) GTEST_SKIP() << "no token is masked";
  const auto engine = this->engine();
  EXPECT_FALSE(direct_attribution(*engine, ids(), masked.front()).ok());
}

}  // namespace
}  // namespace phidias
