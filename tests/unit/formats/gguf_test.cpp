#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "support/reference.h"
#include "support/temporary_folder.h"
#include "unit/formats/file_bytes.h"
#include "unit/formats/tiny_gguf.h"

namespace phidias {
namespace {

class Gguf : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = GgufFile::open(test::data("formats/tiny.gguf"));
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    file = std::move(*opened);
  }
  GgufFile file;
};

TEST_F(Gguf, NumbersKeepTheirValues) {
  EXPECT_EQ(*file.optional_unsigned("kind.uint8"), 200U);
  EXPECT_EQ(*file.optional_unsigned("kind.uint16"), 60000U);
  EXPECT_EQ(*file.optional_unsigned("kind.uint32"), 4000000000U);
  EXPECT_EQ(*file.optional_unsigned("kind.uint64"), UINT64_MAX);
  EXPECT_EQ(*file.optional_number("kind.int8"), -100.0);
  EXPECT_EQ(*file.optional_number("kind.int16"), -30000.0);
  EXPECT_EQ(*file.optional_number("kind.int32"), -2e9);
  EXPECT_EQ(std::get<int64_t>(file.find("kind.int64")->value), INT64_MIN);
  EXPECT_EQ(*file.optional_number("kind.float32"), 0.5);
  EXPECT_EQ(*file.optional_number("kind.float64"), 0.1);
  EXPECT_EQ(*file.optional_number("kind.uint8"), 200.0);
}

