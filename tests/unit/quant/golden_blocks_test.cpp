// The blocks of the reference data: decoding gives the same floats bit for bit, and the encoders
// that follow ggml give the same bytes.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "quant/format.h"
#include "support/reference.h"

namespace phidias {
namespace {

// Reads raw ranges by the header alone: the U8 tensors are no weights, so no reader of ours lists
// them.
class Golden {
 public:
  explicit Golden(const std::filesystem::path& path) : file_(MappedFile::open(path).value()) {
    const std::span<const std::byte> bytes = file_->bytes();
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    simdjson::dom::parser parser;
    const simdjson::padded_string text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
    for (const auto& [name, value] : parser.parse(text).get_object()) {
      uint64_t begin = 0;
      uint64_t end = 0;
      if (value["data_offsets"].at(0).get(begin) != simdjson::SUCCESS) continue;
      if (value["data_offsets"].at(1).get(end) != simdjson::SUCCESS) continue;
      ranges_[std::string(name)] = bytes.subspan(8 + length + begin, end - begin);
    }
  }

  std::span<const std::byte> bytes(const std::string& name) const { return ranges_.at(name); }
  std::vector<float> floats(const std::string& name) const {
    std::vector<float> values(bytes(name).size() / sizeof(float));
    std::memcpy(values.data(), bytes(name).data(), values.size() * sizeof(float));
    return values;
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, std::span<const std::byte>> ranges_;
};

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// A few rows that the project carries, and all of them where the reference data are.
const std::filesystem::path kCarried = test::data("quant/blocks.safetensors");
const std::filesystem::path kWhole = test::reference("gguf/types.safetensors");

void decodes_bit_for_bit(const FormatRow& row, const std::filesystem::path& path) {
  const Golden golden(path);
  const auto raw = golden.bytes(std::string(row.name) + ".raw");
  const std::vector<float> expected = golden.floats(std::string(row.name) + ".f32");
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(raw.size(), row.row_bytes(expected.size()));
  std::vector<float> decoded(expected.size());
  row.decode(raw.data(), decoded.data(), decoded.size());
  for (size_t i = 0; i < decoded.size(); ++i) {
    ASSERT_EQ(bits_of(decoded[i]), bits_of(expected[i]))
        << "block " << i / row.block_values << ", value " << i % row.block_values << ": got "
        << decoded[i] << ", expected " << expected[i];
  }
}

void encodes_byte_for_byte(const FormatRow& row, const std::filesystem::path& path) {
  const Golden golden(path);
  const std::vector<float> source = golden.floats("source");
  const auto expected = golden.bytes(std::string(row.name) + ".raw");
  ASSERT_FALSE(source.empty());
  ASSERT_EQ(expected.size(), row.row_bytes(source.size()));
  std::vector<std::byte> encoded(expected.size());
  row.encode(source.data(), encoded.data(), source.size());
  for (size_t i = 0; i < encoded.size(); ++i) {
    ASSERT_EQ(encoded[i], expected[i])
        << "block " << i / row.block_bytes << ", byte " << i % row.block_bytes;
  }
}

std::string name_of(const ::testing::TestParamInfo<Format>& test) {
  return std::string(format_row(test.param).name);
}

class GoldenBlocks : public ::testing::TestWithParam<Format> {};

TEST_P(GoldenBlocks, DecodeToTheCarriedRowsBitForBit) {
  decodes_bit_for_bit(format_row(GetParam()), kCarried);
}

TEST_P(GoldenBlocks, DecodeToTheReferenceBitForBit) {
  PHIDIAS_NEEDS_REFERENCE(kWhole);
  decodes_bit_for_bit(format_row(GetParam()), kWhole);
}

INSTANTIATE_TEST_SUITE_P(Formats, GoldenBlocks,
                         ::testing::Values(Format::kF16, Format::kBF16, Format::kQ8_0,
                                           Format::kQ4_0, Format::kQ4_1, Format::kQ5_0,
                                           Format::kQ5_1, Format::kQ4_K, Format::kQ5_K,
                                           Format::kQ6_K),
                         name_of);

class GoldenEncoders : public ::testing::TestWithParam<Format> {};

TEST_P(GoldenEncoders, GiveTheBytesOfTheCarriedRows) {
  encodes_byte_for_byte(format_row(GetParam()), kCarried);
}

TEST_P(GoldenEncoders, GiveTheBytesOfTheReference) {
  PHIDIAS_NEEDS_REFERENCE(kWhole);
  encodes_byte_for_byte(format_row(GetParam()), kWhole);
}

INSTANTIATE_TEST_SUITE_P(Formats, GoldenEncoders,
                         ::testing::Values(Format::kF16, Format::kBF16, Format::kQ8_0,
                                           Format::kQ4_0, Format::kQ4_1, Format::kQ5_0,
                                           Format::kQ5_1),
                         name_of);

}  // namespace
}  // namespace phidias
