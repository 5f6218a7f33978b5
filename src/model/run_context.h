// Everything a forward pass works with but does not own: kernels, threads, numerics, scratch. One per engine; no
// singleton and no environment variable is read below the front ends.
#pragma once

#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/table.h"

namespace phidias {

enum class Numerics : uint8_t {
  kExact,  // every activation in f32, explicit softmax, f32 cache: the reference's mathematics
  kFast,   // whatever is quickest within the stated distance
};

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
