#include "formats/safetensors_writer.h"

#include <gtest/gtest.h>

#include <array>

#include "formats/safetensors.h"
#include "support/reference.h"
#include "support/temporary_folder.h"

namespace phidias {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& values) {
  return std::as_bytes(std::span(values));
}

// tests/data/formats/tiny.safetensors is what this writes.
Status write_tiny(const std::filesystem::path& path) {
  const std::array weight = {-2.5F, -1.5F, -0.5F, 0.5F, 1.5F, 2.5F};
  const std::array<int64_t, 3> position_ids = {0, 1, -1};
  const std::array<uint16_t, 2> norm = {0x3F80, 0xC000};
  return write_safetensors(path,
                           {{{"norm", "BF16", {2}}, bytes_of(norm)},
                            {{"weight", "F32", {2, 3}}, bytes_of(weight)},
                            {{"position_ids", "I64", {3}}, bytes_of(position_ids)}},
                           {{"format", "pt"}});
}

TEST(SafetensorsWriter, WritesTheSameBytesAsEver) {
  const test::TemporaryFolder folder;
  const auto status = write_tiny(folder.path() / "tiny.safetensors");
  ASSERT_TRUE(status.ok()) << status.error().to_string();
  EXPECT_EQ(test::read_file(folder.path() / "tiny.safetensors"),
            test::read_file(test::data("formats/tiny.safetensors")));
}

TEST(SafetensorsWriter, WideDtypesComeFirstSoThatAllAreAligned) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_tiny(folder.path() / "f").ok());
  const auto file = SafetensorsFile::open(folder.path() / "f");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->tensors[0].name, "weight");
  for (const TensorEntry& entry : file->tensors) {
    EXPECT_EQ(entry.offset % format_row(entry.format).block_bytes, 0U) << entry.name;
  }
}

TEST(SafetensorsWriter, DataMayComeInAnyPieces) {
  const test::TemporaryFolder folder;
  const std::array values = {1.0F, 2.0F, 3.0F};
  auto writer = SafetensorsWriter::create(
      folder.path() / "f", {{{"a", "F32", {2}}, {"b", "F32", {1}}, {"none", "F32", {0}}}, {}});
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  const auto bytes = bytes_of(values);
  ASSERT_TRUE(writer->write(bytes.first(5)).ok());
  ASSERT_TRUE(writer->write(bytes.subspan(5)).ok());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "f"));
  ASSERT_TRUE(writer->commit().ok());
  const auto file = SafetensorsFile::open(folder.path() / "f");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->tensors.size(), 3U);
}

TEST(SafetensorsWriter, AFileThatLacksDataIsNotCommitted) {
  const test::TemporaryFolder folder;
  {
    auto writer = SafetensorsWriter::create(folder.path() / "f", {{{"a", "F32", {2}}}, {}});
    ASSERT_TRUE(writer.ok());
    const std::array<std::byte, 9> bytes = {};
    EXPECT_FALSE(writer->write(bytes).ok());
    ASSERT_TRUE(writer->write(std::span(bytes).first(7)).ok());
    EXPECT_FALSE(writer->commit().ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsWriter, ImpossibleHeadersAreRefused) {
  const test::TemporaryFolder folder;
  const auto code = [&](SafetensorsHeader header) {
    const auto writer = SafetensorsWriter::create(folder.path() / "f", header);
    return writer.ok() ? std::string_view("accepted") : code_name(writer.error().code);
  };
  const std::string_view invalid = code_name(Code::kInvalidArgument);
  EXPECT_EQ(code({{{"a", "F32", {1}}, {"a", "F32", {1}}}, {}}), invalid);
  EXPECT_EQ(code({{{"a", "Q4_K", {256}}}, {}}), invalid);
  EXPECT_EQ(code({{{"__metadata__", "F32", {1}}}, {}}), invalid);
  EXPECT_EQ(code({{{"a", "F32", {uint64_t{1} << 62}}}, {}}), invalid);
  EXPECT_EQ(code({{{"a", "F4", {3}}}, {}}), invalid);
  EXPECT_EQ(code({{{"a", "F4", {4}}}, {}}), "accepted");
}

}  // namespace
}  // namespace phidias
