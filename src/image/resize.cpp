#include "image/resize.h"

#include <algorithm>
#include <cmath>

namespace phidias {
namespace {

constexpr int kPrecisionBits = 22;
constexpr int32_t kHalf = 1 << (kPrecisionBits - 1);

// For each output the inputs it is made of and their weights, which add up to about 1 << 22: with
// bytes of 255 the sum stays below 2^31.
struct Filter {
  struct Output {
    uint32_t first;
    uint32_t count;
    size_t weights;  // index of the first one
  };
  std::vector<Output> outputs;
  std::vector<int32_t> weights;
};

Filter triangle_filter(uint32_t inputs, uint32_t outputs) {
  const double scale = static_cast<double>(inputs) / outputs;
  const double support = std::max(scale, 1.0);
  const double inverse = 1.0 / support;
  Filter filter;
  std::vector<double> shares;
  for (uint32_t x = 0; x < outputs; ++x) {
    const double center = (x + 0.5) * scale;
    const auto first = static_cast<uint32_t>(std::floor(std::max(center - support + 0.5, 0.0)));
    const auto last = std::min(static_cast<uint32_t>(std::floor(center + support + 0.5)), inputs);
    shares.clear();
    double total = 0;
    for (uint32_t i = first; i < last; ++i) {
      shares.push_back(std::max(0.0, 1.0 - std::abs((i - center + 0.5) * inverse)));
      total += shares.back();
    }
    filter.outputs.push_back({first, last - first, filter.weights.size()});
    for (const double share : shares) {
      filter.weights.push_back(
          total > 0 ? static_cast<int32_t>(std::floor(0.5 + share / total * (1 << kPrecisionBits)))
                    : 0);
    }
  }
  return filter;
}

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

RgbImage resize_width(const RgbImage& image, uint32_t width) {
  const Filter filter = triangle_filter(image.width, width);
  RgbImage result(width, image.height);
  for (size_t y = 0; y < image.height; ++y) {
    const uint8_t* source = image.row(y);
    uint8_t* target = result.row(y);
    for (const Filter::Output& output : filter.outputs) {
      int32_t sums[3] = {kHalf, kHalf, kHalf};
      const uint8_t* pixel = source + size_t{3} * output.first;
      const int32_t* weight = filter.weights.data() + output.weights;
      for (uint32_t i = 0; i < output.count; ++i, pixel += 3) {
        for (size_t c = 0; c < 3; ++c) sums[c] += pixel[c] * weight[i];
      }
      for (const int32_t sum : sums) *target++ = to_byte(sum);
    }
  }
  return result;
}

RgbImage resize_height(const RgbImage& image, uint32_t height) {
  const Filter filter = triangle_filter(image.height, height);
  RgbImage result(image.width, height);
  std::vector<int32_t> sums(image.stride());
  for (size_t y = 0; y < height; ++y) {
    const Filter::Output& output = filter.outputs[y];
    std::fill(sums.begin(), sums.end(), kHalf);
    for (uint32_t i = 0; i < output.count; ++i) {
      const uint8_t* source = image.row(output.first + i);
      const int32_t weight = filter.weights[output.weights + i];
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += source[x] * weight;
    }
    std::transform(sums.begin(), sums.end(), result.row(y), to_byte);
  }
  return result;
}

}  // namespace

RgbImage resize_bilinear(const RgbImage& image, uint32_t width, uint32_t height, Axis first) {
  RgbImage result = image;
  for (const Axis axis : {Axis::kHorizontal, Axis::kVertical}) {
    const bool horizontal = (axis == Axis::kHorizontal) == (first == Axis::kHorizontal);
    if (horizontal && result.width != width) result = resize_width(result, width);
    if (!horizontal && result.height != height) result = resize_height(result, height);
  }
  return result;
}

}  // namespace phidias