TEST_F(Gguf, TextsBoolsAndArraysKeepTheirValues) {
  EXPECT_EQ(*file.optional_bool("kind.bool"), true);
  EXPECT_EQ(*file.optional_string("kind.string"), "line\nwith \xE2\x82\xAC");
  EXPECT_EQ(**file.optional_strings("kind.strings"),
            (std::vector<std::string>{"<unk>", "", "\xE2\x96\x81the"}));
  EXPECT_EQ(*file.optional_numbers("kind.floats"), (std::vector<double>{-1.0, 2.5}));
  EXPECT_EQ(*file.optional_integers("kind.signed"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(*file.optional_integers("kind.unsigned"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*file.optional_numbers("kind.signed"), (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(std::get<std::vector<bool>>(std::get<GgufValue::Array>(file.find("kind.bools")->value)),
            (std::vector<bool>{true, false, true}));
  EXPECT_TRUE((*file.optional_integers("kind.nothing"))->empty());
}

TEST_F(Gguf, AbsentKeysAreNoError) {
  EXPECT_EQ(file.find("none"), nullptr);
  EXPECT_EQ(*file.optional_unsigned("none"), std::nullopt);
  EXPECT_EQ(*file.optional_number("none"), std::nullopt);
  EXPECT_EQ(*file.optional_bool("none"), std::nullopt);
  EXPECT_EQ(*file.optional_string("none"), std::nullopt);
  EXPECT_EQ(*file.optional_strings("none"), nullptr);
  EXPECT_EQ(*file.optional_integers("none"), std::nullopt);
  EXPECT_EQ(*file.optional_numbers("none"), std::nullopt);
}

TEST_F(Gguf, AValueOfAnotherKindIsAnErrorThatNamesTheKey) {
  const auto expect = [](const auto& result, std::string_view key, std::string_view found) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, Code::kCorrupt);
    EXPECT_EQ(result.error().place.item, key);
    EXPECT_NE(result.error().message.find(found), std::string::npos) << result.error().message;
  };
  expect(file.optional_unsigned("kind.string"), "kind.string", "a string");
  expect(file.optional_unsigned("kind.int8"), "kind.int8", "-100");
  expect(file.optional_unsigned("kind.float32"), "kind.float32", "a float");
  expect(file.optional_number("kind.bool"), "kind.bool", "a bool");
  expect(file.optional_bool("kind.uint8"), "kind.uint8", "an unsigned number");
  expect(file.optional_string("kind.int8"), "kind.int8", "a signed number");
  expect(file.optional_strings("kind.floats"), "kind.floats", "an array of floats");
  expect(file.optional_integers("kind.floats"), "kind.floats", "an array of floats");
  expect(file.optional_numbers("kind.strings"), "kind.strings", "an array of strings");
  expect(file.optional_integers("kind.bools"), "kind.bools", "an array of bools");
}

TEST_F(Gguf, TensorsPointIntoTheFile) {
  const GgufHeader header = test::tiny_gguf_header();
  ASSERT_EQ(file.tensors.size(), 3U);
  EXPECT_EQ(file.tensors[0].name, "embedding");
  EXPECT_EQ(file.tensors[0].format, Format::kF16);
  EXPECT_EQ(file.tensors[0].shape, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(file.tensors[2].shape, (std::vector<uint64_t>{2, 32}));
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    const TensorEntry& entry = file.tensors[i];
    const auto expected = test::tiny_gguf_data(header, i);
    ASSERT_EQ(entry.bytes, expected.size());
    EXPECT_EQ(std::memcmp(entry.data, expected.data(), expected.size()), 0) << entry.name;
    EXPECT_EQ(entry.data, file.file->bytes().data() + entry.offset);
    EXPECT_EQ(entry.offset % 32, 0U);
  }
}

TEST_F(Gguf, MetadataKeepsTheOrderOfTheFile) {
  EXPECT_EQ(file.metadata.front().first, "general.architecture");
  EXPECT_EQ(file.metadata.back().first, "kind.nothing");
  EXPECT_EQ(file.version, 3U);
}

TEST(GgufVersion, TwoIsReadLikeThree) {
  const auto bytes = test::FileBytes().raw("GGUF").u32(2).u64(0).u64(1).text("k").u32(4).u32(9);
  const auto file = GgufFile::parse(bytes.span(), "v2");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->version, 2U);
  EXPECT_EQ(*file->optional_unsigned("k"), 9U);
}

TEST(GgufAlignment, MovesTheData) {
  test::FileBytes bytes;
  bytes.raw("GGUF").u32(3).u64(1).u64(1).text("general.alignment").u32(4).u32(256);
  bytes.text("a").u32(1).u64(1).u32(0).u64(0).align(256).f32(3.0F);
  const auto file = GgufFile::parse(bytes.span(), "f");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->tensors[0].offset, 256U);
}

TEST(GgufOpen, AMissingFileIsNotFound) {
  const auto file = GgufFile::open("/nonexistent/model.gguf");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kNotFound);
}

// C153: both sides of the comparison that loading makes are to be had from the file alone.
TEST(GgufReference, TokensAndEmbeddingRowsCanBeCompared) {
  const auto path = test::reference("gguf/phi3-tiny-q4_k.gguf");
  PHIDIAS_NEEDS_REFERENCE(path);
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  const auto tokens = file->optional_strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ((*tokens)->size(), 320U);
  const auto at = std::find_if(file->tensors.begin(), file->tensors.end(),
                               [](const TensorEntry& e) { return e.name == "token_embd.weight"; });
  ASSERT_NE(at, file->tensors.end());
  EXPECT_EQ(at->shape, (std::vector<uint64_t>{320, 256}));
  EXPECT_EQ(at->format, Format::kQ6_K);
}

TEST(GgufReference, EveryTinyCheckpointOpens) {
  for (const char* name : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "longrope"}) {
    const auto path = test::reference(std::string("gguf/phi3-tiny-") + name + ".gguf");
    PHIDIAS_NEEDS_REFERENCE(path);
    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().to_string();
    EXPECT_EQ(*file->optional_string("general.architecture"), "phi3");
    EXPECT_EQ(*file->optional_unsigned("phi3.embedding_length"), 256U);
    EXPECT_FALSE(file->tensors.empty());
  }
}

}  // namespace
}  // namespace phidias
