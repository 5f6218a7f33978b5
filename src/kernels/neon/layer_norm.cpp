#include "kernels/isa.h"
#include "kernels/neon/runs.h"

namespace phidias::neon {
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
  const double root = __builtin_sqrt(variance + static_cast<double>(eps));
  const float32x4_t inverse = Vec::set(static_cast<float>(1.0 / root));
  const float32x4_t middle = Vec::set(static_cast<float>(mean));
  each_run(count, [&](size_t i, size_t n) {
    const float32x4_t value = Vec::mul(Vec::sub(load(x + i, n), middle), inverse);
    store(y + i, Vec::add(Vec::mul(value, load(weight + i, n)), load(bias + i, n)), n);
  });
}

}  // namespace

void fill_layer_norm(KernelTable& table) { table.layer_norm = layer_norm; }

}  // namespace phidias::neon
