#include "layer_table.h"

#include <algorithm>
#include <cmath>

#include "html_page.h"
#include "output.h"
#include "terminal/terminal.h"
#include "terminal/text.h"

namespace phidias::cli {
namespace {

constexpr size_t kCell = 9;  // columns of the terminal

std::string number(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// Enough digits to tell values of this magnitude apart, in a cell.
int digits_for(double magnitude) {
  if (!(magnitude > 0)) return 2;
  return std::clamp(3 - static_cast<int>(std::floor(std::log10(magnitude))), 1, 5);
}

}  // namespace

double LayerTable::full_colour() const {
  if (full > 0) return full;
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

std::string to_text(const LayerTable& table) {
  const Terminal terminal = Terminal::of(1);
  const Style style(terminal);
  const double full = table.full_colour();
  const int digits = digits_for(full);
  const size_t room =
      terminal.interactive ? std::max<size_t>(1, (terminal.width - 5) / (kCell + 1)) : SIZE_MAX;
  const size_t shown = std::min(room, table.columns.size());
  std::string text = table.title + "\n" + table.note + "\n" + std::string(5, ' ');
  for (size_t c = 0; c < shown; ++c)
    text += " " + pad_width(fit_width(table.columns[c], kCell), kCell, Align::kRight);
  text += "\n";
  for (size_t layer = 0; layer < table.layers; ++layer) {
    text += pad_width(std::to_string(layer), 5, Align::kRight);
    for (size_t c = 0; c < shown; ++c) {
      const double value = table.at(layer, c);
      const std::string cell = pad_width(number(value, digits), kCell, Align::kRight);
      const double share = full > 0 ? std::abs(value) / full : 0;
      text += " ";
      text += share > 0.5
                  ? style.bold(style.colour(value < 0 ? Colour::kRed : Colour::kGreen, cell))
              : share > 0.1 ? cell
                            : style.dim(cell);
    }
    text += "\n";
  }
  if (shown < table.columns.size()) {
    text += "(" + std::to_string(table.columns.size() - shown) +
            " more columns: --html draws all of them)\n";
  }
  return text;
}

std::string to_html(const LayerTable& table) {
  const double full = table.full_colour();
  const int digits = digits_for(full);
  std::string html = "<p>" + html_escaped(table.note) + "</p><table><tr><th>layer</th>";
  for (const std::string& column : table.columns) html += "<th>" + html_escaped(column) + "</th>";
  html += "</tr>\n";
  for (size_t layer = table.layers; layer-- > 0;) {
    html += "<tr><th>" + std::to_string(layer) + "</th>";
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const double value = table.at(layer, c);
      html += "<td style=\"" + heat_style(full > 0 ? value / full : 0) + "\" title=\"layer " +
              std::to_string(layer) + ", " + html_escaped(table.columns[c]) + ": " +
              number(value, 6) + "\">" + number(value, digits) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</table>";
}

Status show(const LayerTable& table, const std::string& html) {
  if (!html.empty()) return save_page(html, table.title, to_html(table));
  print(to_text(table));
  return {};
}

}  // namespace phidias::cli
