#include "html_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace phidias::cli {

std::string html_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string visible_token(std::string_view text) {
  std::string visible;
  for (const char c : text) {
    if (c == ' ')
      visible += "\u2423";
    else if (c == '\n')
      visible += "\u21b5";
    else if (c == '\t')
      visible += "\u2192";
    else if (static_cast<unsigned char>(c) < 0x20)
      visible += "\u00b7";
    else
      visible += c;
  }
  return visible;
}

std::string heat_style(double share) {
  const double s = std::isfinite(share) ? std::clamp(share, -1.0, 1.0) : 0.0;
  const int blue[3] = {24, 78, 160};
  const int red[3] = {176, 36, 44};
  const auto channel = [&](size_t i) {
    const double end = s < 0 ? red[i] : blue[i];
    return static_cast<int>(std::lround(255 + std::abs(s) * (end - 255)));
  };
  char style[96];
  std::snprintf(style, sizeof style, "background:#%02x%02x%02x;color:%s", channel(0), channel(1),
                channel(2), std::abs(s) > 0.5 ? "#fff" : "#111");
  return style;
}

std::string svg_heat(std::span<const float> matrix, size_t size, std::span<const std::string> names,
                     size_t pixels) {
  std::string svg = "<svg viewBox=\"0 0 " + std::to_string(size) + " " + std::to_string(size) +
                    "\" width=\"" + std::to_string(pixels) + "\" height=\"" +
                    std::to_string(pixels) + "\" shape-rendering=\"crispEdges\">";
  svg += "<rect width=\"100%\" height=\"100%\" fill=\"#f4f6fa\"/>";
  for (size_t row = 0; row < size; ++row) {
    for (size_t column = 0; column <= row && column < size; ++column) {
      const float weight = matrix[row * size + column];
      if (!(weight >= 0.004F)) continue;  // less than a shade
      char entry[160];
      std::snprintf(entry, sizeof entry,
                    "<rect x=\"%zu\" y=\"%zu\" width=\"1\" height=\"1\" fill=\"#184ea0\" "
                    "fill-opacity=\"%.3f\"><title>",
                    column, row, static_cast<double>(std::min(weight, 1.0F)));
      svg += entry;
      std::snprintf(entry, sizeof entry, ": %.3f</title></rect>", static_cast<double>(weight));
      svg += html_escaped(names[row]) + " \u2192 " + html_escaped(names[column]) + entry;
    }
  }
  return svg + "</svg>";
}

Status save_page(const std::string& path, std::string_view title, std::string_view body) {
  const std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" +
      html_escaped(title) +
      "</title><style>body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#111}"
      "table{border-collapse:collapse}td,th{padding:2px 6px;border:1px solid #dde;"
      "font:12px ui-monospace,monospace;white-space:pre;text-align:left}"
      "th{background:#f4f6fa;position:sticky;top:0}figure{display:inline-block;margin:0 1em 1em 0}"
      "figcaption{font-size:12px;color:#456}</style></head><body><h1>" +
      html_escaped(title) + "</h1>\n" + std::string(body) + "\n</body></html>\n";
  const std::string beside = path + ".part";
  std::ofstream file(beside, std::ios::binary);
  file.write(page.data(), static_cast<std::streamsize>(page.size()));
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    std::remove(beside.c_str());
    return Error{Code::kIo, "cannot be written", {path, {}, {}}};
  }
  return {};
}

}  // namespace phidias::cli
