// The sizes of published models.
#pragma once

#include <string_view>

#include "model/spec.h"
#include "phidias/status.h"

namespace phidias {

// As the published configuration says, but for LongRoPE's factors, which do not change the speed:
// all are 1. Errors: kInvalidArgument listing the names.
Result<ModelSpec> spec_of_shape(std::string_view name);

}  // namespace phidias
