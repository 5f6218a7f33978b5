// Owns the memory of the key-value cache: pages of equal size, handed to sequences as they grow,
// given back when they end. Pages are counted, so that forks share what they have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/kv_layout.h"
#include "phidias/status.h"

namespace phidias {

// The pages of one sequence. Copying shares them.
using PageList = std::vector<std::shared_ptr<std::byte>>;

// Not thread safe. Page lists must not outlive it.
class KvCache {
 public:
  // `budget` bytes at most are ever taken from the system.
  KvCache(const KvLayout& layout, uint64_t budget);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  const KvLayout& layout() const { return layout_; }
  size_t pages_for(size_t positions) const {
    return (positions + layout_.page_positions - 1) / layout_.page_positions;
  }

  // Lets `pages` hold `positions`. On an error `pages` is as it was.
  // Errors: kCapacityExceeded with the figures, kOutOfMemory.
  Status grow(PageList& pages, size_t positions);
  // Copies the page that position `positions` falls into, if it is shared: what is written from
  // there on must not be seen by others. Errors as grow().
  Status own_last(PageList& pages, size_t positions);
  // Gives back what lies beyond `positions`.
  void shrink(PageList& pages, size_t positions) const;

  uint64_t bytes_in_use() const { return in_use_ * layout_.page_bytes(); }
  uint64_t budget() const { return budget_; }

 private:
  Result<std::shared_ptr<std::byte>> take();

  KvLayout layout_;
  uint64_t budget_;
  size_t in_use_ = 0;
  std::vector<std::byte*> free_;
};

}  // namespace phidias
