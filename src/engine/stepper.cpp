#include "engine/stepper.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/try.h"
#include "engine/image_rows.h"

namespace phidias {
namespace {

// Rows whose logits exist at once: 200,064 x 16 floats are 13 MB.
constexpr size_t kLogitRows = 16;
constexpr size_t kForTaps = SIZE_MAX;  // in place of a row whose logits the caller wants

std::vector<std::byte*> page_pointers(const PageList& pages) {
  std::vector<std::byte*> pointers;
  pointers.reserve(pages.size());
  for (const auto& page : pages) pointers.push_back(page.get());
  return pointers;
}

// Rows that stand in for embeddings, of `count` tokens from `at` on; none where there are no
// images.
std::span<const float* const> part_of(const std::vector<const float*>& given, size_t at,
                                      size_t count) {
  return given.empty() ? std::span<const float* const>() : std::span(given).subspan(at, count);
}

}  // namespace

Stepper::Stepper(const ModelSpec& spec, const ModelWeights& weights, const KernelTable& kernels,
                 ParallelFor& threads, const StepperOptions& options)
    : spec_(&spec),
      options_(options),
      layout_(spec, options.kv, options.page_positions),
      cache_(layout_, options.cache_budget),
      decoder_(spec, weights, layout_),
      context_(kernels, threads, options.numerics) {}

SequenceId Stepper::open(const SequenceOptions& options) {
  const SequenceId id = next_id_++;
  sequences_[id].options = options;
  return id;
}

void Stepper::close(SequenceId sequence) { sequences_.erase(sequence); }

Result<SequenceId> Stepper::fork(SequenceId sequence) { return fork(sequence, length(sequence)); }

Result<SequenceId> Stepper::fork(SequenceId sequence, uint32_t length) {
  const auto at = sequences_.find(sequence);
  if (at == sequences_.end())
    return Error{Code::kInvalidArgument, "there is no sequence " + std::to_string(sequence), {}};
  Sequence copy = at->second;
  copy.taps = nullptr;
  copy.tokens.resize(std::min<size_t>(length, copy.tokens.size()));
  cache_.shrink(copy.pages, copy.tokens.size());
  PHIDIAS_CHECK_OK(cache_.own_last(copy.pages, copy.tokens.size()));
  const SequenceId id = next_id_++;
  sequences_.emplace(id, std::move(copy));
  return id;
}

uint32_t Stepper::length(SequenceId sequence) const {
  const auto at = sequences_.find(sequence);
  return at == sequences_.end() ? 0 : static_cast<uint32_t>(at->second.tokens.size());
}

std::span<const TokenId> Stepper::tokens(SequenceId sequence) const {
  const auto at = sequences_.find(sequence);
  return at == sequences_.end() ? std::span<const TokenId>()
                                : std::span<const TokenId>(at->second.tokens);
}

Status Stepper::truncate(SequenceId sequence, uint32_t length) {
  const auto at = sequences_.find(sequence);
  if (at == sequences_.end())
    return Error{Code::kInvalidArgument, "there is no sequence " + std::to_string(sequence), {}};
  if (length > at->second.tokens.size()) {
    return Error{Code::kInvalidArgument,
                 "a sequence of " + std::to_string(at->second.tokens.size()) +
                     " positions cannot be cut to " + std::to_string(length),
                 {}};
  }
  // Before anything is given up: where the copy cannot be had, the sequence stays as it was.
  PHIDIAS_CHECK_OK(cache_.own_last(at->second.pages, length));
  cache_.shrink(at->second.pages, length);
  at->second.tokens.resize(length);
  return {};
}

Status Stepper::occupy(SequenceId id, uint32_t length) {
  // A small positive number as f16, bf16 and f32, and as the scale of eight bits.
  constexpr int kByte = 0x2B;
  const auto at = sequences_.find(id);
  if (at == sequences_.end() || !at->second.tokens.empty())
    return Error{Code::kInvalidArgument, "only an empty sequence can be occupied", {}};
  if (length >= options_.context) {
    return Error{Code::kCapacityExceeded,
                 std::to_string(length) + " positions leave no room in the context of " +
                     std::to_string(options_.context),
                 {}};
  }
  Sequence& sequence = at->second;
  PHIDIAS_CHECK_OK(cache_.grow(sequence.pages, length));
  for (const auto& page : sequence.pages) std::memset(page.get(), kByte, layout_.page_bytes());
  sequence.tokens.assign(length, 0);
  sequence.factors = factors_at(sequence, length);
  return {};
}

RotaryFactors Stepper::factors_at(const Sequence& sequence, size_t length) const {
  // By the request's own length, the whole prompt counted from its first chunk on: never by a
  // neighbour or a chunk.
  return rotary_factors_for(spec_->rope, sequence.options.rope_switch,
                            std::max<size_t>(length, sequence.options.prompt_tokens));
}

Status Stepper::step(std::span<const Row> rows, const LogitsSink& sink, const StepLayers& layers) {
  if (rows.empty()) return {};
  PHIDIAS_TRY(auto extensions, plan(rows, layers));
  PHIDIAS_CHECK_OK(reserve(extensions));
  try {
    const bool complete = std::all_of(extensions.begin(), extensions.end(),
                                      [&](const Extension& e) { return !e.rerun || rerun(e); }) &&
                          run(extensions, rows, sink, layers);
    if (!complete) {
      abandon(extensions);
      return Error{Code::kCancelled, "the work was interrupted", {}};
    }
  } catch (const std::bad_alloc&) {
    abandon(extensions);
    return Error{Code::kOutOfMemory,
                 "no memory for the buffers of a step of " + std::to_string(rows.size()) +
                     " rows; try a smaller step_rows",
                 {}};
  }
  for (Extension& extension : extensions) {
    Sequence& sequence = sequences_.at(extension.id);
    sequence.tokens.insert(sequence.tokens.end(), extension.tokens.begin(), extension.tokens.end());
    sequence.pages = std::move(extension.pages);
    sequence.factors = extension.factors;
  }
  return {};
}

// A second run may have overwritten its own pages: such a sequence is empty now.
void Stepper::abandon(const std::vector<Extension>& extensions) {
  for (const Extension& extension : extensions) {
    Sequence& sequence = sequences_.at(extension.id);
    if (extension.rerun && extension.pages.front() == sequence.pages.front()) {
      sequence.tokens.clear();
      sequence.pages.clear();
    }
  }
}

Result<std::vector<Stepper::Extension>> Stepper::plan(std::span<const Row> rows,
                                                      const StepLayers& layers) const {
  std::vector<Extension> extensions;
  std::vector<ImageRows> image_rows;  // one per extension
  std::unordered_map<SequenceId, size_t> index;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const auto at = sequences_.find(row.sequence);
    if (at == sequences_.end()) {
      return Error{Code::kInvalidArgument,
                   "row " + std::to_string(r) + " names sequence " + std::to_string(row.sequence) +
                       ", which is not open",
                   {}};
    }
    if (row.token >= 0 && static_cast<uint32_t>(row.token) >= spec_->vocab) {
      return Error{Code::kInvalidArgument,
                   "token id " + std::to_string(row.token) + " is outside the vocabulary of " +
                       std::to_string(spec_->vocab),
                   {}};
    }
    const auto [entry, added] = index.try_emplace(row.sequence, extensions.size());
    if (added) {
      extensions.emplace_back();
      extensions.back().id = row.sequence;
      PHIDIAS_CHECK_OK(check_images(at->second.options.images, spec_->width));
      image_rows.emplace_back(at->second.options.images, at->second.tokens);
    }
    Extension& extension = extensions[entry->second];
    const size_t next = at->second.tokens.size() + extension.tokens.size();
    if (row.position != next) {
      return Error{Code::kInvalidArgument,
                   "row " + std::to_string(r) + " has position " + std::to_string(row.position) +
                       ", but the next of its sequence is " + std::to_string(next),
                   {}};
    }
    if (next >= options_.context) {
      return Error{Code::kCapacityExceeded,
                   "the sequence would pass its context of " + std::to_string(options_.context) +
                       " positions",
                   {}};
    }
    PHIDIAS_TRY(const float* given, image_rows[entry->second].next(row.token));
    extension.tokens.push_back(row.token);
    if (!layers.streams.empty()) {
      extension.given.push_back(layers.streams[r]);
    } else if (!at->second.options.images.empty()) {
      extension.given.push_back(given);
    }
    extension.rows.push_back(r);
  }
  for (Extension& extension : extensions) {
    const Sequence& sequence = sequences_.at(extension.id);
    extension.factors = factors_at(sequence, sequence.tokens.size() + extension.tokens.size());
    extension.rerun = !sequence.tokens.empty() && extension.factors != sequence.factors &&
                      sequence.options.rope_switch != RopeSwitch::kKeep;
  }
  return extensions;
}

