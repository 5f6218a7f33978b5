#include "base/memory.h"

#include <cstdint>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace phidias {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// Below it the pages that a block only begins or ends in would be most of it.
constexpr size_t kSmallestHugeBlock = 4 * kHugePage;

}  // namespace

void* allocate_aligned(size_t bytes) {
  const bool huge = bytes >= kSmallestHugeBlock;
  const size_t alignment = huge ? kHugePage : kAlignment;
  if (bytes > SIZE_MAX - alignment) return nullptr;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* block = nullptr;
  if (::posix_memalign(&block, alignment, rounded) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
  // A hint. The last page is asked for only where it is all ours.
  if (huge) ::madvise(block, rounded / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return block;
}

void free_aligned(void* block) { std::free(block); }

}  // namespace phidias
