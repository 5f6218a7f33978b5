// What an Engine holds; for the files of this folder.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "engine/stepper.h"
#include "phidias/engine.h"

namespace phidias {

struct Engine::Impl {
  std::shared_ptr<const Model> model;
  EngineOptions options;
  const KernelTable* kernels;
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<Stepper> stepper;
};

}  // namespace phidias
