#include "formats/checkpoint.h"

#include <gtest/gtest.h>

#include "formats/safetensors_writer.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "unit/formats/file_bytes.h"

namespace phidias {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

std::string shard_name(int number) {
  return "model-0000" + std::to_string(number) + "-of-00003.safetensors";
}

void write_file(const std::filesystem::path& path, const std::vector<std::string>& names) {
  const std::vector<float> values(8, 1.0F);
  std::vector<SafetensorsData> tensors;
  for (const std::string& name : names) {
    tensors.push_back({{name, "F32", {8}}, std::as_bytes(std::span(values))});
  }
  const auto status = write_safetensors(path, tensors);
  ASSERT_TRUE(status.ok()) << status.error().to_string();
}

// Three shards with two tensors each: a1 b1, a2 b2, a3 b3.
class Sharded : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string map;
    for (int shard = 1; shard <= 3; ++shard) {
      const std::string number = std::to_string(shard);
      write_file(folder.path() / shard_name(shard), {"a" + number, "b" + number});
      for (const char* letter : {"a", "b"}) {
        map += (map.empty() ? "" : ",") + ("\"" + (letter + number)) + "\":\"" + shard_name(shard) +
               "\"";
      }
    }
    write_index(map);
  }
  void write_index(const std::string& map) const {
    folder.write(kIndex, R"({"metadata":{"total_size":192},"weight_map":{)" + map + "}}");
  }
  void refused(Code code, std::initializer_list<std::string_view> parts) const {
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_FALSE(checkpoint.ok());
    const std::string message = checkpoint.error().to_string();
    EXPECT_EQ(code_name(checkpoint.error().code), code_name(code)) << message;
    for (const std::string_view part : parts) {
      EXPECT_NE(message.find(part), std::string::npos)
          << "\"" << part << "\" is not in: " << message;
    }
  }
  test::TemporaryFolder folder;
};

TEST_F(Sharded, AllShardsBecomeOneSet) {
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  const TensorSet& set = checkpoint->tensors;
  EXPECT_EQ(checkpoint->gguf, nullptr);
  ASSERT_EQ(set.files.size(), 3U);
  ASSERT_EQ(set.mappings.size(), 3U);
  ASSERT_EQ(set.tensors.size(), 6U);
  for (const TensorEntry& entry : set.tensors) {
    EXPECT_NE(set.files[entry.file].find(shard_name(entry.name[1] - '0')), std::string::npos);
    const auto bytes = set.mappings[entry.file]->bytes();
    EXPECT_EQ(entry.data, bytes.data() + entry.offset);
    EXPECT_LE(entry.offset + entry.bytes, bytes.size());
  }
}

// C144
TEST_F(Sharded, AShardThatIsCutShortIsNamedWithBothSizes) {
  const auto path = folder.path() / shard_name(2);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size - 10);
  refused(Code::kCorrupt,
          {shard_name(2), "b2", std::to_string(size), std::to_string(size - 10), "cut short"});
}

// C149
TEST_F(Sharded, ABrokenShardIsNamed) {
  folder.write(shard_name(2), "this is no shard at all");
  refused(Code::kCorrupt, {shard_name(2)});
}

// C149
TEST_F(Sharded, AMissingShardIsNamed) {
  std::filesystem::remove(folder.path() / shard_name(2));
  refused(Code::kNotFound, {kIndex, shard_name(2), "missing"});
}

// C149
TEST_F(Sharded, AShardThatTheIndexDoesNotNameIsNamed) {
  write_file(folder.path() / "model-00004-of-00004.safetensors", {"c"});
  refused(Code::kCorrupt, {kIndex, "model-00004-of-00004.safetensors", "does not name"});
}

TEST_F(Sharded, OtherSafetensorsBesideTheShardsAreLeftAlone) {
  write_file(folder.path() / "adapter_model.safetensors", {"c"});
  EXPECT_TRUE(Checkpoint::open(folder.path()).ok());
}

TEST_F(Sharded, ATensorThatLiesElsewhereIsNamed) {
  write_file(folder.path() / shard_name(1), {"a1", "b2"});
  refused(Code::kCorrupt, {shard_name(1), "b2", "places it in " + shard_name(2)});
}

