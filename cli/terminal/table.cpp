#include "terminal/table.h"

#include <algorithm>

namespace phidias::cli {

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::to_string(const Style& style, size_t indent) const {
  std::vector<size_t> widths;
  std::vector<std::string> titles;
  bool titled = false;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
    titles.push_back(columns_[c].title);
    titled = titled || !columns_[c].title.empty();
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out(indent, ' ');
    for (size_t c = 0; c < cells.size(); ++c) {
      out += (c > 0 ? "  " : "") + pad_width(cells[c], widths[c], columns_[c].align);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };
  std::string out;
  if (titled) out += style.bold(line(titles)) + "\n";
  for (const auto& row : rows_) out += line(row) + "\n";
  return out;
}

}  // namespace phidias::cli
