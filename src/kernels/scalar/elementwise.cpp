#include <cmath>

#include "kernels/scalar/math.h"
#include "kernels/scalar/q8.h"
#include "kernels/scalar/scalar.h"
#include "quant/float16.h"

namespace phidias::scalar {
namespace {

void rms_norm(const float* x, const float* weight, float eps, float* y, size_t n) {
  double lanes[kDoubleLanes] = {};
  for (size_t i = 0; i < n; ++i) {
    const double value = x[i];
    double& lane = lanes[i % kDoubleLanes];
    lane = std::fma(value, value, lane);
  }
  const double mean = fold(lanes) / static_cast<double>(n);
  const float inverse = static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(eps)));
  for (size_t i = 0; i < n; ++i) y[i] = weight[i] * (x[i] * inverse);
}

void rope(float* head, const float* cosine, const float* sine, size_t half) {
  for (size_t i = 0; i < half; ++i) {
    const float a = head[i];
    const float b = head[i + half];
    head[i] = a * cosine[i] - b * sine[i];
    head[i + half] = b * cosine[i] + a * sine[i];
  }
}

void silu_mul(const float* gate, const float* up, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = up[i] * (gate[i] / (1.0F + exp_f32(-gate[i])));
}

void add(float* x, const float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] += y[i];
}

// One group: its values, its scale and scale * (sum of values).
void quantize_group(const float* x, int8_t* values, float* scale_out, float* sum_out) {
  const float scale = q8_scale(largest_magnitude(x, kQuantGroup));
  const float inverse = q8_inverse(scale);
  int32_t sum = 0;
  for (size_t i = 0; i < kQuantGroup; ++i) {
    values[i] = q8_value(x[i], inverse);
    sum += values[i];
  }
  *scale_out = scale;
  *sum_out = scale * static_cast<float>(sum);
}

void quantize_q8(const float* x, const QuantizedRows& row, size_t n) {
  double lanes[kDoubleLanes] = {};
  for (size_t i = 0; i < n; ++i) {
    const double value = x[i];
    double& lane = lanes[i % kDoubleLanes];
    lane = std::fma(value, value, lane);
  }
  const double limit = kSecondTermRms * std::sqrt(fold(lanes) / static_cast<double>(n));
  for (size_t g = 0; g < n / kQuantGroup; ++g) {
    const float* group = x + g * kQuantGroup;
    int8_t* values = row.values + g * kQuantGroup;
    quantize_group(group, values, row.scales + g, row.sums + g);
    row.second_scales[g] = 0;
    if (static_cast<double>(largest_magnitude(group, kQuantGroup)) > limit) {
      float rest[kQuantGroup];
      for (size_t i = 0; i < kQuantGroup; ++i) {
        rest[i] = std::fma(-row.scales[g], static_cast<float>(values[i]), group[i]);
      }
      quantize_group(rest, row.second_values + g * kQuantGroup, row.second_scales + g,
                     row.second_sums + g);
    }
  }
}

void round_bf16(const float* x, uint16_t* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = encode_bf16(x[i]);
}

size_t argmax(const float* x, size_t n) {
  size_t best = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return n;
    if (x[i] > x[best]) best = i;
  }
  return best;
}

}  // namespace

void fill_elementwise(KernelTable& table) {
  table.rms_norm = rms_norm;
  table.rope = rope;
  table.silu_mul = silu_mul;
  table.add = add;
  table.quantize_q8 = quantize_q8;
  table.argmax = argmax;
  table.round_bf16 = round_bf16;
  for (size_t i = 0; i < kKvTypeCount; ++i) {
    const KvTypeRow& row = kv_type_row(static_cast<KvType>(i));
    table.store_key[i] = row.store_key;
    table.store_value[i] = row.store_value;
  }
}

}  // namespace phidias::scalar
