#include "engine/kv_cache.h"

#include <cstring>

#include "base/memory.h"
#include "base/try.h"

namespace phidias {

KvCache::KvCache(const KvLayout& layout, uint64_t budget) : layout_(layout), budget_(budget) {}

KvCache::~KvCache() {
  for (std::byte* page : free_) free_aligned(page);
}

Result<std::shared_ptr<std::byte>> KvCache::take() {
  if (free_.empty()) {
    const size_t bytes = (layout_.page_bytes() + kAlignment - 1) / kAlignment * kAlignment;
    if ((in_use_ + 1) * static_cast<uint64_t>(bytes) > budget_) {
      const uint64_t positions = budget_ / bytes * layout_.page_positions;
      std::string message = "the key-value cache may take " + std::to_string(budget_) +
                            " bytes, which hold " + std::to_string(positions) + " positions of " +
                            std::to_string(layout_.bytes_per_position()) +
                            " bytes, all sequences together; ";
      message += positions > 0 ? "use a context of at most " + std::to_string(positions) +
                                     " (--ctx), a smaller cache type (--kv q8), or fewer sequences "
                                     "at once"
                               : "give it more (--cache-budget)";
      return Error{Code::kCapacityExceeded, std::move(message), {}};
    }
    auto* page = static_cast<std::byte*>(allocate_aligned(bytes));
    if (page == nullptr) {
      return Error{Code::kOutOfMemory,
                   "no memory for a cache page of " + std::to_string(bytes) + " bytes",
                   {}};
    }
    free_.push_back(page);
  }
  std::byte* page = free_.back();
  free_.pop_back();
  ++in_use_;
  return std::shared_ptr<std::byte>(page, [this](std::byte* returned) {
    free_.push_back(returned);
    --in_use_;
  });
}

Status KvCache::grow(PageList& pages, size_t positions) {
  PageList grown = pages;
  while (grown.size() < pages_for(positions)) {
    PHIDIAS_TRY(auto page, take());
    grown.push_back(std::move(page));
  }
  pages = std::move(grown);
  return {};
}

Status KvCache::own_last(PageList& pages, size_t positions) {
  if (positions % layout_.page_positions == 0 || positions / layout_.page_positions >= pages.size())
    return {};
  auto& last = pages[positions / layout_.page_positions];
  if (last.use_count() == 1) return {};
  PHIDIAS_TRY(auto copy, take());
  std::memcpy(copy.get(), last.get(), layout_.page_bytes());
  last = std::move(copy);
  return {};
}

void KvCache::shrink(PageList& pages, size_t positions) const {
  if (pages.size() > pages_for(positions)) pages.resize(pages_for(positions));
}

}  // namespace phidias
