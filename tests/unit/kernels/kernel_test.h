// Fixtures of the kernel tests: every table that this build has, and memory that traps over-reads.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "kernels/table.h"

namespace phidias::test {

// `count` values of T that end where an unreadable page begins.
template <typename T>
class GuardedArray {
 public:
  explicit GuardedArray(size_t count) : count_(count) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = (count * sizeof(T) + page - 1) / page * page;
    size_ = bytes + page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(base_ + bytes, page, PROT_NONE);
    data_ = reinterpret_cast<T*>(base_ + bytes - count * sizeof(T));
  }
  explicit GuardedArray(std::span<const T> values) : GuardedArray(values.size()) {
    if (!values.empty()) std::memcpy(data_, values.data(), values.size_bytes());
  }
  ~GuardedArray() { munmap(base_, size_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return count_; }
  T& operator[](size_t i) { return data_[i]; }
  std::span<T> span() { return {data_, count_}; }

 private:
  std::byte* base_ = nullptr;
  T* data_ = nullptr;
  size_t count_ = 0;
  size_t size_ = 0;
};

inline std::vector<float> normal_floats(size_t count, uint32_t seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Equal bits, so that NaN equals NaN and 0 differs from -0.
inline ::testing::AssertionResult same_bits(std::span<const float> got,
                                            std::span<const float> want) {
  if (got.size() != want.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = std::isnan(got[i]) && std::isnan(want[i]);
    if (!both_nan && std::memcmp(&got[i], &want[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << std::hexfloat << got[i] << " against " << want[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// Rows of activations quantized by a table, each array ending at an unreadable page. What is not
// written is garbage.
class QuantizedMemory {
 public:
  QuantizedMemory(const KernelTable& table, std::span<const float> x, size_t rows)
      : values_(x.size()),
        second_values_(x.size()),
        scales_(x.size() / kQuantGroup),
        sums_(scales_.size()),
        second_scales_(scales_.size()),
        second_sums_(scales_.size()) {
    std::memset(second_values_.data(), 0x55, second_values_.size());
    std::memset(second_sums_.data(), 0xFF, second_sums_.size() * sizeof(float));
    const size_t cols = x.size() / rows;
    for (size_t r = 0; r < rows; ++r) {
      const GuardedArray<float> row(x.subspan(r * cols, cols));
      table.quantize_q8(row.data(), this->rows().from(r, cols), cols);
    }
  }
  QuantizedRows rows() {
    return {values_.data(),        scales_.data(),        sums_.data(),
            second_values_.data(), second_scales_.data(), second_sums_.data()};
  }

 private:
  GuardedArray<int8_t> values_, second_values_;
  GuardedArray<float> scales_, sums_, second_scales_, second_sums_;
};

// One test for each table of this build; those that this CPU cannot run are skipped by name.
class EachTable : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  void SetUp() override {
    if (table_by_name(GetParam()->name) == nullptr) {
      GTEST_SKIP() << "this CPU cannot run the table " << GetParam()->name;
    }
  }
  const KernelTable& table() const { return *GetParam(); }
  static const KernelTable& scalar() { return *available_tables().front(); }
};

inline std::string table_name(const ::testing::TestParamInfo<const KernelTable*>& info) {
  return std::string(info.param->name);
}

#define PHIDIAS_FOR_EACH_TABLE(suite)                                                \
  INSTANTIATE_TEST_SUITE_P(Tables, suite,                                            \
                           ::testing::ValuesIn(::phidias::compiled_tables().begin(), \
                                               ::phidias::compiled_tables().end()),  \
                           ::phidias::test::table_name)

}  // namespace phidias::test
