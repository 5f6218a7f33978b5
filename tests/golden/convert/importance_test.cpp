// Importance matrices: what enters every matrix, against the reference's own values; in and out of
// files; and what quantization makes of it.
#include "phidias/importance.h"

#include <gtest/gtest.h>

#include <numeric>

#include "formats/checkpoint.h"
#include "phidias/convert.h"
#include "quant/format.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

class ImportanceOfMini : public testing::Test {
 protected:
  void SetUp() override {
    source_ = test::reference("models/mini-4k");
    values_ = source_ / "values/len24.safetensors";
    PHIDIAS_NEEDS_REFERENCE(values_);
    auto model = Model::load(source_);
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    auto engine = Engine::create(*model, {.numerics = Numerics::kExact});
    ASSERT_TRUE(engine.ok()) << engine.error().to_string();
    expected_ = test::read_tensors(values_);
    for (const int64_t id : expected_.integers.at("input_ids"))
      ids_.push_back(static_cast<TokenId>(id));
    auto collected = collect_importance(**engine, ids_, {.window = 24});
    ASSERT_TRUE(collected.ok()) << collected.error().to_string();
    importance_ = std::move(*collected);
  }

  fs::path source_, values_;
  test::TensorMap expected_;
  std::vector<TokenId> ids_;
  Importance importance_;
};

TEST_F(ImportanceOfMini, IsTheMeanSquareOfWhatEntersEachMatrix) {
  EXPECT_EQ(importance_.tokens, 24U);
  const std::pair<const char*, const char*> pairs[] = {
      {"blk.0.attn_qkv.weight", "layers.0.attention_norm_output"},
      {"blk.1.attn_output.weight", "layers.1.attention_premix"},
      {"blk.1.ffn_up.weight", "layers.1.mlp_input"},
      {"blk.0.ffn_down.weight", "layers.0.mlp_neurons"},
      {"output.weight", "final_norm_output"}};
  for (const auto& [tensor, value] : pairs) {
    ASSERT_TRUE(importance_.mean_squares.contains(tensor)) << tensor;
    if (!expected_.floats.contains(value)) continue;  // not stored for every layer
    const std::vector<float>& rows = expected_.floats.at(value);
    const std::vector<float>& means = importance_.mean_squares.at(tensor);
    for (size_t i = 0; i < means.size(); ++i) {
      double sum = 0;
      for (size_t at = i; at < rows.size(); at += means.size())
        sum += static_cast<double>(rows[at]) * static_cast<double>(rows[at]);
      EXPECT_NEAR(static_cast<double>(means[i]), sum / 24, 1e-4 * (sum / 24) + 1e-7) << tensor;
    }
  }
}

TEST_F(ImportanceOfMini, GoesThroughAFile) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "i.gguf";
  ASSERT_TRUE(save_importance(importance_, file).ok());
  const auto again = load_importance(file);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->tokens, importance_.tokens);
  ASSERT_EQ(again->mean_squares.size(), importance_.mean_squares.size());
  for (const auto& [name, means] : importance_.mean_squares) {
    for (size_t i = 0; i < means.size(); ++i)
      EXPECT_FLOAT_EQ(again->mean_squares.at(name)[i], means[i]) << name;
  }
}

TEST_F(ImportanceOfMini, OfAnotherModelIsRefused) {
  auto other = std::make_shared<Importance>();
  other->mean_squares["blk.0.attn_qkv.weight"] = {1, 2, 3};
  const test::TemporaryFolder folder;
  auto report =
      write_gguf(source_, folder.path() / "m.gguf", {.recipe = "q4_0", .importance = other});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  other->mean_squares.clear();
  other->mean_squares["vision.weight"] = {1};
  report = write_gguf(source_, folder.path() / "m.gguf", {.recipe = "q4_0", .importance = other});
  ASSERT_FALSE(report.ok());
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// The error of each column's weights, weighed by its importance, is what the choice makes smaller.
TEST_F(ImportanceOfMini, MakesTheWeighedErrorSmaller) {
  const test::TemporaryFolder folder;
  auto importance = std::make_shared<Importance>(importance_);
  // A few columns that matter far more than the rest.
  for (auto& [name, means] : importance->mean_squares) {
    for (size_t i = 0; i < means.size(); i += 16) means[i] *= 100;
  }
  const auto error_of = [&](const fs::path& file) {
    const auto before = Checkpoint::open(source_);
    const auto after = Checkpoint::open(file);
    EXPECT_TRUE(before.ok() && after.ok());
    const auto find = [](const Checkpoint& checkpoint, std::string_view name) {
      for (const TensorEntry& tensor : checkpoint.tensors.tensors) {
        if (tensor.name == name) return tensor;
      }
      ADD_FAILURE() << name;
      return TensorEntry{};
    };
    const TensorEntry floats = find(*before, "model.layers.0.mlp.gate_up_proj.weight");
    const TensorEntry coded = find(*after, "blk.0.ffn_up.weight");
    EXPECT_EQ(coded.format, Format::kQ4);
    const size_t cols = floats.shape[1];
    std::vector<float> x(cols), y(cols);
    double error = 0;
    for (size_t row = 0; row < floats.shape[0]; ++row) {
      format_row(floats.format).decode_row(floats.data, row, x.data(), cols);
      format_row(coded.format).decode_row(coded.data, row, y.data(), cols);
      for (size_t i = 0; i < cols; ++i) {
        const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
        error += d * d * static_cast<double>(importance->mean_squares.at(coded.name)[i]);
      }
    }
    return error;
  };
  const fs::path plain = folder.path() / "plain.gguf";
  const fs::path weighed = folder.path() / "weighed.gguf";
  ASSERT_TRUE(write_gguf(source_, plain, {.recipe = "q4"}).ok());
  ASSERT_TRUE(write_gguf(source_, weighed, {.recipe = "q4", .importance = importance}).ok());
  EXPECT_LT(error_of(weighed), error_of(plain));
}

}  // namespace
}  // namespace phidias
