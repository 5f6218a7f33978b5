#include "sweep_columns.h"

namespace phidias::cli {

std::vector<std::string> sweep_columns(SweepAxis axis, size_t count,
                                       const std::vector<std::string>& positions) {
  std::vector<std::string> columns(count);
  for (size_t c = 0; c < count; ++c) {
    columns[c] = axis == SweepAxis::kHeads    ? "head " + std::to_string(c)
                 : axis == SweepAxis::kLayers ? "all"
                 : c < positions.size()       ? positions[c]
                                              : std::to_string(c);
  }
  return columns;
}

}  // namespace phidias::cli