Status Stepper::reserve(std::vector<Extension>& extensions) {
  for (Extension& extension : extensions) {
    const Sequence& sequence = sequences_.at(extension.id);
    const size_t length = sequence.tokens.size() + extension.tokens.size();
    // A second run writes every page anew: pages that a fork shares are left to it.
    const bool shared = std::any_of(sequence.pages.begin(), sequence.pages.end(),
                                    [](const auto& page) { return page.use_count() > 1; });
    if (!extension.rerun || !shared) extension.pages = sequence.pages;
    PHIDIAS_CHECK_OK(cache_.grow(extension.pages, length));
  }
  return {};
}

std::vector<const float*> Stepper::given_rows(const Sequence& sequence) {
  std::vector<const float*> given;
  if (sequence.options.images.empty()) return given;
  ImageRows rows(sequence.options.images, {});
  for (const TokenId token : sequence.tokens) {
    const auto row = rows.next(token);  // checked when the token came
    given.push_back(row.ok() ? *row : nullptr);
  }
  return given;
}

bool Stepper::rerun(const Extension& extension) {
  ++reprefills_;
  const Sequence& sequence = sequences_.at(extension.id);
  const auto pages = page_pointers(extension.pages);
  const std::vector<const float*> given = given_rows(sequence);
  std::vector<uint32_t> outputs;
  for (size_t at = 0; at < sequence.tokens.size(); at += options_.step_rows) {
    const size_t count = std::min<size_t>(options_.step_rows, sequence.tokens.size() - at);
    const BatchRun run{std::span(sequence.tokens).subspan(at, count),
                       static_cast<uint32_t>(at),
                       extension.factors,
                       {pages},
                       sequence.taps,
                       part_of(given, at, count)};
    outputs.clear();
    for (uint32_t i = 0; i < count; ++i) {
      if (tap_wants_output(sequence, at + i)) outputs.push_back(i);
    }
    if (interrupted()) return false;
    decoder_.forward({{&run, 1}, outputs}, context_);
    compute_logits(outputs.size(), {});
  }
  return true;
}

