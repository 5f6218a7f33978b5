#include "phidias/steering.h"

#include <charconv>
#include <cmath>

#include "base/invalid.h"
#include "base/try.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "phidias/trace.h"

namespace phidias {
namespace {

constexpr std::string_view kPrefix = "direction.";

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// By layer, the stream at the last token.
Result<std::vector<std::vector<double>>> last_streams(Engine& engine,
                                                      const std::vector<TokenId>& ids) {
  Trace trace(engine, ids);
  trace.read(kValues.layers.all().layer_output.at(kLast));
  PHIDIAS_TRY(const Traced traced, trace.run());
  std::vector<std::vector<double>> streams;
  for (const Traced::Entry& entry : traced.entries)
    streams.emplace_back(entry.tensor.floats.begin(), entry.tensor.floats.end());
  return streams;
}

// The direction in which centred rows vary most, by the power method on their covariance.
std::vector<double> principal_component(std::span<const std::vector<double>> rows) {
  const size_t width = rows.front().size();
  const auto count = static_cast<double>(rows.size());
  std::vector<double> mean(width);
  for (const auto& row : rows) {
    for (size_t i = 0; i < width; ++i) mean[i] += row[i] / count;
  }
  std::vector<std::vector<double>> centred(rows.begin(), rows.end());
  for (auto& row : centred) {
    for (size_t i = 0; i < width; ++i) row[i] -= mean[i];
  }
  // Begins at the row that lies furthest out, which is not orthogonal to the component in general.
  std::vector<double> direction = centred.front();
  for (const auto& row : centred) {
    if (dot(row, row) > dot(direction, direction)) direction = row;
  }
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> next(width);
    for (const auto& row : centred) {
      const double along = dot(row, direction);
      for (size_t i = 0; i < width; ++i) next[i] += along * row[i];
    }
    const double length = std::sqrt(dot(next, next));
    if (length == 0) break;
    for (double& x : next) x /= length;
    direction = std::move(next);
  }
  return direction;
}

}  // namespace

Result<ControlVector> load_control_vector(const std::filesystem::path& path) {
  PHIDIAS_TRY(const GgufFile file, GgufFile::open(path));
  ControlVector vector;
  PHIDIAS_TRY(const auto architecture, file.optional_string("general.architecture"));
  if (architecture.value_or("") != "controlvector") {
    return Error{Code::kInvalidArgument,
                 "is no control vector",
                 {path.string(), {}, "general.architecture"}};
  }
  PHIDIAS_TRY(const auto hint, file.optional_string("controlvector.model_hint"));
  vector.model_hint = hint.value_or("");
  for (const TensorEntry& entry : file.tensors) {
    uint32_t layer = 0;
    const std::string_view name = entry.name;
    const auto read = std::from_chars(name.data() + std::min(kPrefix.size(), name.size()),
                                      name.data() + name.size(), layer);
    if (!name.starts_with(kPrefix) || read.ec != std::errc() ||
        read.ptr != name.data() + name.size() || entry.shape.size() != 1) {
      return Error{Code::kCorrupt,
                   "is not of the form direction.<layer> with one axis",
                   {path.string(), {}, entry.name}};
    }
    std::vector<float> values(entry.shape[0]);
    format_row(entry.format).decode(entry.data, values.data(), values.size());
    vector.directions[layer] = std::move(values);
  }
  if (vector.directions.empty())
    return Error{Code::kCorrupt, "has no directions", {path.string(), {}, {}}};
  return vector;
}

Status save_control_vector(const std::filesystem::path& path, const ControlVector& vector) {
  if (vector.directions.empty() || vector.directions.begin()->first == 0)
    return invalid("a control vector has directions of layers from 1 on", "directions");
  GgufHeader header;
  header.add("general.architecture", "controlvector");
  header.add("controlvector.model_hint", vector.model_hint);
  header.add("controlvector.layer_count", static_cast<uint32_t>(vector.directions.size()));
  for (const auto& [layer, direction] : vector.directions) {
    const uint64_t shape[] = {direction.size()};
    header.add_tensor(std::string(kPrefix) + std::to_string(layer), Format::kF32, shape);
  }
  PHIDIAS_TRY(GgufWriter writer, GgufWriter::create(path, header));
  for (const auto& [layer, direction] : vector.directions)
    PHIDIAS_CHECK_OK(writer.write(std::as_bytes(std::span(direction))));
  return writer.commit();
}

Result<ControlVector> contrast(Engine& engine, std::span<const ContrastPair> pairs,
                               ContrastMethod method) {
  if (pairs.empty()) return invalid("there are no pairs", "pairs");
  if (method == ContrastMethod::kPcaDiff && pairs.size() < 2)
    return invalid("a principal component needs two pairs at least; use the mean", "pairs");
  std::vector<std::vector<std::vector<double>>> differences;  // [layer, pair, hidden_size]
  for (const ContrastPair& pair : pairs) {
    PHIDIAS_TRY(auto positive, last_streams(engine, pair.positive));
    PHIDIAS_TRY(const auto negative, last_streams(engine, pair.negative));
    differences.resize(positive.size());
    for (size_t layer = 0; layer < positive.size(); ++layer) {
      for (size_t i = 0; i < positive[layer].size(); ++i) positive[layer][i] -= negative[layer][i];
      differences[layer].push_back(std::move(positive[layer]));
    }
  }
  ControlVector vector;
  vector.model_hint = engine.model().info().type;
  for (size_t layer = 1; layer < differences.size(); ++layer) {
    const auto& rows = differences[layer];
    std::vector<double> direction(rows.front().size());
    for (const auto& row : rows) {
      for (size_t i = 0; i < row.size(); ++i)
        direction[i] += row[i] / static_cast<double>(rows.size());
    }
    if (method == ContrastMethod::kPcaDiff) {
      direction = principal_component(rows);
      // Most positives are to lie ahead of their negatives.
      size_t ahead = 0;
      for (const auto& row : rows) ahead += dot(row, direction) > 0 ? 1U : 0U;
      if (2 * ahead < rows.size()) {
        for (double& x : direction) x = -x;
      }
    }
    if (dot(direction, direction) == 0)
      return invalid("the texts of the pairs give the same streams", "pairs");
    vector.directions[static_cast<uint32_t>(layer)] = {direction.begin(), direction.end()};
  }
  return vector;
}

Edits steer(const ControlVector& vector, double coefficient, const Positions& at, bool keep_norm) {
  Edits edits;
  for (const auto& [layer, direction] : vector.directions) {
    edits += steer(static_cast<int32_t>(layer), Tensor::of({direction.size()}, direction),
                   coefficient, at, keep_norm);
  }
  return edits;
}

}  // namespace phidias
