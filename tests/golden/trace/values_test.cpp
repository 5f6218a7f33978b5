// Every value of every layer against the reference implementation's.
#include "trace_case.h"

namespace phidias {
namespace {

// Of a tensor's largest entry; probabilities have no scale of their own. Two orders of summation
// in float32 are up to 9.9e-6 apart.
constexpr double kTolerance = 2e-5;

using ValuesReference = test::TraceCase;

TEST_P(ValuesReference, EveryStoredValueIsServedUnderItsNameShapeAndNumbers) {
  const auto engine = this->engine();
  size_t compared = 0;
  for (const Json& entry : cases_["values"]) {
    const auto path = folder_ / entry["file"].get<std::string>();
    const auto expected = test::read_tensors(path);
    const auto actual = all_values(*engine, entry["ids"].get<std::vector<TokenId>>());
    for (const auto& [stored, numbers] : expected.floats) {
      // The files leave the page's module names out.
      std::string name = stored;
      for (const ValueInfo& info : value_infos()) {
        if (stored.starts_with("layers.") && stored.ends_with("." + std::string(info.name)))
          name = value_name(info.id, std::stoul(stored.substr(7)));
      }
      const auto at = actual.find(name);
      ASSERT_NE(at, actual.end()) << name;
      EXPECT_EQ(at->second.shape, expected.shapes.at(stored)) << name;
      ASSERT_EQ(at->second.floats.size(), numbers.size()) << name;
      double largest = 0;
      double difference = 0;
      for (size_t i = 0; i < numbers.size(); ++i) {
        const double e = numbers[i];
        const double a = at->second.floats[i];
        if (numbers[i] == std::numeric_limits<float>::lowest()) {
          EXPECT_EQ(at->second.floats[i], numbers[i]) << name << " hidden entry " << i;
          continue;
        }
        largest = std::max(largest, std::abs(e));
        difference = std::max(difference, std::abs(e - a));
        EXPECT_EQ(std::isnan(a), false) << name;
      }
      const bool flat = name.ends_with("probabilities") || name.ends_with("probs");
      EXPECT_LE(difference, kTolerance * (flat ? 1 : largest)) << path.filename() << " " << name;
      ++compared;
    }
    for (const auto& [name, numbers] : expected.integers)
      EXPECT_EQ(actual.at(name).integers, numbers) << name;
  }
  EXPECT_GT(compared, 0U);
}

INSTANTIATE_TEST_SUITE_P(Variants, ValuesReference, testing::ValuesIn(test::kDenseVariants),
                         test::folder_name);
// Scores that blocks hide, rows that lie group by group, branches that alternate.
INSTANTIATE_TEST_SUITE_P(BlockSparse, ValuesReference,
                         testing::Values("phi3small-8k", "phi3small-128k"), test::folder_name);

}  // namespace
}  // namespace phidias
