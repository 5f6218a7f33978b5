// Shares for work that has to wait for memory, of which threads get unequal parts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "base/thread_pool.h"

namespace phidias {

// As ParallelFor::run, but each thread takes only most of its share at once; what is left of all
// goes in units of `grain` to whoever is free. The body is called several times per thread, and who
// computes what differs from call to call: for results that do not depend on it.
inline void run_balanced(ParallelFor& threads, size_t count, size_t grain, ParallelBody body) {
  constexpr size_t kLeftOver = 8;  // one in so many units
  const size_t workers = threads.threads();
  const size_t units = (count + grain - 1) / grain;
  const size_t fixed = workers == 1 ? units : units - units / kLeftOver;
  std::atomic<size_t> next{fixed};
  threads.run(workers, 1, [&](size_t begin, size_t end, size_t thread) {
    for (size_t share = begin; share < end; ++share) {
      const size_t from = fixed * share / workers * grain;
      const size_t to = std::min(count, fixed * (share + 1) / workers * grain);
      if (from < to) body(from, to, thread);
    }
    for (;;) {
      const size_t from = next.fetch_add(1, std::memory_order_relaxed) * grain;
      if (from >= count) return;
      body(from, std::min(count, from + grain), thread);
    }
  });
}

}  // namespace phidias
