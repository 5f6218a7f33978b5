// Checkpoints written and read again: folder, GGUF and back are the same model.
#include "phidias/convert.h"

#include <gtest/gtest.h>

#include "formats/checkpoint.h"
#include "phidias/engine.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

// Logits of a fixed prompt in exact numerics.
std::vector<float> logits_of(const fs::path& path, const char* weights = "file") {
  auto model = Model::load(path, {.weights = weights});
  EXPECT_TRUE(model.ok()) << model.error().to_string();
  if (!model.ok()) return {};
  auto engine = Engine::create(*model, {.threads = 1, .numerics = Numerics::kExact});
  EXPECT_TRUE(engine.ok()) << engine.error().to_string();
  constexpr uint32_t kTokens = 20;
  const SequenceId sequence = (*engine)->open({.prompt_tokens = kTokens});
  std::vector<Row> rows;
  for (uint32_t i = 0; i < kTokens; ++i) {
    rows.push_back(
        {static_cast<TokenId>((i * 7 + 3) % ((*engine)->vocab() - 1)), sequence, i, true});
  }
  std::vector<float> all;
  const Status status = (*engine)->step(rows, [&](size_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
  });
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  return all;
}

void expect_ok(const Result<ConversionReport>& report) {
  ASSERT_TRUE(report.ok()) << report.error().to_string();
}

std::map<std::string, std::pair<Format, std::string>> tensors_of(const fs::path& path) {
  std::map<std::string, std::pair<Format, std::string>> all;
  const auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  if (!checkpoint.ok()) return all;
  for (const TensorEntry& tensor : checkpoint->tensors.tensors) {
    // A table that old folders hold and nobody reads: its type follows the export's.
    if (tensor.name.ends_with(".rotary_emb.inv_freq")) continue;
    all[tensor.name] = {tensor.format,
                        std::string(reinterpret_cast<const char*>(tensor.data), tensor.bytes)};
  }
  return all;
}

class ConvertFolder : public testing::TestWithParam<const char*> {};

