// The bytes of an input as values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace phidias {

// Takes values off the front of the input; zeros once it is used up.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  template <typename T>
  T take() {
    T value{};
    const size_t count = std::min(sizeof value, size_);
    if (count > 0) std::memcpy(&value, data_, count);
    data_ += count;
    size_ -= count;
    return value;
  }
  // Half the time a number in a sensible range, else any bits at all.
  double number(double low, double high) {
    const auto selector = take<uint16_t>();
    return selector & 1 ? low + (high - low) * selector / 65535.0 : take<double>();
  }
  // From low to high, both inclusive.
  size_t within(size_t low, size_t high) { return low + take<uint16_t>() % (high - low + 1); }
  bool empty() const { return size_ == 0; }

 private:
  const uint8_t* data_;
  size_t size_;
};

inline void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace phidias
