// Which keys a query sees, for the kernels of every instruction set. Always inlined, so that a file
// compiled for one never lends its copy to another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phidias {

// Calls run(begin, end) for the runs of positions within [begin, end) that lie in visible parts,
// ascending. `list` and `part_positions` as AttentionArgs has them; without a list all is visible.
template <class F>
[[gnu::always_inline]] inline void for_each_visible_run(const uint64_t* list, size_t part_positions,
                                                        size_t begin, size_t end, F&& run) {
  if (list == nullptr) {
    if (begin < end) run(begin, end);
    return;
  }
  const auto is_visible = [&](size_t part) { return ((list[part / 64] >> (part % 64)) & 1) != 0; };
  while (begin < end) {
    size_t part = begin / part_positions;
    size_t part_end = (part + 1) * part_positions;
    if (is_visible(part)) {
      while (part_end < end && is_visible(++part)) part_end += part_positions;
      run(begin, part_end < end ? part_end : end);
    }
    begin = part_end;
  }
}

// As above, cut at the ends of pages: run(page, first slot, end slot).
template <class F>
[[gnu::always_inline]] inline void for_each_page_run(const uint64_t* list, size_t part_positions,
                                                     size_t page_positions, size_t begin,
                                                     size_t end, F&& run) {
  for_each_visible_run(list, part_positions, begin, end, [&](size_t from, size_t to) {
    while (from < to) {
      const size_t page = from / page_positions;
      const size_t page_begin = page * page_positions;
      const size_t stop = page_begin + page_positions < to ? page_begin + page_positions : to;
      run(page, from - page_begin, stop - page_begin);
      from = stop;
    }
  });
}

}  // namespace phidias