TEST_F(Sharded, ATensorThatTheIndexDoesNotListIsNamed) {
  write_file(folder.path() / shard_name(3), {"a3", "b3", "c3"});
  refused(Code::kCorrupt, {shard_name(3), "c3", "does not list"});
}

TEST_F(Sharded, ATensorThatNoShardHasIsNamed) {
  write_file(folder.path() / shard_name(3), {"a3"});
  refused(Code::kCorrupt, {kIndex, "b3", shard_name(3)});
}

TEST_F(Sharded, AnIndexThatLeadsElsewhereIsRefused) {
  write_index(R"("a1":"../outside.safetensors")");
  refused(Code::kCorrupt, {kIndex, "/weight_map/a1", "../outside.safetensors"});
}

TEST(CheckpointFolder, ASingleFileNeedsNoIndex) {
  const test::TemporaryFolder folder;
  std::filesystem::copy(test::data("formats/tiny.safetensors"),
                        folder.path() / "model.safetensors");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_EQ(checkpoint->tensors.tensors.size(), 2U);
  EXPECT_EQ(checkpoint->tensors.ignored, (std::vector<std::string>{"position_ids (I64)"}));
}

void refused(const std::filesystem::path& path, Code code,
             std::initializer_list<std::string_view> parts) {
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_FALSE(checkpoint.ok());
  const std::string message = checkpoint.error().to_string();
  EXPECT_EQ(code_name(checkpoint.error().code), code_name(code)) << message;
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "\"" << part << "\" is not in: " << message;
  }
}

TEST(CheckpointFolder, AFolderWithoutWeightsSaysWhatIsThere) {
  const test::TemporaryFolder folder;
  refused(folder.path(), Code::kNotFound, {"model.safetensors", kIndex});
  folder.write("pytorch_model-00001-of-00002.bin", "");
  refused(folder.path(), Code::kNotFound, {"pytorch_model-00001-of-00002.bin", "convert"});
  folder.write("phi3.gguf", "");
  refused(folder.path(), Code::kNotFound, {"phi3.gguf", "give that file"});
}

TEST(CheckpointFile, AGgufFileBringsItsMetadata) {
  const auto checkpoint = Checkpoint::open(test::data("formats/tiny.gguf"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  ASSERT_NE(checkpoint->gguf, nullptr);
  EXPECT_EQ(*checkpoint->gguf->optional_string("general.architecture"), "phi3");
  ASSERT_EQ(checkpoint->tensors.tensors.size(), 3U);
  const auto bytes = checkpoint->tensors.mappings.at(0)->bytes();
  const TensorEntry& entry = checkpoint->tensors.tensors[1];
  EXPECT_EQ(entry.data, bytes.data() + entry.offset);
}

TEST(CheckpointFile, AGgufFileIsKnownByItsContentToo) {
  const test::TemporaryFolder folder;
  std::filesystem::copy(test::data("formats/tiny.gguf"), folder.path() / "blob");
  EXPECT_TRUE(Checkpoint::open(folder.path() / "blob").ok());
}

TEST(CheckpointFile, OnePartOfASplitGgufIsRefused) {
  const test::TemporaryFolder folder;
  const auto bytes =
      test::FileBytes().raw("GGUF").u32(3).u64(0).u64(1).text("split.count").u32(4).u32(3);
  refused(folder.write("part.gguf", bytes.span()), Code::kUnsupported, {"3 parts", "split.count"});
}

TEST(CheckpointFile, WhatIsNoCheckpointIsRefused) {
  const test::TemporaryFolder folder;
  refused(folder.path() / "none", Code::kNotFound, {"none"});
  refused(folder.write("a.bin", "whatever"), Code::kUnsupported, {"a.bin", "neither"});
  refused(folder.write("a.gguf", "whatever"), Code::kCorrupt, {"a.gguf", "no GGUF file"});
  refused(folder.write("a.safetensors", ""), Code::kUnsupported, {"give the folder"});
}

}  // namespace
}  // namespace phidias