bool Stepper::tap_wants_output(const Sequence& sequence, size_t position) {
  return sequence.taps != nullptr && sequence.taps->wants_output(static_cast<uint32_t>(position));
}

void Stepper::compute_logits(size_t outputs,
                             const std::function<void(size_t, std::span<const float>)>& each) {
  for (size_t first = 0; first < outputs; first += kLogitRows) {
    const size_t count = std::min(kLogitRows, outputs - first);
    logits_.ensure(count * spec_->vocab);
    decoder_.logits(first, count, logits_.data(), context_);
    for (size_t i = 0; each && i < count; ++i)
      each(first + i, {logits_.data() + i * spec_->vocab, spec_->vocab});
  }
}

// In passes of at most step_rows rows: whole extensions one after another, cut where a pass is
// full.
bool Stepper::run(const std::vector<Extension>& extensions, std::span<const Row> rows,
                  const LogitsSink& sink, const StepLayers& layers) {
  std::vector<std::vector<std::byte*>> pages;
  for (const Extension& extension : extensions) pages.push_back(page_pointers(extension.pages));
  std::vector<BatchRun> runs;
  std::vector<uint32_t> outputs;
  std::vector<size_t> output_rows;
  size_t filled = 0;
  const auto flush = [&] {
    if (runs.empty()) return true;
    if (interrupted()) return false;
    decoder_.forward({runs, outputs, layers.first, layers.end}, context_);
    compute_logits(outputs.size(), [&](size_t output, std::span<const float> logits) {
      if (const size_t row = output_rows[output]; row != kForTaps) sink(row, logits);
    });
    runs.clear();
    outputs.clear();
    output_rows.clear();
    filled = 0;
    return true;
  };
  for (size_t e = 0; e < extensions.size(); ++e) {
    const Extension& extension = extensions[e];
    const size_t length = sequences_.at(extension.id).tokens.size();
    for (size_t at = 0; at < extension.tokens.size();) {
      const size_t count =
          std::min<size_t>(options_.step_rows - filled, extension.tokens.size() - at);
      runs.push_back({std::span(extension.tokens).subspan(at, count),
                      static_cast<uint32_t>(length + at),
                      extension.factors,
                      {pages[e]},
                      sequences_.at(extension.id).taps,
                      part_of(extension.given, at, count)});
      for (size_t i = 0; i < count; ++i) {
        const size_t row = extension.rows[at + i];
        const bool for_sink = sink && rows[row].wants_output;
        if (!for_sink && !tap_wants_output(sequences_.at(extension.id), length + at + i)) continue;
        outputs.push_back(static_cast<uint32_t>(filled + i));
        output_rows.push_back(for_sink ? row : kForTaps);
      }
      at += count;
      filled += count;
      if (filled == options_.step_rows && !flush()) return false;
    }
  }
  return flush();
}

}  // namespace phidias
