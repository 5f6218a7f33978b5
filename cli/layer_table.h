// A number for each layer and column, in a terminal or on a page.
#pragma once

#include <string>
#include <vector>

#include "phidias/status.h"

namespace phidias::cli {

struct LayerTable {
  std::string title;
  std::string note;                  // what the numbers are
  std::vector<std::string> columns;  // their names
  size_t layers = 0;
  std::vector<double> values;  // [layers, columns]
  double full = 0;             // the magnitude of a full colour; 0: the largest there is

  double at(size_t layer, size_t column) const { return values[layer * columns.size() + column]; }
  double full_colour() const;
};

// Layers downwards, as many columns as fit the terminal; the rest is counted.
std::string to_text(const LayerTable& table);
// Layers upwards; blue is positive, red negative.
std::string to_html(const LayerTable& table);
// Prints the text, or writes the page to `html` where that is not empty.
Status show(const LayerTable& table, const std::string& html);

}  // namespace phidias::cli
