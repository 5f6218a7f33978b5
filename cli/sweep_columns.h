// The names of a table's columns, where they are positions, heads, or all of a layer.
#pragma once

#include <string>
#include <vector>

#include "phidias/patching.h"

namespace phidias::cli {

// `positions` names those that it has; the others are numbers.
std::vector<std::string> sweep_columns(SweepAxis axis, size_t count,
                                       const std::vector<std::string>& positions);

}  // namespace phidias::cli
