#include "api/bench_images.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "api/engine_impl.h"
#include "api/model_impl.h"
#include "base/random.h"
#include "base/try.h"
#include "model/vision/encoder.h"

namespace phidias {
namespace {

// Multiplications and additions of one tile and of its rows' projection.
double operations(const VisionSpec& tower, double decoder_width) {
  const double rows = tower.positions();
  const double width = tower.width;
  const double layer =
      rows * (4 * width * width + 2 * width * tower.ffn_width) + 2 * rows * rows * width;
  const double merged = tower.merged_grid() * tower.merged_grid();
  const double projection =
      merged * (tower.merged_width() * decoder_width + decoder_width * decoder_width);
  return 2 * (tower.layers * layer + rows * tower.patch_values() * width + projection);
}

ImageTiles random_tiles(const VisionSpec& tower, uint32_t tiles, uint64_t seed) {
  ImageTiles image{.side = tower.side, .rows = 1, .columns = tiles, .values = {}};
  image.values.resize(image.count() * 3 * size_t{tower.side} * tower.side);
  std::vector<uint32_t> indices(image.values.size());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<uint32_t>(i);
  std::vector<uint64_t> bits(indices.size());
  draw_bits(draw_key(seed, 0, 0), indices, bits);
  std::transform(bits.begin(), bits.end(), image.values.begin(), [](uint64_t drawn) {
    return static_cast<float>(drawn % 256) / 64.0F - 2.0F;  // about what normalised pixels are
  });
  return image;
}

}  // namespace

Result<BenchRow> bench_image(Engine& engine, uint32_t tiles, const BenchOptions& options,
                             const MachineReading& before, const MachineReading& after) {
  using Clock = std::chrono::steady_clock;
  const Model::Impl& model = engine.model().impl();
  const VisionSpec& tower = *model.spec.vision;
  const VisionWeights& weights = *model.weights.vision;
  BenchRow row;
  row.metric = "image_s";
  std::vector<double> seconds;
  try {
    const ImageTiles image = random_tiles(tower, tiles, options.seed);
    row.prompt = static_cast<uint32_t>(tower.image_rows(image.rows, image.columns));
    row.batch = static_cast<uint32_t>(image.count());
    const std::string what = "image of " + std::to_string(image.count()) + " tiles";
    for (uint32_t rep = 0; rep < options.repetitions; ++rep) {
      const auto progress = [&](size_t done, size_t total) {
        return !options.progress ||
               options.progress(what, static_cast<uint32_t>(done), static_cast<uint32_t>(total));
      };
      const auto start = Clock::now();
      const auto features = encode_tiles(tower, weights, image, engine.images().context, progress);
      if (features.empty()) return Error{Code::kCancelled, "was interrupted", {}};
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  } catch (const std::bad_alloc&) {
    return Error{Code::kOutOfMemory, "no memory to encode the image", {{}, {}, "images"}};
  }
  std::sort(seconds.begin(), seconds.end());
  row.median = seconds[seconds.size() / 2];
  row.min = seconds.front();
  row.max = seconds.back();
  const bool integers =
      engine.options().numerics == Numerics::kFast &&
      format_row(weights.layers.front().up.weight.blocks.front().format).block_values > 1;
  const double peak = integers ? std::max(before.integer_ops_s, after.integer_ops_s)
                               : std::max(before.float_ops_s, after.float_ops_s);
  row.limit = row.batch * operations(tower, model.spec.width) / peak;
  return row;
}

}  // namespace phidias
