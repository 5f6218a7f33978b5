#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/reference.h"
#include "unit/formats/file_bytes.h"

namespace phidias {
namespace {

using test::FileBytes;

TEST(Safetensors, TheFileOfThisProjectIsRead) {
  const auto file = SafetensorsFile::open(test::data("formats/tiny.safetensors"));
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->metadata.at("format"), "pt");
  ASSERT_EQ(file->tensors.size(), 2U);
  const TensorEntry& weight = file->tensors[0];
  EXPECT_EQ(weight.name, "weight");
  EXPECT_EQ(weight.format, Format::kF32);
  EXPECT_EQ(weight.shape, (std::vector<uint64_t>{2, 3}));
  float values[6];
  ASSERT_EQ(weight.bytes, sizeof(values));
  std::memcpy(values, weight.data, sizeof(values));
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(values[i], static_cast<float>(i) - 2.5F);
  EXPECT_EQ(weight.data, file->file->bytes().data() + weight.offset);
  EXPECT_EQ(file->tensors[1].format, Format::kBF16);
  ASSERT_EQ(file->ignored.size(), 1U);
  EXPECT_EQ(file->ignored[0].name, "position_ids");
  EXPECT_EQ(file->ignored[0].dtype, "I64");
}

TEST(Safetensors, TensorsComeInTheOrderOfTheirData) {
  const auto bytes = FileBytes()
                         .text(R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[4,6]},)"
                               R"("b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})")
                         .fill(6);
  const auto file = SafetensorsFile::parse(bytes.span(), "f");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  ASSERT_EQ(file->tensors.size(), 2U);
  EXPECT_EQ(file->tensors[0].name, "b");
  EXPECT_TRUE(file->tensors[0].shape.empty());
  EXPECT_EQ(file->tensors[1].name, "a");
}

TEST(Safetensors, TensorsWithoutValuesAreAllowed) {
  const auto bytes = FileBytes()
                         .text(R"({"none":{"dtype":"F32","shape":[0,4],"data_offsets":[4,4]},)"
                               R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})")
                         .fill(4);
  const auto file = SafetensorsFile::parse(bytes.span(), "f");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->tensors[1].bytes, 0U);
}

TEST(Safetensors, AHeaderMayBePaddedWithSpacesAndHoldNothing) {
  EXPECT_TRUE(SafetensorsFile::parse(FileBytes().text("{}      ").span(), "f").ok());
}

TEST(Safetensors, OtherDtypesAreListedNotRead) {
  const auto bytes =
      FileBytes()
          .text(R"({"mask":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]},)"
                R"("scale":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[2,5]},)"
                R"("new":{"dtype":"F2_SOMETHING","shape":[4],"data_offsets":[5,6]}})")
          .fill(6);
  const auto file = SafetensorsFile::parse(bytes.span(), "f");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_TRUE(file->tensors.empty());
  ASSERT_EQ(file->ignored.size(), 3U);
  EXPECT_EQ(file->ignored[1].dtype, "F8_E4M3");
  EXPECT_EQ(file->ignored[2].name, "new");
}

TEST(Safetensors, NamesAreUnescaped) {
  const auto bytes =
      FileBytes()
          .text(R"({"a\u00e9\"":{"dtype":"BF16","shape":[1],"data_offsets":[0,2],"note":null}})")
          .fill(2);
  const auto file = SafetensorsFile::parse(bytes.span(), "f");
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->tensors[0].name, "a\xC3\xA9\"");
}

TEST(SafetensorsReference, TheGoldenBlocksAreRead) {
  const auto path = test::reference("gguf/types.safetensors");
  PHIDIAS_NEEDS_REFERENCE(path);
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->tensors.size(), 2U + 2 * 24);  // source, activation; .f32 and .dot of 24 types
  EXPECT_EQ(file->ignored.size(), 24U);          // .raw
}

}  // namespace
}  // namespace phidias