TEST_P(ConvertFolder, ToGgufAndBackGivesTheSameBytesAndLogits) {
  const fs::path source = test::reference(fs::path("models") / GetParam());
  PHIDIAS_NEEDS_REFERENCE(source);
  const test::TemporaryFolder folder;
  const fs::path gguf = folder.path() / "model.gguf";
  expect_ok(write_gguf(source, gguf));
  // Only LongRoPE's magnitude is rounded to f32 on the way.
  const auto expected = logits_of(source);
  EXPECT_LT(test::scaled_distance(logits_of(gguf), expected, 1.0), 1e-6);

  const auto before = tensors_of(source);
  const bool bf16 = before.begin()->second.first == Format::kBF16;
  const fs::path back = folder.path() / "back";
  expect_ok(export_folder(gguf, back, {.type = bf16 ? "bf16" : "f32", .shard_bytes = 100'000}));
  EXPECT_TRUE(tensors_of(back) == before);  // bytes: nothing to print
  EXPECT_EQ(logits_of(back), expected);
  Json config = test::read_json(source / "config.json");
  Json again = test::read_json(back / "config.json");
  // The old name of LongRoPE, which transformers refuses in the models that it holds.
  if (config["model_type"] == "phi3" && config["rope_scaling"].is_object() &&
      config["rope_scaling"]["type"] == "su")
    config["rope_scaling"]["type"] = "longrope";
  EXPECT_EQ(again, config);
  EXPECT_EQ(test::read_file(back / "generation_config.json"),
            test::read_file(source / "generation_config.json"));
}

INSTANTIATE_TEST_SUITE_P(Tiny, ConvertFolder,
                         testing::Values("mini-4k", "mini-128k", "medium-4k", "medium-128k-su",
                                         "phi-4", "phi-4-mini", "wide-bf16", "phimoe",
                                         "phi3small-8k", "phi3small-128k", "phi3small-vocab",
                                         "phi3-vision"),
                         test::folder_name);

// Rows lie group by group in these files.
TEST(Convert, QuantizedFilesOfModelsThatGgufHasNoLayoutForAreTheFolderQuantizedAtLoad) {
  const fs::path source = test::reference("models/phi3small-8k");
  PHIDIAS_NEEDS_REFERENCE(source);
  const auto expected = logits_of(source, "q8_0");
  const test::TemporaryFolder folder;
  // The random weights of these models are far from Q4's grid.
  for (const auto& [recipe, tolerance] : {std::pair("q8_0", 1e-9), std::pair("q4", 0.75)}) {
    const fs::path quantized = folder.path() / (std::string(recipe) + ".gguf");
    const auto report = write_gguf(source, quantized, {.recipe = recipe});
    expect_ok(report);
    ASSERT_EQ(report->notices.size(), 1U);
    EXPECT_NE(report->notices.front().find("others do not"), std::string::npos);
    EXPECT_LT(test::scaled_distance(logits_of(quantized), expected, 1.0), tolerance) << recipe;
    // Quantized files can be quantized on, and name their types.
    const fs::path again = folder.path() / "again.gguf";
    expect_ok(write_gguf(quantized, again));
    EXPECT_EQ(tensors_of(again), tensors_of(quantized));
  }
}

class ConvertGguf : public testing::TestWithParam<const char*> {};

TEST_P(ConvertGguf, ACopyIsTheSameFileInAllThatCounts) {
  const fs::path source = test::reference(std::string("gguf/phi3-tiny-") + GetParam() + ".gguf");
  PHIDIAS_NEEDS_REFERENCE(source);
  const test::TemporaryFolder folder;
  const fs::path copy = folder.path() / "copy.gguf";
  expect_ok(write_gguf(source, copy));
  EXPECT_EQ(tensors_of(copy), tensors_of(source));
  const auto old_file = GgufFile::open(source);
  const auto new_file = GgufFile::open(copy);
  ASSERT_TRUE(old_file.ok() && new_file.ok());
  for (const auto& [key, value] : old_file->metadata) {
    const GgufValue* written = new_file->find(key);
    ASSERT_NE(written, nullptr) << key;
    EXPECT_TRUE(std::ranges::equal(written->encoded, value.encoded)) << key;
  }
}

TEST_P(ConvertGguf, AFolderMadeOfItIsTheSameModelWithTheSameTokenizer) {
  const fs::path source = test::reference(std::string("gguf/phi3-tiny-") + GetParam() + ".gguf");
  PHIDIAS_NEEDS_REFERENCE(source);
  const test::TemporaryFolder folder;
  const fs::path made = folder.path() / "made";
  expect_ok(export_folder(source, made, {.type = "f32"}));
  EXPECT_LT(test::scaled_distance(logits_of(made), logits_of(source), 1.0), 1e-6);
  const auto old_tokenizer = Tokenizer::load(source);
  const auto new_tokenizer = Tokenizer::load(made);
  ASSERT_TRUE(old_tokenizer.ok()) << old_tokenizer.error().to_string();
  ASSERT_TRUE(new_tokenizer.ok()) << new_tokenizer.error().to_string();
  const Json cases = test::read_json(test::reference("gguf/phi3-tiny-tokenizer.json"));
  std::vector<std::string> texts;
  for (const Json& one : cases["plain"]) texts.push_back(one["text"].get<std::string>());
  for (const Json& one : cases["chat"]) texts.push_back(one["rendered"].get<std::string>());
  for (const std::string& text : texts)
    EXPECT_EQ((*new_tokenizer)->encode(text), (*old_tokenizer)->encode(text)) << text;
}

INSTANTIATE_TEST_SUITE_P(Types, ConvertGguf, testing::Values("f32", "f16", "q4_k", "longrope"));

TEST(Convert, RecipesChooseFormatsByRoleAndFitRowsThatAreNoWholeBlocks) {
  const fs::path source = test::reference("gguf/phi3-tiny-f32.gguf");  // rows of 256 and 512
  PHIDIAS_NEEDS_REFERENCE(source);
  const test::TemporaryFolder folder;
  const fs::path mixed = folder.path() / "mixed.gguf";
  const auto report = write_gguf(source, mixed, {.recipe = "Q4_K_M"});
  expect_ok(report);
  auto tensors = tensors_of(mixed);
  EXPECT_EQ(tensors["output.weight"].first, Format::kQ6_K);
  EXPECT_EQ(tensors["token_embd.weight"].first, Format::kQ4_K);
  EXPECT_EQ(tensors["blk.0.attn_qkv.weight"].first, Format::kQ5_K);
  EXPECT_EQ(tensors["blk.0.ffn_up.weight"].first, Format::kQ4_K);
  EXPECT_EQ(tensors["blk.0.attn_norm.weight"].first, Format::kF32);
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.second.size();
  EXPECT_EQ(report->bytes_after, bytes);
  EXPECT_LT(test::scaled_distance(logits_of(mixed), logits_of(source), 1.0), 0.2);

  const fs::path narrow_source = test::reference("models/mini-4k");  // rows of less than 256
  PHIDIAS_NEEDS_REFERENCE(narrow_source);
  const fs::path narrow = folder.path() / "narrow.gguf";
  expect_ok(write_gguf(narrow_source, narrow, {.recipe = "q4_k"}));
  for (const auto& [name, tensor] : tensors_of(narrow))
    EXPECT_NE(tensor.first, Format::kQ4_K) << name;
  EXPECT_FALSE(logits_of(narrow).empty());
}

TEST(Convert, ARowsBytesAreThoseOfTheEncoder) {
  const fs::path source = test::reference("gguf/phi3-tiny-f32.gguf");
  PHIDIAS_NEEDS_REFERENCE(source);
  const test::TemporaryFolder folder;
  const fs::path quantized = folder.path() / "q.gguf";
  expect_ok(write_gguf(source, quantized, {.recipe = "q8_0", .threads = 3}));
  const auto before = tensors_of(source);
  for (const auto& [name, tensor] : tensors_of(quantized)) {
    if (tensor.first != Format::kQ8_0) continue;
    const std::string& floats = before.at(name).second;
    std::string encoded(tensor.second.size(), '\0');
    format_row(Format::kQ8_0)
        .encode(reinterpret_cast<const float*>(floats.data()),
                reinterpret_cast<std::byte*>(encoded.data()), floats.size() / sizeof(float));
    EXPECT_EQ(tensor.second, encoded) << name;
  }
}

TEST(Convert, WhatIsInterruptedOrRefusedLeavesNothing) {
  const fs::path source = test::data("models/mini-4k");
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "m.gguf";
  const auto stop = [](const ConversionProgress&) { return false; };
  auto report = write_gguf(source, file, {.progress = stop});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kCancelled);
  auto exported = export_folder(source, folder.path() / "out", {.progress = stop});
  ASSERT_FALSE(exported.ok());
  EXPECT_EQ(exported.error().code, Code::kCancelled);
  report = write_gguf(source, file, {.recipe = "q3_x"});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_NE(report.error().message.find("q4_k_m"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Convert, AFolderThatHoldsSomethingIsNotTouched) {
  const test::TemporaryFolder folder;
  folder.write("mine.txt", std::string_view("mine"));
  const auto report = export_folder(test::data("models/mini-4k"), folder.path());
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_EQ(test::read_file(folder.path() / "mine.txt"), "mine");
}

TEST(Convert, AModelWithoutATokenizerSaysSo) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "m.gguf";
  expect_ok(write_gguf(test::data("models/mini-4k"), file, {.model_name = "tiny"}));
  const auto written = GgufFile::open(file);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(*written->optional_string("tokenizer.ggml.model"), "no_vocab");
  EXPECT_EQ(*written->optional_string("general.name"), "tiny");
  EXPECT_EQ(*written->optional_unsigned("phi3.attention.sliding_window"), 7U);
}

}  // namespace
}  // namespace phidias
