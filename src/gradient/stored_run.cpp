#include "gradient/stored_run.h"

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "model/decoder.h"

namespace phidias {
namespace {

// The first layer's input is taken before its edits, which belong to the layer; outputs behind
// them.
constexpr SiteMask kStored = mask_of(Site::kLayerInput) | mask_of(Site::kLayerOutput);
constexpr size_t kPagePositions = 64;

}  // namespace

uint64_t stored_run_bytes(const ModelSpec& spec, size_t positions) {
  return (uint64_t{spec.layers} + 1) * positions * spec.width * sizeof(float);
}

StreamRecorder::StreamRecorder(const ModelSpec& spec, StoredRun& run, RunTaps* edits)
    : EditTaps(edits), run_(&run) {
  run.streams.clear();
  for (size_t i = 0; i <= spec.layers; ++i) run.streams.emplace_back(run.positions() * spec.width);
}

SiteMask StreamRecorder::sites(size_t layer) const { return kStored | EditTaps::sites(layer); }

void StreamRecorder::visit(Site site, size_t layer, const SiteRows& rows) {
  if (site == Site::kLayerInput && layer == 0) store(0, rows);
  EditTaps::visit(site, layer, rows);
  if (site == Site::kLayerOutput) store(layer + 1, rows);
}

void StreamRecorder::store(size_t stream, const SiteRows& rows) {
  for (size_t r = 0; r < rows.rows; ++r) {
    std::memcpy(run_->streams[stream].data() + (rows.position + r) * rows.width,
                rows.data + r * rows.stride, rows.width * sizeof(float));
  }
}

Result<StoredRun> run_and_store(const ModelSpec& spec, const ModelWeights& weights,
                                RunContext& context, std::vector<int32_t> tokens,
                                RotaryFactors factors, RunTaps* edits) {
  if (tokens.empty()) {
    return Error{Code::kInvalidArgument, "there are no tokens to run; give at least one", {}};
  }
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= spec.vocab) {
      return Error{Code::kInvalidArgument,
                   "token id " + std::to_string(token) + " is outside the vocabulary of " +
                       std::to_string(spec.vocab),
                   {}};
    }
  }
  StoredRun run;
  run.tokens = std::move(tokens);
  run.factors = factors;
  try {
    StreamRecorder recorder(spec, run, edits);
    const KvLayout layout(spec, KvType::kF32, kPagePositions);
    std::vector<AlignedBuffer<std::byte>> pages;
    std::vector<std::byte*> page_pointers;
    for (size_t at = 0; at < run.positions(); at += kPagePositions) {
      page_pointers.push_back(pages.emplace_back(layout.page_bytes()).data());
    }
    Decoder decoder(spec, weights, layout);
    BatchRun batch_run;
    batch_run.tokens = run.tokens;
    batch_run.factors = factors;
    batch_run.cache = {page_pointers};
    batch_run.taps = &recorder;
    decoder.forward({{&batch_run, 1}, {}}, context);
  } catch (const std::bad_alloc&) {
    return Error{Code::kOutOfMemory,
                 "no memory for the stored streams (" +
                     std::to_string(stored_run_bytes(spec, run.positions())) +
                     " bytes) and the cache of " + std::to_string(run.positions()) +
                     " positions; give fewer tokens",
                 {}};
  }
  return run;
}

}  // namespace phidias
