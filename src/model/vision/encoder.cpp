#include "model/vision/encoder.h"

#include <algorithm>
#include <cmath>

#include "model/blocks/linear.h"
#include "model/vision/tower.h"

namespace phidias {
namespace {

// Where the merged patches of a grid of tiles go: from `first_row` on, lines of columns * merged
// patches and a separator.
class Lines {
 public:
  Lines(const VisionSpec& spec, size_t first_row, size_t columns)
      : spec_(&spec), first_row_(first_row), columns_(columns) {}

  size_t per_line() const { return columns_ * spec_->merged_grid() + 1; }

  // The patches of the tile in row `r` and column `c` of the grid, four to a row of features.
  void put(const float* tower, size_t r, size_t c, Activations& out) const {
    const size_t merged = spec_->merged_grid();
    const size_t grid = spec_->grid();
    const size_t width = spec_->width;
    const float* patches = tower + width;  // after the class token
    for (size_t y = 0; y < merged; ++y) {
      for (size_t x = 0; x < merged; ++x) {
        float* row = out.row(first_row_ + (r * merged + y) * per_line() + c * merged + x);
        for (size_t part = 0; part < 4; ++part) {
          const size_t patch = (2 * y + part / 2) * grid + 2 * x + part % 2;
          std::copy_n(patches + patch * width, width, row + part * width);
        }
      }
    }
  }
  void end_lines(const std::vector<float>& separator, size_t rows, Activations& out) const {
    for (size_t line = 0; line < rows * spec_->merged_grid(); ++line) {
      std::copy(separator.begin(), separator.end(),
                out.row(first_row_ + (line + 1) * per_line() - 1));
    }
  }

 private:
  const VisionSpec* spec_;
  size_t first_row_;
  size_t columns_;
};

// out = W x + bias, each value through `activate`.
template <class Activate>
void project(const ProjectionWeights& weights, Activations& x, float* out, RunContext& context,
             Activate activate) {
  const size_t width = weights.weight.rows;
  linear(context, weights.weight, x, out, width);
  context.threads->run(x.rows(), 1, [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      float* row = out + r * width;
      for (size_t i = 0; i < width; ++i) row[i] = activate(row[i] + weights.bias[i]);
    }
  });
}

float gelu(float x) {
  const double value = x;
  return static_cast<float>(0.5 * value * (1.0 + std::erf(value * std::sqrt(0.5))));
}

}  // namespace

std::vector<float> encode_tiles(const VisionSpec& spec, const VisionWeights& weights,
                                const ImageTiles& tiles, RunContext& context,
                                const TileProgress& progress, const ImageTap& tap) {
  const size_t rows = spec.image_rows(tiles.rows, tiles.columns);
  Activations merged;
  merged.resize(rows, spec.merged_width());
  const Lines local(spec, 0, tiles.columns);
  const size_t separator = tiles.rows * spec.merged_grid() * local.per_line();
  const Lines global(spec, separator + 1, 1);
  {
    VisionTower tower(spec, weights);
    for (size_t i = 0; i < tiles.count(); ++i) {
      if (progress && !progress(i, tiles.count())) return {};
      const float* patches = tower.run(tiles.tile(i), i, tap, context);
      if (i == 0)
        global.put(patches, 0, 0, merged);
      else
        local.put(patches, (i - 1) / tiles.columns, (i - 1) % tiles.columns, merged);
    }
  }
  local.end_lines(weights.line_separator, tiles.rows, merged);
  std::copy(weights.image_separator.begin(), weights.image_separator.end(), merged.row(separator));
  global.end_lines(weights.line_separator, 1, merged);
  auto visit = [&](ImageSite site, float* data, size_t width) {
    if (tap) tap({site, 0, 0, data, rows, width});
  };
  visit(ImageSite::kMerged, merged.row(0), merged.cols());

  const size_t width = weights.projection[1].weight.rows;
  Activations hidden;
  project(weights.projection[0], merged, hidden.resize(rows, width), context, gelu);
  std::vector<float> features(rows * width);
  project(weights.projection[1], hidden, features.data(), context, [](float x) { return x; });
  visit(ImageSite::kFeatures, features.data(), width);
  return features;
}

}  // namespace phidias
