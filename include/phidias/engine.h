// Sequences and the one forward: any mixture of prompts and single steps in a call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "phidias/model.h"
#include "phidias/options.h"
#include "phidias/status.h"
#include "phidias/step.h"
#include "phidias/tokenizer.h"

namespace phidias {

class Edits;
class EditsInForce;
class Stepper;
struct ImageState;

// One thread at a time. Several engines, also of one model, may live in a process.
//
// The same bits: for one build, kernel table, weight type, cache type, page size and numerics, a
// sequence's logits depend on its tokens and its SequenceOptions alone; not on other sequences, on
// how it was cut into steps, or on the number of threads. One exception by definition: under
// RopeSwitch::kKeep the cut decides which positions were cached before the switch.
class Engine {
 public:
  // Errors: kInvalidArgument (unknown kv type or ISA, a context beyond the model's, exact with
  // another cache than f32), kOutOfMemory. Takes no cache memory yet.
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const Model> model,
                                                const EngineOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Model& model() const;
  const EngineOptions& options() const;  // with every default filled in
  uint32_t vocab() const;
  uint32_t context() const;
  MemoryPlan memory() const;
  uint64_t cache_bytes_in_use() const;

  SequenceId open(const SequenceOptions& options = {});
  void close(SequenceId sequence);
  // A new sequence with the same tokens; full pages are shared.
  Result<SequenceId> fork(SequenceId sequence);
  uint32_t length(SequenceId sequence) const;
  std::span<const TokenId> tokens(SequenceId sequence) const;
  // Forgets all positions from `length` on.
  Status truncate(SequenceId sequence, uint32_t length);

  // Runs the rows. All or nothing: on an error no sequence has changed, but that pages may have
  // been given back. Errors: kInvalidArgument (a token outside the vocabulary or of an image that
  // the sequence has not, an image that is not complete, a position that is not next, an unknown
  // sequence), kCapacityExceeded (context or cache budget, with the figures), kOutOfMemory.
  Status step(std::span<const Row> rows, const LogitsSink& sink = {});

  // Asked before every pass through the layers (step_rows rows at most), whatever work it belongs
  // to, by the thread that runs it. True ends that work with kCancelled; a sequence that was being
  // run is as before, but for one that was run anew at LongRoPE's switch, which is empty. The
  // function must not use the engine. Empty: nobody is asked.
  void interrupt_with(std::function<bool()> asked);

  // While the returned object lives, these edits come before the own ones of every trace, answer,
  // live run, sweep and collection that begins on this engine; step() itself makes none. May be
  // nested: the outer ones come first. Where edits are reported, these are reported first.
  [[nodiscard]] EditsInForce with(const Edits& edits);
  Edits edits_in_force() const;

  // For the library's own files.
  Stepper& stepper();
  ImageState& images();

 private:
  friend class EditsInForce;
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Ends its edits with its life; the engine must outlive it.
class EditsInForce {
 public:
  ~EditsInForce();
  EditsInForce(EditsInForce&& other) noexcept;
  EditsInForce& operator=(EditsInForce&&) = delete;

 private:
  friend class Engine;
  EditsInForce(Engine& engine, uint64_t number) : engine_(&engine), number_(number) {}

  Engine* engine_;
  uint64_t number_;
};

}  // namespace phidias
