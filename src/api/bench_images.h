// The encoding of images, timed.
#pragma once

#include "phidias/bench.h"
#include "phidias/engine.h"

namespace phidias {

// Seconds of encoding an image of `tiles` tiles beside the whole one, of random pixels. `prompt` of
// the row is the number of its tokens, `batch` how often the tower runs. The limit is what the
// arithmetic of the tower takes at the better peak of the readings.
//   engine   of a model that sees images
// Errors: kCancelled, kOutOfMemory.
Result<BenchRow> bench_image(Engine& engine, uint32_t tiles, const BenchOptions& options,
                             const MachineReading& before, const MachineReading& after);

}  // namespace phidias
