// Files that a reader must refuse, with a sentence and without harm.
#include <gtest/gtest.h>

#include "formats/gguf.h"
#include "formats/gguf_types.h"
#include "unit/formats/file_bytes.h"

namespace phidias {
namespace {

using test::FileBytes;

void refused(const FileBytes& file, Code code, std::initializer_list<std::string_view> parts) {
  test::expect_refused<GgufFile>(file.span(), code, parts);
}
void refused(const FileBytes& file, Code code, std::string_view item,
             std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(test::expect_refused<GgufFile>(file.span(), code, parts), item);
}

uint32_t number(GgufType type) { return static_cast<uint32_t>(type); }

FileBytes start(uint64_t tensors, uint64_t metadata, uint32_t version = 3) {
  return FileBytes().raw("GGUF").u32(version).u64(tensors).u64(metadata);
}

constexpr uint32_t kTypeF32 = 0;
constexpr uint32_t kTypeQ4_0 = 2;
constexpr uint32_t kTypeQ2_K = 10;

struct Tensor {
  std::string_view name = "a";
  std::vector<uint64_t> extents = {8};  // innermost first, as in the file
  uint32_t type = kTypeF32;
  uint64_t offset = 0;
};

FileBytes with_tensors(const std::vector<Tensor>& tensors, size_t data_bytes) {
  FileBytes file = start(tensors.size(), 0);
  for (const Tensor& tensor : tensors) {
    file.text(tensor.name).u32(static_cast<uint32_t>(tensor.extents.size()));
    for (const uint64_t extent : tensor.extents) file.u64(extent);
    file.u32(tensor.type).u64(tensor.offset);
  }
  return file.align(32).fill(data_bytes, 1);
}

// Every kind of value, two tensors, and nothing after the last.
FileBytes valid_file() {
  FileBytes file = start(2, 6);
  file.text("a.u8").u32(number(GgufType::kUint8)).u8(7);
  file.text("a.bool").u32(number(GgufType::kBool)).u8(1);
  file.text("a.string").u32(number(GgufType::kString)).text("text");
  file.text("a.f32").u32(number(GgufType::kFloat32)).f32(1.5F);
  file.text("a.numbers").u32(number(GgufType::kArray)).u32(number(GgufType::kInt32)).u64(2);
  file.u32(1).u32(0xFFFFFFFFU);
  file.text("a.strings").u32(number(GgufType::kArray)).u32(number(GgufType::kString)).u64(2);
  file.text("one").text("two");
  file.text("first").u32(2).u64(4).u64(2).u32(kTypeF32).u64(0);
  file.text("second").u32(1).u64(32).u32(kTypeQ4_0).u64(32);
  return file.align(32).fill(32 + 18, 1);
}

TEST(GgufHostile, EveryTruncationIsRefused) {
  const FileBytes file = valid_file();
  ASSERT_TRUE(GgufFile::parse(file.span(), "whole").ok());
  for (size_t size = 0; size < file.size(); ++size) {
    SCOPED_TRACE(size);
    test::expect_refused<GgufFile>(file.span().first(size), Code::kCorrupt, {});
  }
}

TEST(GgufHostile, AnyByteMayBeAnything) {
  const FileBytes file = valid_file();
  for (size_t at = 0; at < file.size(); ++at) {
    for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      std::vector<std::byte> bytes(file.span().begin(), file.span().end());
      bytes[at] = static_cast<std::byte>(value);
      test::forget_allocations();
      static_cast<void>(GgufFile::parse(bytes, "changed").ok());
      EXPECT_LE(test::largest_allocation(), test::kFlat) << "byte " << at << " = " << value;
    }
  }
}

TEST(GgufHostile, WrongMagic) {
  refused(FileBytes().raw("GGML").u32(3).u64(0).u64(0), Code::kCorrupt, {"GGUF", "at byte 0"});
}

TEST(GgufHostile, OtherVersionsAreNamed) {
  refused(start(0, 0, 1), Code::kUnsupported, {"version 1", "2 to 3", "at byte 4"});
  refused(start(0, 0, 4), Code::kUnsupported, {"version 4", "2 to 3"});
  refused(start(0, 0, 0), Code::kUnsupported, {"version 0"});
}

TEST(GgufHostile, BigEndianIsNamed) {
  refused(start(0, 0, 0x03000000U), Code::kUnsupported, {"big-endian"});
}

TEST(GgufHostile, CountsBeyondTheFile) {
  for (const uint64_t count : {uint64_t{1}, uint64_t{1} << 60, UINT64_MAX}) {
    refused(start(count, 0), Code::kCorrupt, {"tensors", "0 bytes are left"});
    refused(start(0, count), Code::kCorrupt, {"metadata entries", "0 bytes are left"});
  }
}

TEST(GgufHostile, TensorCountIsBoundedAgainAfterTheMetadata) {
  // The string makes room for the claim when it is first read, and is gone when tensors are due.
  FileBytes file = start(2'000, 1).text("k").u32(number(GgufType::kString));
  refused(file.text(std::string(50'000, 'x')), Code::kCorrupt, {"claims 2000 tensors"});
}

TEST(GgufHostile, LengthsBeyondTheFile) {
  for (const uint64_t length : {uint64_t{1} << 63, UINT64_MAX, uint64_t{6}}) {
    refused(start(0, 1).u64(length).raw("abcde"), Code::kCorrupt,
            {"a key", std::to_string(length), "5 are left"});
    refused(start(0, 1).text("k").u32(number(GgufType::kString)).u64(length).raw("abcde"),
            Code::kCorrupt, "k", {std::to_string(length), "5 are left"});
  }
}

TEST(GgufHostile, ArrayCountsBeyondTheFile) {
  for (const GgufType type : {GgufType::kUint8, GgufType::kInt64, GgufType::kFloat32,
                              GgufType::kBool, GgufType::kString}) {
    for (const uint64_t count : {uint64_t{100}, uint64_t{1} << 60, UINT64_MAX}) {
      FileBytes file = start(0, 1).text("k").u32(number(GgufType::kArray)).u32(number(type));
      refused(file.u64(count).fill(9), Code::kCorrupt, "k", {std::to_string(count), "9 bytes"});
    }
  }
}

TEST(GgufHostile, NestedArraysAndUnknownTypes) {
  refused(start(0, 1).text("k").u32(number(GgufType::kArray)).u32(number(GgufType::kArray)).u64(1),
          Code::kCorrupt, "k", {"array of arrays"});
  refused(start(0, 1).text("k").u32(13).u64(1), Code::kCorrupt, "k", {"type 13"});
  refused(start(0, 1).text("k").u32(number(GgufType::kArray)).u32(0xFFFFFFFFU).u64(0),
          Code::kCorrupt, "k", {"type 4294967295"});
}

TEST(GgufHostile, BoolsAreZeroOrOne) {
  refused(start(0, 1).text("k").u32(number(GgufType::kBool)).u8(2), Code::kCorrupt, "k",
          {"found 2"});
}

TEST(GgufHostile, RepeatedKey) {
  FileBytes file = start(0, 2);
  for (int i = 0; i < 2; ++i) file.text("k").u32(number(GgufType::kUint8)).u8(1);
  refused(file, Code::kCorrupt, "k", {"twice"});
}

TEST(GgufHostile, AlignmentIsAPowerOfTwo) {
  for (const uint32_t alignment : {0U, 3U, 0xFFFFFFFFU}) {
    refused(start(0, 1).text("general.alignment").u32(number(GgufType::kUint32)).u32(alignment),
            Code::kCorrupt, "general.alignment", {"power of two", std::to_string(alignment)});
  }
  refused(start(0, 1).text("general.alignment").u32(number(GgufType::kString)).text("32"),
          Code::kCorrupt, "general.alignment", {"a string"});
}

TEST(GgufHostile, RepeatedTensor) {
  refused(with_tensors({{.name = "a"}, {.name = "a", .offset = 32}}, 64), Code::kCorrupt, "a",
          {"twice"});
}

TEST(GgufHostile, FiveDimensions) {
  refused(with_tensors({{.extents = {1, 1, 1, 1, 1}}}, 32), Code::kCorrupt, "a", {"5 dimensions"});
}

TEST(GgufHostile, ShapesThatOverflow) {
  refused(with_tensors({{.extents = {uint64_t{1} << 63, 2}}}, 32), Code::kCorrupt, "a",
          {"counted"});
  refused(with_tensors({{.extents = {uint64_t{1} << 62}}}, 32), Code::kCorrupt, "a", {"counted"});
  refused(with_tensors({{.extents = {UINT64_MAX}}}, 32), Code::kCorrupt, "a", {});
}

TEST(GgufHostile, RowsAreWholeBlocks) {
  refused(with_tensors({{.extents = {33}, .type = kTypeQ4_0}}, 64), Code::kCorrupt, "a",
          {"33", "blocks of 32", "Q4_0"});
  // 64 values in all, but no row is a whole block.
  refused(with_tensors({{.extents = {16, 4}, .type = kTypeQ4_0}}, 64), Code::kCorrupt,
          {"rows of 16 values"});
}

TEST(GgufHostile, TypesThatAreNotReadAreNamed) {
  refused(with_tensors({{.extents = {256}, .type = kTypeQ2_K}}, 84), Code::kUnsupported, "a",
          {"Q2_K", "F32, F16, BF16, Q8_0, Q4_0"});
  refused(with_tensors({{.type = 20}}, 32), Code::kUnsupported, {"IQ4_NL"});
  refused(with_tensors({{.type = 26}}, 32), Code::kUnsupported, {"I32"});
  refused(with_tensors({{.type = 1000}}, 32), Code::kUnsupported, {"number 1000"});
}

TEST(GgufHostile, DataBeyondTheEnd) {
  const FileBytes short_by_one = with_tensors({{}}, 31);
  refused(short_by_one, Code::kCorrupt, "a",
          {"ends at byte " + std::to_string(short_by_one.size() + 1),
           "has " + std::to_string(short_by_one.size()) + " bytes"});
  refused(with_tensors({{.offset = 32}}, 32), Code::kCorrupt, "a", {"cut short"});
  refused(with_tensors({{.offset = UINT64_MAX - 31}}, 32), Code::kCorrupt, "a", {"2^64"});
  refused(with_tensors({{.extents = {0}, .offset = 64}}, 32), Code::kCorrupt, "a", {});
}

TEST(GgufHostile, OverlappingTensors) {
  refused(with_tensors({{.name = "a", .extents = {16}}, {.name = "b", .offset = 32}}, 64),
          Code::kCorrupt, "b", {"overlaps the tensor a"});
  refused(with_tensors({{.name = "a"}, {.name = "b"}}, 64), Code::kCorrupt, {"overlaps"});
}

TEST(GgufHostile, OffsetsAreAligned) {
  refused(with_tensors({{.offset = 4}}, 64), Code::kCorrupt, "a", {"offset 4", "alignment 32"});
}

TEST(GgufHostile, TensorsWithoutValuesAreAllowed) {
  const auto parsed = GgufFile::parse(
      with_tensors({{.name = "none", .extents = {0}}, {.name = "a"}}, 32).span(), "f");
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->tensors[0].bytes, 0U);
}

TEST(GgufHostile, BytesAfterTheLastTensorAreAllowed) {
  EXPECT_TRUE(GgufFile::parse(with_tensors({{}}, 32 + 17).span(), "f").ok());
}

TEST(GgufHostile, LongNamesAreRefused) {
  refused(start(0, 1).text(std::string(65536, 'k')).u32(0).u8(1), Code::kCorrupt,
          {"65536", "65535"});
}

// C157: ten files, each broken in its own way; the sentence names the key or the tensor at fault.
TEST(GgufHostile, EveryLoadFailureNamesItsCause) {
  refused(FileBytes(), Code::kCorrupt, {"magic number"});
  refused(FileBytes().raw("PK\3\4").fill(60), Code::kCorrupt, {"no GGUF file"});
  refused(start(0, 1).text("general.name").u32(number(GgufType::kString)).u64(1000), Code::kCorrupt,
          "general.name", {"1000 bytes"});
  refused(start(0, 1).text("phi3.block_count").u32(99).u32(2), Code::kCorrupt, "phi3.block_count",
          {"type 99"});
  refused(start(0, 1).text("tokenizer.ggml.tokens").u32(9).u32(8).u64(1U << 30), Code::kCorrupt,
          "tokenizer.ggml.tokens", {"1073741824"});
  refused(with_tensors({{.name = "token_embd.weight", .extents = {256}, .type = 11}}, 110),
          Code::kUnsupported, "token_embd.weight", {"Q3_K"});
  refused(with_tensors({{.name = "blk.0.attn_qkv.weight", .extents = {7}, .type = 8}}, 34),
          Code::kCorrupt, "blk.0.attn_qkv.weight", {"7"});
  refused(with_tensors({{.name = "output_norm.weight", .extents = {1024}}}, 100), Code::kCorrupt,
          "output_norm.weight", {"cut short"});
  refused(with_tensors({{.name = "output.weight", .offset = 31}}, 100), Code::kCorrupt,
          "output.weight", {"alignment"});
  refused(with_tensors({{.name = "blk.0.ffn_up.weight", .extents = {1, 1, 1, 1, 1, 1}}}, 100),
          Code::kCorrupt, "blk.0.ffn_up.weight", {"6 dimensions"});
}

}  // namespace
}  // namespace phidias
