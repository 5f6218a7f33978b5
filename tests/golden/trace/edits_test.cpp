// The reference's edits, given as data.
#include "phidias/edits.h"

#include "trace_case.h"

namespace phidias {
namespace {

// Logits up to 4.3; the reference lies 2e-5 from the exact result.
constexpr double kTolerance = 4e-5;

class EditsReference : public test::TraceCase {
 protected:
  void SetUp() override {
    TraceCase::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (cases_["edits"].empty()) GTEST_SKIP() << "no edits are stored for this variant";
    expected_ = test::read_tensors(folder_ / "edits" / "edits.safetensors").floats;
    ids_ = cases_["edits"]["ids"].get<std::vector<TokenId>>();
  }

  static Edits edits_of(const Json& entry) {
    auto edits = edits_from_json(entry["json"].dump());
    EXPECT_TRUE(edits.ok()) << edits.error().to_string();
    return edits.ok() ? *edits : Edits();
  }

  std::map<std::string, std::vector<float>> expected_;
  std::vector<TokenId> ids_;
};

TEST_P(EditsReference, EveryStoredEditGivesTheReferencesLogits) {
  const auto engine = this->engine();
  size_t compared = 0;
  const auto plain = logits(*engine, ids_);
  for (const Json& entry : cases_["edits"]["cases"]) {
    const auto name = entry["name"].get<std::string>();
    const auto actual = logits(*engine, ids_, edits_of(entry));
    const auto& expected = expected_.at("logits." + name);
    ASSERT_EQ(actual.size(), expected.size());
    EXPECT_LE(test::scaled_distance(actual, expected, 4.0), kTolerance) << name;
    EXPECT_NE(actual, plain) << name;
    const auto unchanged = entry["unchanged_before"].get<size_t>() * engine->vocab();
    EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + static_cast<ptrdiff_t>(unchanged),
                           actual.begin()))
        << name << " changed a position before its own";
    ++compared;
  }
  EXPECT_GT(compared, 10U);
}

TEST_P(EditsReference, ChunksAndGenerationSeeTheSameEdits) {
  const auto engine = this->engine();
  for (const Json& entry : cases_["edits"]["cases"]) {
    const Edits edits = edits_of(entry);
    const auto whole = logits(*engine, ids_, edits);
    for (const uint32_t chunk : {1U, 2U, 3U, 7U})
      EXPECT_EQ(logits(*engine, ids_, edits, {.chunk = chunk}), whole) << entry["name"];
  }
}

TEST_P(EditsReference, JsonComesBackAsItWentIn) {
  for (const Json& entry : cases_["edits"]["cases"]) {
    const Edits edits = edits_of(entry);
    const auto json = to_json(edits);
    ASSERT_TRUE(json.ok()) << json.error().to_string();
    const auto again = edits_from_json(*json);
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_EQ(*again, edits) << *json;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EditsReference, testing::ValuesIn(test::kDenseVariants),
                         test::folder_name);

}  // namespace
}  // namespace phidias
