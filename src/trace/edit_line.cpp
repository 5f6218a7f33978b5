// Edits as people write them on one line.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "base/invalid.h"
#include "base/try.h"
#include "phidias/edits.h"

namespace phidias {
namespace {

std::string trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return std::string(text);
}

std::optional<double> number_from(const std::string& text) {
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size() ||
      !std::isfinite(number))
    return {};
  return number;
}

// A vector of a file: `joy.gguf` gives each layer its own direction, `v.safetensors:name` one
// tensor.
struct Vectors {
  std::string file;
  std::string name;
};

Result<Operand> operand_for(const std::optional<Vectors>& vectors, double coefficient,
                            size_t layer) {
  if (!vectors) return Operand(coefficient);
  const std::string name =
      vectors->name.empty() ? "direction." + std::to_string(layer) : vectors->name;
  PHIDIAS_TRY(Tensor tensor, load_tensor(vectors->file, name));
  return coefficient * Operand(std::move(tensor));
}

}  // namespace

Result<Edits> edits_from_line(std::string_view line, TensorFiles files) {
  std::string text = trimmed(line);
  Edits edits;
  if (text.starts_with("skip ")) {
    std::istringstream words(text.substr(5));
    int32_t from = 0;
    int32_t to = 0;
    if (!(words >> from)) return invalid("write skip FIRST LAST", line);
    to = from;
    if (!(words >> std::ws).eof() && !(words >> to && (words >> std::ws).eof()))
      return invalid("write skip FIRST LAST", line);
    edits += skip_layers(from, to);
    return edits;
  }
  std::optional<Positions> at;
  if (const size_t mark = text.rfind('@'); mark != std::string::npos) {
    PHIDIAS_TRY(at, Positions::parse(std::string_view(text).substr(mark + 1)));
    text = trimmed(std::string_view(text).substr(0, mark));
  }
  // The operator is the first one outside brackets.
  size_t depth = 0;
  size_t begin = std::string::npos;
  for (size_t i = 0; i < text.size() && begin == std::string::npos; ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']' && depth > 0) --depth;
    if (depth == 0 && (text[i] == '=' || text[i] == ' ')) begin = i;
    if (depth == 0 && begin == std::string::npos && i + 1 < text.size() && text[i + 1] == '=')
      begin = i;
  }
  if (begin == std::string::npos)
    return invalid("write VALUE = X, VALUE += X, VALUE *= X or VALUE clamp LOW HIGH", line);
  PHIDIAS_TRY(ValueRef value, parse_value(trimmed(std::string_view(text).substr(0, begin))));
  if (at) value.selection.at = *at;
  std::string rest = trimmed(std::string_view(text).substr(begin));
  if (rest.starts_with("clamp ")) {
    std::istringstream words(rest.substr(6));
    Edit edit = make_edit(value, EditOp::kClamp, Operand(0.0));
    if (!(words >> edit.low >> edit.high) || !(words >> std::ws).eof())
      return invalid("write VALUE clamp LOW HIGH", line);
    edits += edit;
    return edits;
  }
  EditOp op = EditOp::kSet;
  double sign = 1;
  if (rest.starts_with("+=") || rest.starts_with("-=")) {
    op = EditOp::kAdd;
    sign = rest[0] == '-' ? -1 : 1;
    rest = trimmed(std::string_view(rest).substr(2));
  } else if (rest.starts_with("*=")) {
    op = EditOp::kScale;
    rest = trimmed(std::string_view(rest).substr(2));
  } else if (rest.starts_with("=")) {
    rest = trimmed(std::string_view(rest).substr(1));
  } else {
    return invalid("write VALUE = X, VALUE += X, VALUE *= X or VALUE clamp LOW HIGH", line);
  }
  if (op == EditOp::kSet && (rest == "hidden" || rest == "uniform")) {
    edits += rest == "hidden" ? hide(value) : uniform(value);
    return edits;
  }
  double coefficient = sign;
  std::optional<Vectors> vectors;
  const size_t star = rest.find('*');
  const std::string factor = trimmed(std::string_view(rest).substr(0, star));
  std::string operand =
      star == std::string::npos ? rest : trimmed(std::string_view(rest).substr(star + 1));
  if (star != std::string::npos) {
    const auto number = number_from(factor);
    if (!number) return invalid("\"" + factor + "\" is no number", line);
    coefficient *= *number;
  }
  if (const auto number = number_from(operand)) {
    coefficient *= *number;
  } else {
    if (files == TensorFiles::kRefused) return invalid("files are not read here", line);
    const size_t colon = operand.rfind(':');
    const bool named = colon != std::string::npos && colon > 0;
    vectors = Vectors{named ? operand.substr(0, colon) : operand,
                      named ? operand.substr(colon + 1) : std::string()};
    if (!named && !operand.ends_with(".gguf"))
      return invalid("name the tensor: " + operand + ":NAME", line);
    if (!named && !value.layers.single) {
      // A control vector: each layer that it has a direction for gets its own.
      PHIDIAS_TRY(const auto directions, load_tensors(operand));
      for (const auto& [name, tensor] : directions) {
        int32_t layer = 0;
        if (std::sscanf(name.c_str(), "direction.%d", &layer) != 1) continue;
        if (layer < value.layers.begin || layer >= value.layers.end) continue;
        ValueRef single = value;
        single.layers = {true, layer};
        edits += make_edit(single, op, coefficient * Operand(tensor));
      }
      if (edits.empty()) return invalid("the file has no direction for these layers", line);
      return edits;
    }
  }
  PHIDIAS_TRY(
      const Operand right,
      operand_for(vectors, coefficient, static_cast<size_t>(std::max(value.layers.begin, 0))));
  edits += make_edit(value, op, right);
  return edits;
}

}  // namespace phidias
