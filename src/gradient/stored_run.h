// What the backward pass needs of a forward pass: the residual stream between the layers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "gradient/edit_taps.h"
#include "model/rope.h"
#include "model/run_context.h"
#include "model/spec.h"
#include "model/taps.h"
#include "model/weights.h"
#include "phidias/status.h"

namespace phidias {

// One sequence from position 0 on. Letters: N positions, D width.
struct StoredRun {
  std::vector<int32_t> tokens;  // [N]
  RotaryFactors factors = RotaryFactors::kPlain;
  // [layers + 1], each [N, D]: what enters the first layer, then the output of each layer, edits
  // included.
  std::vector<AlignedBuffer<float>> streams;

  size_t positions() const { return tokens.size(); }
};

// Floats of the streams, times 4: bytes that a stored run takes.
uint64_t stored_run_bytes(const ModelSpec& spec, size_t positions);

// Fills a StoredRun from any forward pass over its tokens, in whatever chunks.
class StreamRecorder final : public EditTaps {
 public:
  // `run` has its tokens; room for the streams is made here. Throws std::bad_alloc.
  StreamRecorder(const ModelSpec& spec, StoredRun& run, RunTaps* edits = nullptr);

  SiteMask sites(size_t layer) const override;
  void visit(Site site, size_t layer, const SiteRows& rows) override;

 private:
  void store(size_t stream, const SiteRows& rows);

  StoredRun* run_;
};

// Runs the tokens in one pass with the numerics of `context` and an f32 cache of its own, and keeps
// the streams. With Numerics::kExact these have the bits of every other exact pass over the same
// tokens and edits. Errors: kInvalidArgument (no tokens, an id outside the vocabulary),
// kOutOfMemory.
Result<StoredRun> run_and_store(const ModelSpec& spec, const ModelWeights& weights,
                                RunContext& context, std::vector<int32_t> tokens,
                                RotaryFactors factors, RunTaps* edits = nullptr);

}  // namespace phidias
