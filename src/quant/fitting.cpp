#include "quant/fitting.h"

namespace phidias {

Format fitting(Format wanted, size_t cols) {
  const FormatRow& row = format_row(wanted);
  if (cols % row.block_values == 0) return wanted;
  const FormatRow* best = nullptr;
  for (const FormatRow& other : format_rows()) {
    if (other.bits_per_value() <= row.bits_per_value() || cols % other.block_values != 0) continue;
    if (best == nullptr || other.bits_per_value() < best->bits_per_value()) best = &other;
  }
  return best == nullptr ? Format::kF32 : best->format;
}

}  // namespace phidias
