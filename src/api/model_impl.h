// What a Model holds; for the files of this folder.
#pragma once

#include <memory>
#include <vector>

#include "model/spec.h"
#include "model/weights.h"
#include "phidias/model.h"

namespace phidias {

struct Model::Impl {
  ModelInfo info;
  ModelSpec spec;
  ModelWeights weights;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;
};

}  // namespace phidias
