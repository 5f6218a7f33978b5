// Memory for numbers: aligned to a cache line, large blocks in huge pages.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace phidias {

inline constexpr size_t kAlignment = 64;

// At least `bytes` bytes, aligned to 64, not initialised; null where there is no memory. A block of
// several huge pages asks the system for such pages: what streams through it then meets fewer page
// borders. Given back by free_aligned(). Thread safe.
void* allocate_aligned(size_t bytes);
void free_aligned(void* block);

// A block of `count` values of T, aligned to 64 bytes, not initialised. Throws std::bad_alloc like
// new does; whoever sizes a block by a user's wish catches it.
template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t count) : size_(count) {
    if (count == 0) return;
    if (count * sizeof(T) / sizeof(T) < count) throw std::bad_alloc();
    data_.reset(static_cast<T*>(allocate_aligned(count * sizeof(T))));
    if (!data_) throw std::bad_alloc();
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  std::span<T> span() { return {data_.get(), size_}; }
  std::span<const T> span() const { return {data_.get(), size_}; }
  // Grows to at least `count`, losing the contents.
  void ensure(size_t count) {
    if (count > size_) *this = AlignedBuffer(count);
  }

 private:
  struct Free {
    void operator()(T* p) const { free_aligned(p); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t size_ = 0;
};

}  // namespace phidias
