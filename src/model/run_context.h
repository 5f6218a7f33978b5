// Everything a forward pass works with but does not own: kernels, threads, numerics, scratch. One
// per engine; no singleton and no environment variable is read below the front ends.
#pragma once

#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/table.h"
#include "phidias/options.h"

namespace phidias {

struct RunContext {
  const KernelTable* kernels = nullptr;
  ParallelFor* threads = nullptr;
  Numerics numerics = Numerics::kFast;
  std::vector<AlignedBuffer<float>> scratch;  // one per thread

  RunContext(const KernelTable& table, ParallelFor& pool, Numerics mode)
      : kernels(&table), threads(&pool), numerics(mode), scratch(pool.threads()) {}

  // Scratch of at least `floats` for every thread; grows, never shrinks.
  void reserve_scratch(size_t floats) {
    for (auto& buffer : scratch) buffer.ensure(floats);
  }
};

}  // namespace phidias
