#include <cmath>

#include "kernels/avx2/vec.h"
#include "kernels/isa.h"
#include "kernels/order.h"

namespace phidias::avx2 {
namespace {

void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* y,
                size_t count) {
  const size_t whole = count / kDoubleLanes * kDoubleLanes;
  Vec::Doubles sums = Vec::zero_f64();
  for (size_t i = 0; i < whole; i += kDoubleLanes) sums = Vec::add(sums, Vec::widen(x + i));
  if (whole < count) sums = Vec::add(sums, Vec::widen_partial(x + whole, count - whole));
  const double mean = Vec::fold(sums) / static_cast<double>(count);

  Vec::Doubles squares = Vec::zero_f64();
  for (size_t i = 0; i < whole; i += kDoubleLanes) {
    const Vec::Doubles difference = Vec::sub(Vec::widen(x + i), Vec::set_f64(mean));
    squares = Vec::fma(difference, difference, squares);
  }
  if (whole < count) {
    // One by one: lanes beyond the row must not see its mean.
    double lanes[kDoubleLanes];
    Vec::store_f64(lanes, squares);
    for (size_t i = whole; i < count; ++i) {
      const double difference = static_cast<double>(x[i]) - mean;
      lanes[i - whole] = __builtin_fma(difference, difference, lanes[i - whole]);
    }
    squares = Vec::load_f64(lanes);
  }
  const double variance = Vec::fold(squares) / static_cast<double>(count);
  const __m128d root =
      _mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(variance + static_cast<double>(eps)));
  const __m256 inverse = Vec::set(static_cast<float>(1.0 / _mm_cvtsd_f64(root)));
  const __m256 middle = Vec::set(static_cast<float>(mean));
  const auto scaled = [&](__m256 value, __m256 scale, __m256 offset) {
    return Vec::add(Vec::mul(Vec::mul(Vec::sub(value, middle), inverse), scale), offset);
  };
  for (size_t i = 0; i < whole; i += Vec::kLanes) {
    Vec::store(y + i, scaled(Vec::load(x + i), Vec::load(weight + i), Vec::load(bias + i)));
  }
  if (whole < count) {
    const size_t n = count - whole;
    Vec::store_partial(y + whole,
                       scaled(Vec::load_partial(x + whole, n), Vec::load_partial(weight + whole, n),
                              Vec::load_partial(bias + whole, n)),
                       n);
  }
}

}  // namespace

void fill_layer_norm(KernelTable& table) { table.layer_norm = layer_norm; }

}  // namespace phidias::avx2
