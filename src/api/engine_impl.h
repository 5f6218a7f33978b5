// What an Engine holds; for the files of this folder.
#pragma once

#include <map>
#include <memory>

#include "base/thread_pool.h"
#include "engine/image_cache.h"
#include "engine/stepper.h"
#include "model/run_context.h"
#include "phidias/edits.h"
#include "phidias/engine.h"

namespace phidias {

// What encoding images needs and keeps.
struct ImageState {
  ImageCache cache;
  RunContext context;
  uint64_t tapped = 0;  // images that somebody looked into
};

struct Engine::Impl {
  std::shared_ptr<const Model> model;
  EngineOptions options;
  const KernelTable* kernels;
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<Stepper> stepper;
  std::unique_ptr<ImageState> images;
  std::map<uint64_t, Edits> in_force;  // by number, in the order in which they came
  uint64_t next_in_force = 0;
};

}  // namespace phidias
