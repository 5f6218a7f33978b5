// Files that a reader must refuse, with a sentence and without harm.
#include <gtest/gtest.h>

#include "formats/safetensors.h"
#include "support/temporary_folder.h"
#include "unit/formats/file_bytes.h"

namespace phidias {
namespace {

using test::FileBytes;

FileBytes file_of(std::string_view header, size_t data_bytes) {
  return FileBytes().text(header).fill(data_bytes, 1);
}

void refused(const FileBytes& file, Code code, std::initializer_list<std::string_view> parts) {
  test::expect_refused<SafetensorsFile>(file.span(), code, parts);
}
void corrupt(std::string_view header, size_t data_bytes,
             std::initializer_list<std::string_view> parts) {
  refused(file_of(header, data_bytes), Code::kCorrupt, parts);
}
void corrupt(std::string_view header, size_t data_bytes, std::string_view item,
             std::initializer_list<std::string_view> parts) {
  const FileBytes file = file_of(header, data_bytes);
  EXPECT_EQ(test::expect_refused<SafetensorsFile>(file.span(), Code::kCorrupt, parts), item);
}

constexpr std::string_view kValid = R"({"__metadata__":{"format":"pt"},)"
                                    R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                                    R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})";
constexpr size_t kValidData = 22;

TEST(SafetensorsHostile, EveryTruncationIsRefused) {
  const FileBytes file = file_of(kValid, kValidData);
  ASSERT_TRUE(SafetensorsFile::parse(file.span(), "whole").ok());
  for (size_t size = 0; size < file.size(); ++size) {
    SCOPED_TRACE(size);
    test::expect_refused<SafetensorsFile>(file.span().first(size), Code::kCorrupt, {});
  }
}

TEST(SafetensorsHostile, AnyByteMayBeAnything) {
  const FileBytes file = file_of(kValid, kValidData);
  for (size_t at = 0; at < file.size(); ++at) {
    for (const int value : {0x00, 0x22, 0x2D, 0x30, 0x39, 0x5D, 0x7D, 0x80, 0xFF}) {
      std::vector<std::byte> bytes(file.span().begin(), file.span().end());
      bytes[at] = static_cast<std::byte>(value);
      test::forget_allocations();
      static_cast<void>(SafetensorsFile::parse(bytes, "changed").ok());
      EXPECT_LE(test::largest_allocation(), test::kFlat) << "byte " << at << " = " << value;
    }
  }
}

// C146: a length that the file cannot hold is an error at once, and nothing is allocated for it.
TEST(SafetensorsHostile, HeaderLengthBeyondTheFileAllocatesNothing) {
  for (const uint64_t length :
       {uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7, uint64_t{100'000'000}, uint64_t{3}}) {
    refused(FileBytes().u64(length).raw("{}"), Code::kCorrupt,
            {std::to_string(length), "2 are left", "at byte 0"});
  }
}

// C146: the limit is stated.
TEST(SafetensorsHostile, HeaderBeyondTheLimitIsRefusedWithTheLimit) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("large.safetensors", FileBytes().u64(100'000'001).span());
  std::filesystem::resize_file(path, 100'000'100);  // a hole on disk
  const auto opened = SafetensorsFile::open(path);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kCapacityExceeded);
  EXPECT_NE(opened.error().message.find("100000000"), std::string::npos) << opened.error().message;
}

// C144: the file is shorter than its header declares.
TEST(SafetensorsHostile, MissingDataIsRefusedWithBothSizes) {
  const size_t whole = file_of(kValid, kValidData).size();
  corrupt(kValid, kValidData - 10, "a",
          {"ends at byte " + std::to_string(whole - 6), "has " + std::to_string(whole - 10)});
  corrupt(kValid, kValidData - 1, "b",
          {"ends at byte " + std::to_string(whole), "has " + std::to_string(whole - 1)});
}

// C147: one rule for bytes after the last tensor, however the file is read.
TEST(SafetensorsHostile, ExtraBytesAreRefusedOnEveryPath) {
  const FileBytes file = file_of(kValid, kValidData + 16);
  const std::string expected = std::to_string(file.size() - 16);
  refused(file, Code::kCorrupt, {"has " + std::to_string(file.size()), expected});
  const test::TemporaryFolder folder;
  const auto opened = SafetensorsFile::open(folder.write("extra.safetensors", file.span()));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kCorrupt);
  EXPECT_NE(opened.error().to_string().find("extra.safetensors"), std::string::npos);
}

TEST(SafetensorsHostile, HeadersThatAreNoObject) {
  for (const std::string_view header :
       {"", "[]", "1", "nul", "{", "{}x", "{\"a\":}", "\"a\"", "{\"a\":{\"dtype\":\"F32\xFF\"}}"}) {
    SCOPED_TRACE(header);
    corrupt(header, 0, {"no JSON object"});
  }
  corrupt(std::string(2000, '['), 0, {"no JSON object"});
}

TEST(SafetensorsHostile, RepeatedNames) {
  corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
          R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2, "a", {"twice"});
  corrupt(R"({"a":{"dtype":"U8","shape":[1],"shape":[2],"data_offsets":[0,1]}})", 1, "a",
          {"two fields \"shape\""});
  corrupt(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "__metadata__/k", {"twice"});
}

TEST(SafetensorsHostile, FieldsThatAreMissingOrOfAnotherKind) {
  corrupt(R"({"a":1})", 0, "a", {"must be an object"});
  corrupt(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, "a", {"needs the fields"});
  corrupt(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "a", {"needs the fields"});
  corrupt(R"({"a":{"dtype":"U8","shape":[1]}})", 1, "a", {"needs the fields"});
  corrupt(R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1, "a", {"dtype"});
  corrupt(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, "a", {"shape"});
  corrupt(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "a", {"shape"});
  corrupt(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1, "a", {"shape"});
  corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "a", {"found 1"});
  corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1, "a", {"found 3"});
  corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551616]}})", 1, {});
  corrupt(R"({"__metadata__":{"k":1}})", 0, "__metadata__/k", {"string"});
  corrupt(R"({"__metadata__":[]})", 0, "__metadata__", {});
}

TEST(SafetensorsHostile, OffsetsThatOverlapLeaveHolesOrRunBackwards) {
  corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
          R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
          7, "b", {"overlap"});
  corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
          R"("b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
          9, "b", {"hole"});
  corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5, "a", {"hole"});
  corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4, "a", {"before"});
  corrupt(
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551611,18446744073709551615]}})",
      4, "a", {"the file has"});
}

TEST(SafetensorsHostile, ShapesThatContradictTheData) {
  corrupt(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,12]}})", 12, "a",
          {"[2, 2]", "F32", "12 bytes"});
  corrupt(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "a",
          {"counted"});
  corrupt(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0, "a",
          {"counted"});
  corrupt(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1, "a", {"12 bits"});
  corrupt(R"({"a":{"dtype":"I64","shape":[2],"data_offsets":[0,8]}})", 8, "a", {"I64"});
}

}  // namespace
}  // namespace phidias
