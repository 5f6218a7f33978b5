// Rows of text in aligned columns.
#pragma once

#include <string>
#include <vector>

#include "terminal/terminal.h"
#include "terminal/text.h"

namespace phidias::cli {

// Columns are as wide as their widest cell and two spaces apart. Widths are those of a terminal, so
// cells may hold any UTF-8 text, but no colours.
class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  // Without titles (all empty) there is no head line.
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty; more cells than columns are a mistake of the caller's and left out.
  void add(std::vector<std::string> cells);
  //   returns  lines, each with its line end and no spaces before it
  //   indent   spaces before each line
  std::string to_string(const Style& style, size_t indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace phidias::cli
