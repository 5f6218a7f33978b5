#include <map>

#include "api/convert_write.h"
#include "api/gguf_metadata.h"
#include "api/model_files.h"
#include "api/model_impl.h"
#include "api/random_weights.h"
#include "api/shapes.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "formats/gguf_writer.h"
#include "model/registry.h"
#include "phidias/bench.h"
#include "text/gguf_tokenizer_writer.h"

namespace phidias {

namespace {

// The shape with as many layers as are wanted.
Result<ModelSpec> spec_of(const RandomModelOptions& options) {
  PHIDIAS_TRY(ModelSpec spec, spec_of_shape(options.shape));
  if (options.layers > spec.layers) {
    return Error{Code::kInvalidArgument,
                 options.shape + " has " + std::to_string(spec.layers) + " layers",
                 {{}, {}, "layers"}};
  }
  if (options.layers > 0) spec.layers = options.layers;
  return spec;
}

// Which of the matrices hold rows of a tensor.
std::vector<size_t> sources_of(const PlannedTensor& tensor,
                               const std::map<const std::byte*, size_t>& by_begin) {
  std::vector<size_t> sources;
  for (const RowBlock& block : tensor.rows.blocks) {
    auto at = by_begin.upper_bound(block.data);
    if (at == by_begin.begin()) continue;
    --at;
    if (sources.empty() || sources.back() != at->second) sources.push_back(at->second);
  }
  return sources;
}

}  // namespace

Result<std::shared_ptr<const Model>> random_model(const RandomModelOptions& options) {
  PHIDIAS_TRY(ModelSpec spec, spec_of(options));
  PHIDIAS_TRY(const Recipe* recipe, find_recipe(options.weights));
  ThreadPool threads(options.threads == 0 ? usable_cores() : options.threads);
  auto impl = std::make_unique<Model::Impl>();
  PHIDIAS_TRY(impl->weights, random_weights(spec, *recipe, threads));
  impl->spec = spec;
  ModelFiles files;
  files.path = options.shape;
  files.spec = std::move(spec);
  impl->info = describe(files);
  describe_weights(impl->spec, impl->weights, impl->info);
  return std::shared_ptr<const Model>(std::make_shared<Model>(std::move(impl)));
}

Status save_random_model(const RandomModelOptions& options, const std::filesystem::path& file) {
  PHIDIAS_TRY(const ModelSpec spec, spec_of(options));
  PHIDIAS_TRY(const Recipe* recipe, find_recipe(options.weights));
  if (!has_gguf_layout(spec.type)) {
    return Error{Code::kUnsupported,
                 "GGUF has no layout for models of type " + spec.type +
                     ": random ones are not saved; leave out the file",
                 {{}, {}, "shape"}};
  }
  ThreadPool threads(options.threads == 0 ? usable_cores() : options.threads);
  PHIDIAS_TRY(const UnfilledWeights unfilled, unfilled_weights(spec, *recipe));
  PHIDIAS_TRY(ConversionPlan plan, plan_gguf(spec, unfilled.weights));
  add_long_rope_factors(plan, spec);
  GgufHeader header;
  add_model_keys(header, spec, options.shape + " with random weights", Recipe::kNoFileType);
  add_no_tokenizer_keys(header);
  for (const PlannedTensor& tensor : plan)
    header.add_tensor(tensor.name, tensor.format, tensor.shape);

  // Each tensor's matrices are made as it is written, so that no model has to fit into memory.
  RandomBlocks blocks;
  std::map<const std::byte*, size_t> by_begin;
  for (size_t i = 0; i < unfilled.matrices.size(); ++i)
    by_begin.emplace(unfilled.matrices[i].data(), i);
  PHIDIAS_TRY(GgufWriter writer, GgufWriter::create(file, header));
  for (const PlannedTensor& tensor : plan) {
    const bool vector = tensor.rows.blocks.front().owner == nullptr;
    const std::vector<size_t> sources =
        vector ? std::vector<size_t>() : sources_of(tensor, by_begin);
    for (const size_t i : sources) unfilled.matrices[i].fill(i + 1, blocks, threads);
    PHIDIAS_CHECK_OK(
        write_plan({tensor}, threads, nullptr, nullptr, {},
                   [&](std::span<const std::byte> bytes) { return writer.write(bytes); }));
    for (const size_t i : sources)
      release_mapped(unfilled.matrices[i].data(), unfilled.matrices[i].bytes());
  }
  return writer.commit();
}

}  // namespace phidias
