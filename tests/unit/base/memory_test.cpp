#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>

namespace phidias {
namespace {

TEST(Memory, BlocksAreAlignedToCacheLinesAndLargeOnesToHugePages) {
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{4096}, size_t{3} << 20}) {
    void* block = allocate_aligned(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kAlignment, 0U) << bytes;
    free_aligned(block);
  }
  void* block = allocate_aligned((size_t{32} << 20) + 5);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % (size_t{2} << 20), 0U);
  free_aligned(block);
}

TEST(Memory, SizesThatNoMemoryHasGiveNull) {
  EXPECT_EQ(allocate_aligned(SIZE_MAX), nullptr);
  EXPECT_EQ(allocate_aligned(SIZE_MAX / 2), nullptr);
}

TEST(Memory, ABufferWhoseBytesCannotBeCountedThrows) {
  EXPECT_THROW(AlignedBuffer<double>(SIZE_MAX / 4), std::bad_alloc);
}

TEST(Memory, ABufferGrowsAndNeverShrinks) {
  AlignedBuffer<int> buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  buffer.ensure(10);
  EXPECT_EQ(buffer.size(), 10U);
  const int* data = buffer.data();
  buffer.ensure(5);
  EXPECT_EQ(buffer.size(), 10U);
  EXPECT_EQ(buffer.data(), data);
}

}  // namespace
}  // namespace phidias
