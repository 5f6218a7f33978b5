#include "base/random.h"

#include <Random123/threefry.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/try.h"

namespace phidias {
namespace {

constexpr uint32_t low_word(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t high_word(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

std::array<uint32_t, 2> threefry_2x32_20(RandomKey key, std::array<uint32_t, 2> counter) {
  const threefry2x32_ctr_t out = threefry2x32_R(20, threefry2x32_ctr_t{{counter[0], counter[1]}},
                                                threefry2x32_key_t{{key.words[0], key.words[1]}});
  return {out.v[0], out.v[1]};
}

RandomKey draw_key(uint64_t seed, uint32_t choice, uint32_t position) {
  return {threefry_2x32_20({{low_word(seed), high_word(seed)}}, {choice, position})};
}

void draw_bits(RandomKey key, std::span<const uint32_t> ids, std::span<uint64_t> bits) {
  PHIDIAS_ASSERT(ids.size() == bits.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto [low, high] = threefry_2x32_20(key, {ids[i], 0});
    bits[i] = uint64_t{high} << 32 | low;
  }
}

double open_uniform(uint64_t bits) {
  // 2b + 1 has 53 bits: with one bit more it would be rounded, and the last step would end at 1.
  return static_cast<double>((bits >> 12) * 2 + 1) * 0x1p-53;
}

double gumbel(double u) { return -portable_log(-portable_log(u)); }

double gumbel_bound(uint64_t bits) {
  // -log(u) >= 1 - u, and 1 - u >= 2^-(k+1) where u begins with k binary ones; hence gumbel(u) <=
  // (k + 1) log(2). The last term covers the rounding of gumbel().
  const int leading_ones = std::countl_one(bits >> 12 << 12);
  return (leading_ones + 1) * std::numbers::ln2 + 1e-12;
}

double portable_log(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  // log(m) = 2 artanh(t), t = (m - 1) / (m + 1). As |t| < 0.172, the first term left out is below
  // 2^-60 of t.
  const double t = (mantissa - 1) / (mantissa + 1);
  const double square = t * t;
  double series = 0;
  for (int term = 21; term >= 3; term -= 2) series = (series + 1.0 / term) * square;
  return exponent * std::numbers::ln2 + 2 * (t + t * series);
}

std::vector<RandomKey> split(RandomKey key, size_t count) {
  std::vector<RandomKey> keys(count);
  for (size_t i = 0; i < count; ++i) {
    keys[i] = {threefry_2x32_20(key, {high_word(i), low_word(i)})};
  }
  return keys;
}

uint32_t bits_at(RandomKey key, uint64_t index) {
  const auto [first, second] = threefry_2x32_20(key, {high_word(index), low_word(index)});
  return first ^ second;
}

double uniform_23(uint32_t bits, UniformMapping mapping) {
  const double half = mapping == UniformMapping::kHalfStep ? 0.5 : 0.0;
  return ((bits >> 9) + half) * 0x1p-23;
}

}  // namespace phidias
