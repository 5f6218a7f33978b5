#include "kernels/kv_types.h"

#include <cstring>

#include "kernels/scalar/q8.h"
#include "quant/float16.h"

namespace phidias {
namespace {

struct F32 {
  static constexpr size_t kBytes = 4;
  static void put(float x, std::byte* dst) { std::memcpy(dst, &x, sizeof(x)); }
  static float get(const std::byte* src) {
    float x;
    std::memcpy(&x, src, sizeof(x));
    return x;
  }
};

template <uint16_t (*kEncode)(float), float (*kDecode)(uint16_t)>
struct Half {
  static constexpr size_t kBytes = 2;
  static void put(float x, std::byte* dst) {
    const uint16_t bits = kEncode(x);
    std::memcpy(dst, &bits, sizeof(bits));
  }
  static float get(const std::byte* src) {
    uint16_t bits;
    std::memcpy(&bits, src, sizeof(bits));
    return kDecode(bits);
  }
};
using F16 = Half<encode_f16, decode_f16>;
using BF16 = Half<encode_bf16, decode_bf16>;

enum class Part : uint8_t { kKeys, kValues };

// Where the elements of a vector lie from the begin of its page: element d at first + d * step.
struct Place {
  size_t first;
  size_t step;
};
Place place_of(Part part, size_t slot, size_t dim, size_t element_bytes, size_t block_bytes) {
  const size_t block = slot / kKvBlock * block_bytes;
  const size_t lane = slot % kKvBlock * element_bytes;
  if (part == Part::kKeys) return {block + lane, kKvBlock * element_bytes};
  return {block + lane * dim, element_bytes};
}

template <class Element>
size_t plain_bytes(size_t dim) {
  return kKvBlock * dim * Element::kBytes;
}
template <class Element, Part kPart>
void store(const float* src, std::byte* page, size_t slot, size_t dim) {
  const Place place = place_of(kPart, slot, dim, Element::kBytes, plain_bytes<Element>(dim));
  for (size_t d = 0; d < dim; ++d) Element::put(src[d], page + place.first + d * place.step);
}
template <class Element, Part kPart>
void load(const std::byte* page, size_t slot, float* dst, size_t dim) {
  const Place place = place_of(kPart, slot, dim, Element::kBytes, plain_bytes<Element>(dim));
  for (size_t d = 0; d < dim; ++d) dst[d] = Element::get(page + place.first + d * place.step);
}

size_t q8_bytes(size_t dim) { return kKvBlock * (dim + sizeof(float)); }
size_t q8_scale_place(size_t slot, size_t dim) {
  return slot / kKvBlock * q8_bytes(dim) + kKvBlock * dim + slot % kKvBlock * sizeof(float);
}
template <Part kPart>
void store_q8(const float* src, std::byte* page, size_t slot, size_t dim) {
  const Place place = place_of(kPart, slot, dim, 1, q8_bytes(dim));
  const float scale = q8_scale(largest_magnitude(src, dim));
  const float inverse = q8_inverse(scale);
  for (size_t d = 0; d < dim; ++d) {
    page[place.first + d * place.step] = static_cast<std::byte>(q8_value(src[d], inverse));
  }
  F32::put(scale, page + q8_scale_place(slot, dim));
}
template <Part kPart>
void load_q8(const std::byte* page, size_t slot, float* dst, size_t dim) {
  const Place place = place_of(kPart, slot, dim, 1, q8_bytes(dim));
  const float scale = F32::get(page + q8_scale_place(slot, dim));
  for (size_t d = 0; d < dim; ++d) {
    const auto value = static_cast<int8_t>(page[place.first + d * place.step]);
    dst[d] = scale * static_cast<float>(value);
  }
}

template <class Element>
constexpr KvTypeRow plain(KvType type, std::string_view name) {
  return {type,
          name,
          plain_bytes<Element>,
          store<Element, Part::kKeys>,
          store<Element, Part::kValues>,
          load<Element, Part::kKeys>,
          load<Element, Part::kValues>};
}

constexpr KvTypeRow kRows[kKvTypeCount] = {
    plain<F32>(KvType::kF32, "f32"),
    plain<F16>(KvType::kF16, "f16"),
    plain<BF16>(KvType::kBF16, "bf16"),
    {KvType::kQ8, "q8", q8_bytes, store_q8<Part::kKeys>, store_q8<Part::kValues>,
     load_q8<Part::kKeys>, load_q8<Part::kValues>},
};

}  // namespace

const KvTypeRow& kv_type_row(KvType type) { return kRows[index_of(type)]; }

}  // namespace phidias
