// Any sequence of operations on the cache, beside a model of it that knows nothing of pages: what a
// sequence wrote is what it reads, whatever forks, cuts and ends around it; pages are counted right
// and refused only where there is no room; a refusal changes nothing.
#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "engine/kv_cache.h"
#include "fuzz_input.h"

namespace phidias {
namespace {

constexpr size_t kHeadDim = 6;

// Whole numbers, the largest 127: exact in every type, in q8 with a scale of 1.
using Vector = std::array<float, kHeadDim>;
Vector vector_of(uint32_t stamp) {
  Vector vector = {127};
  for (size_t d = 1; d < kHeadDim; ++d) {
    vector[d] = static_cast<float>(stamp % 127);
    stamp = stamp / 127 * 31 + stamp % 31;
  }
  return vector;
}

class Run {
 public:
  Run(FuzzInput& input, const KvLayout& layout, size_t most_pages)
      : input_(input),
        row_(kv_type_row(layout.type)),
        most_pages_(most_pages),
        cache_(layout, most_pages * page_bytes(layout) + input.within(0, page_bytes(layout) - 1)) {}

  void step() {
    const auto operation = input_.take<uint8_t>();
    const size_t most = 3 * layout().page_positions;
    switch (operation % 6) {
      case 0:
        sequences_.emplace_back();
        break;
      case 1:
        if (Sequence* sequence = choose()) extend(*sequence, input_.within(0, most));
        break;
      case 2:
        if (Sequence* sequence = choose()) fork(*sequence, input_.within(0, most));
        break;
      case 3:
        if (Sequence* sequence = choose()) truncate(*sequence, input_.within(0, most));
        break;
      case 4:  // reserved, and given up
        if (const Sequence* sequence = choose()) {
          PageList pages = sequence->pages;
          static_cast<void>(grow(pages, sequence->stamps.size() + input_.within(0, most)));
        }
        break;
      default:
        if (const Sequence* sequence = choose())
          sequences_.erase(sequences_.begin() + (sequence - sequences_.data()));
    }
    check_counts({});
  }

  void check_contents() const {
    for (const Sequence& sequence : sequences_) {
      require(sequence.pages.size() == cache_.pages_for(sequence.stamps.size()));
      for (size_t position = 0; position < sequence.stamps.size(); ++position) {
        each_vector(sequence.pages, position,
                    [&](std::byte* keys, std::byte* values, size_t slot, uint32_t part) {
                      Vector key, value;
                      row_.load_key(keys, slot, key.data(), kHeadDim);
                      row_.load_value(values, slot, value.data(), kHeadDim);
                      require(key == vector_of(sequence.stamps[position] + part));
                      require(value == vector_of(sequence.stamps[position] + part + 1));
                    });
      }
    }
  }

 private:
  struct Sequence {
    PageList pages;
    std::vector<uint32_t> stamps;  // what the model knows: one a position
  };

  static size_t page_bytes(const KvLayout& layout) { return (layout.page_bytes() + 63) / 64 * 64; }
  const KvLayout& layout() const { return cache_.layout(); }

  Sequence* choose() {
    if (sequences_.empty()) return nullptr;
    return &sequences_[input_.take<uint8_t>() % sequences_.size()];
  }

  // Pages that anyone holds.
  size_t held(const PageList& beside) const {
    std::set<const std::byte*> pages;
    for (const Sequence& sequence : sequences_) {
      for (const auto& page : sequence.pages) pages.insert(page.get());
    }
    for (const auto& page : beside) pages.insert(page.get());
    return pages.size();
  }
  void check_counts(const PageList& beside) const {
    require(cache_.bytes_in_use() == held(beside) * layout().page_bytes());
    require(held(beside) <= most_pages_);
  }

  bool grow(PageList& pages, size_t positions) {
    const PageList before = pages;
    const size_t needed = cache_.pages_for(positions);
    const size_t more = needed > pages.size() ? needed - pages.size() : 0;
    const bool fits = held({}) + more <= most_pages_;
    const Status status = cache_.grow(pages, positions);
    require(status.ok() == fits);
    if (!fits) {
      require(status.error().code == Code::kCapacityExceeded && pages == before);
    } else {
      require(pages.size() == before.size() + more);
      require(std::equal(before.begin(), before.end(), pages.begin()));
    }
    check_counts(pages);
    return fits;
  }
  // Whether the page of `position` could be made its own.
  bool own_last(PageList& pages, size_t position) {
    const size_t at = position / layout().page_positions;
    const bool inside = position % layout().page_positions != 0 && at < pages.size();
    const bool shared = inside && pages[at].use_count() > 1;
    const bool fits = !shared || held(pages) + 1 <= most_pages_;
    const std::byte* const before = inside ? pages[at].get() : nullptr;  // no owner of its own
    const Status status = cache_.own_last(pages, position);
    require(status.ok() == fits);
    require((inside && pages[at].get() != before) == (shared && fits));
    return fits;
  }

  // Calls f(keys, values, slot, part) for each layer and head of a position.
  template <typename F>
  void each_vector(const PageList& pages, size_t position, F f) const {
    std::byte* page = pages[position / layout().page_positions].get();
    uint32_t part = 0;
    for (size_t layer = 0; layer < layout().layers; ++layer) {
      for (size_t head = 0; head < layout().kv_heads; ++head) {
        f(page + layout().key_offset(layer, head), page + layout().value_offset(layer, head),
          position % layout().page_positions, part);
        part += 2;
      }
    }
  }

  void extend(Sequence& sequence, size_t count) {
    PageList pages = sequence.pages;
    if (!grow(pages, sequence.stamps.size() + count)) return;
    sequence.pages = std::move(pages);
    for (size_t i = 0; i < count; ++i) {
      next_stamp_ += 1000;
      each_vector(sequence.pages, sequence.stamps.size(),
                  [&](std::byte* keys, std::byte* values, size_t slot, uint32_t part) {
                    row_.store_key(vector_of(next_stamp_ + part).data(), keys, slot, kHeadDim);
                    row_.store_value(vector_of(next_stamp_ + part + 1).data(), values, slot,
                                     kHeadDim);
                  });
      sequence.stamps.push_back(next_stamp_);
    }
  }

  void fork(const Sequence& sequence, size_t length) {
    Sequence copy = sequence;
    copy.stamps.resize(std::min(length, copy.stamps.size()));
    cache_.shrink(copy.pages, copy.stamps.size());
    if (own_last(copy.pages, copy.stamps.size())) sequences_.push_back(std::move(copy));
  }

  void truncate(Sequence& sequence, size_t length) {
    length = std::min(length, sequence.stamps.size());
    if (!own_last(sequence.pages, length)) return;
    cache_.shrink(sequence.pages, length);
    sequence.stamps.resize(length);
  }

  FuzzInput& input_;
  const KvTypeRow& row_;
  size_t most_pages_;
  KvCache cache_;
  std::vector<Sequence> sequences_;  // after cache_: pages are returned to it
  uint32_t next_stamp_ = 0;
};

}  // namespace
}  // namespace phidias

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phidias;
  FuzzInput input(data, size);
  ModelSpec spec;
  spec.layers = static_cast<uint32_t>(input.within(1, 3));
  spec.attention.kv_heads = static_cast<uint32_t>(input.within(1, 2));
  spec.attention.head_dim = kHeadDim;
  const auto type = static_cast<KvType>(input.within(0, kKvTypeCount - 1));
  const KvLayout layout(spec, type, input.within(1, 40));
  Run run(input, layout, input.within(0, 12));
  for (int steps = 0; steps < 200 && !input.empty(); ++steps) run.step();
  run.check_contents();
  return 0;
}
