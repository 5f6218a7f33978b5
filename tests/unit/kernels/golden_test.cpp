// Reference values: products with blocks of every format, and GEGELU.
#include <cmath>

#include "base/json.h"
#include "base/mapped_file.h"
#include "kernel_test.h"
#include "support/reference.h"
#include "support/tolerance.h"

namespace phidias::test {
namespace {

constexpr size_t kOuts = 64;
constexpr size_t kCols = 512;
constexpr size_t kRows = 4;

// The tensors of a safetensors file as bytes, whatever their type.
class RawTensors {
 public:
  explicit RawTensors(const std::filesystem::path& path) {
    auto file = MappedFile::open(path);
    EXPECT_TRUE(file.ok());
    file_ = std::move(file).value();
    const std::span<const std::byte> bytes = file_->bytes();
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    data_ = bytes.subspan(sizeof(length) + length);
    auto header = parse_json(
        std::string_view(reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length));
    EXPECT_TRUE(header.ok());
    header_ = std::move(header).value();
  }
  std::span<const std::byte> bytes(const std::string& name) const {
    const auto offsets = header_.at(name).at("data_offsets");
    const size_t begin = offsets.at(0).get<size_t>();
    return data_.subspan(begin, offsets.at(1).get<size_t>() - begin);
  }
  std::vector<float> floats(const std::string& name) const {
    const std::span<const std::byte> source = bytes(name);
    std::vector<float> values(source.size() / sizeof(float));
    std::memcpy(values.data(), source.data(), source.size());
    return values;
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> data_;
  Json header_;
};

using Golden = EachTable;
PHIDIAS_FOR_EACH_TABLE(Golden);

TEST_P(Golden, DotProductsLieWithinTheReferenceDistances) {
  // The largest distances found with other float products, 6e-7 to one digit, and with activations
  // in 8-bit blocks of 32, in units of the weight row's Euclidean norm.
  constexpr double kFloatDistance = 6.5e-7;
  constexpr double kQuantizedDistance = 0.021;

  const std::filesystem::path path = reference("gguf/types.safetensors");
  PHIDIAS_NEEDS_REFERENCE(path);
  const RawTensors tensors(path);
  std::vector<float> x = tensors.floats("activation");
  QuantizedMemory quantized(table(), x, 1);
  AlignedBuffer<float> scratch(matmul_scratch_floats(kCols));

  for (const FormatRow& format : format_rows()) {
    // The file holds none of F32, and ours is no one else's.
    if (format.format == Format::kF32 || format.format == Format::kQ4) continue;
    const std::string name(format.name);
    const std::vector<float> weights = tensors.floats(name + ".f32");
    const std::vector<float> want = tensors.floats(name + ".dot");
    const auto check = [&](MatmulFn matmul, double distance) {
      std::vector<float> y(kRows * kOuts);
      MatmulArgs args;
      args.weights = tensors.bytes(name + ".raw").data();
      args.row_bytes = format.row_bytes(kCols);
      args.cols = kCols;
      args.out_end = kOuts;
      args.x = x.data();
      args.x_stride = kCols;
      args.q = quantized.rows();
      args.rows = kRows;
      args.y = y.data();
      args.y_stride = kOuts;
      args.scratch = scratch.data();
      matmul(args);
      for (size_t o = 0; o < kOuts; ++o) {
        double squares = 0;
        for (size_t i = 0; i < kCols; ++i) squares += std::pow(double{weights[o * kCols + i]}, 2);
        for (size_t r = 0; r < kRows; ++r) {
          ASSERT_NEAR(y[r * kOuts + o], want[r * kOuts + o], distance * std::sqrt(squares))
              << name << " row " << r << " out " << o;
        }
      }
    };
    check(table().matmul_f32[index_of(format.format)], kFloatDistance);
    if (const MatmulFn q8 = table().matmul_q8[index_of(format.format)]) {
      check(q8, kQuantizedDistance);
    }
  }
}

TEST_P(Golden, GegeluEqualsTheReferenceAtEveryLimitWithInfinitiesAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::filesystem::path path = reference("models/phi3small-8k/gegelu.safetensors");
  PHIDIAS_NEEDS_REFERENCE(path);
  const RawTensors tensors(path);
  const std::vector<float> input = tensors.floats("input");
  for (const auto& [name, limit] : {std::pair("limit_20", 20.0F), std::pair("limit_2", 2.0F),
                                    std::pair("no_limit", kInfinity)}) {
    const std::vector<float> want = tensors.floats(name);
    ASSERT_EQ(want.size(), input.size() / 2);
    std::vector<float> got(want.size()), plain(want.size());
    table().gegelu(input.data(), limit, got.data(), got.size());
    scalar().gegelu(input.data(), limit, plain.data(), plain.size());
    ASSERT_TRUE(same_bits(got, plain)) << name;
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << name << " " << i;
      } else if (std::isinf(want[i])) {
        EXPECT_EQ(got[i], want[i]) << name << " " << i;
      } else {
        // Two evaluations of the same formula, each within a few roundings and an exponential of
        // an argument that is itself rounded: 1.702 * 50 with 2^-24 of relative error.
        EXPECT_NEAR(got[i], want[i], 2 * (gamma(12) + 86 * gamma(1)) * std::fabs(want[i])) << i;
      }
    }
  }
}

}  // namespace
}  // namespace phidias::test
