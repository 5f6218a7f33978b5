#include "formats/gguf_writer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "formats/gguf.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "unit/formats/tiny_gguf.h"

namespace phidias {
namespace {

Status write_tiny(const std::filesystem::path& path) {
  const GgufHeader header = test::tiny_gguf_header();
  auto writer = GgufWriter::create(path, header);
  if (!writer.ok()) return writer.error();
  for (size_t i = 0; i < header.tensor_bytes().size(); ++i) {
    const auto data = test::tiny_gguf_data(header, i);
    // In two pieces: where a tensor is cut is the caller's choice.
    const auto half = std::span(data).first(data.size() / 2);
    if (auto status = writer->write(half); !status.ok()) return status;
    if (auto status = writer->write(std::span(data).subspan(half.size())); !status.ok())
      return status;
  }
  return writer->commit();
}

TEST(GgufWriter, WritesTheSameBytesAsEver) {
  const test::TemporaryFolder folder;
  const auto status = write_tiny(folder.path() / "tiny.gguf");
  ASSERT_TRUE(status.ok()) << status.error().to_string();
  EXPECT_EQ(test::read_file(folder.path() / "tiny.gguf"),
            test::read_file(test::data("formats/tiny.gguf")));
}

TEST(GgufWriter, WhatIsWrittenIsReadBack) {
  const test::TemporaryFolder folder;
  GgufHeader header(64);
  header.add("k", 7);
  header.add_tensor("empty", Format::kF32, std::array{uint64_t{0}});
  header.add_tensor("a", Format::kQ4_K, std::array{uint64_t{2}, uint64_t{1}, uint64_t{256}});
  header.add_tensor("scalar", Format::kBF16, {});
  auto writer = GgufWriter::create(folder.path() / "f.gguf", header);
  ASSERT_TRUE(writer.ok());
  const std::vector<std::byte> blocks(2 * 144, std::byte{5});
  ASSERT_TRUE(writer->write(blocks).ok());
  ASSERT_TRUE(writer->write(std::span(blocks).first(2)).ok());
  ASSERT_TRUE(writer->commit().ok());

  const auto file = GgufFile::open(folder.path() / "f.gguf");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(*file->optional_unsigned("general.alignment"), 64U);
  EXPECT_EQ(*file->optional_unsigned("k"), 7U);
  ASSERT_EQ(file->tensors.size(), 3U);
  EXPECT_EQ(file->tensors[0].bytes, 0U);
  EXPECT_EQ(file->tensors[1].shape, (std::vector<uint64_t>{2, 1, 256}));
  EXPECT_EQ(file->tensors[1].offset % 64, 0U);
  EXPECT_EQ(std::memcmp(file->tensors[1].data, blocks.data(), blocks.size()), 0);
  EXPECT_TRUE(file->tensors[2].shape.empty());
  EXPECT_EQ(file->tensors[2].bytes, 2U);
}

TEST(GgufWriter, AFileThatLacksDataIsNotCommitted) {
  const test::TemporaryFolder folder;
  GgufHeader header;
  header.add_tensor("a", Format::kF32, std::array{uint64_t{4}});
  {
    auto writer = GgufWriter::create(folder.path() / "f.gguf", header);
    ASSERT_TRUE(writer.ok());
    EXPECT_FALSE(writer->write(std::vector<std::byte>(17)).ok());
    ASSERT_TRUE(writer->write(std::vector<std::byte>(15)).ok());
    const auto status = writer->commit();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kInternal);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

using GgufHeaderDeathTest = ::testing::Test;

TEST(GgufHeaderDeathTest, ARepeatedKeyIsOurOwnMistake) {
  GgufHeader header;
  header.add("k", 1);
  EXPECT_DEATH(header.add("k", 2), "broken promise");
}

TEST(GgufHeaderDeathTest, RowsThatAreNoWholeBlocksAreOurOwnMistake) {
  GgufHeader header;
  EXPECT_DEATH(header.add_tensor("a", Format::kQ8_0, std::array{uint64_t{4}, uint64_t{16}}),
               "broken promise");
}

}  // namespace
}  // namespace phidias
