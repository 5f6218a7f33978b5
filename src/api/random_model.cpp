#include "api/convert_plan.h"
#include "api/gguf_metadata.h"
#include "api/model_files.h"
#include "api/model_impl.h"
#include "api/random_weights.h"
#include "api/shapes.h"
#include "base/try.h"
#include "formats/gguf_writer.h"
#include "phidias/bench.h"
#include "text/gguf_tokenizer_writer.h"

namespace phidias {

Result<std::shared_ptr<const Model>> random_model(const RandomModelOptions& options) {
  PHIDIAS_TRY(ModelSpec spec, spec_of_shape(options.shape));
  PHIDIAS_TRY(const Recipe* recipe, find_recipe(options.weights));
  if (options.layers > spec.layers) {
    return Error{Code::kInvalidArgument,
                 options.shape + " has " + std::to_string(spec.layers) + " layers",
                 {{}, {}, "layers"}};
  }
  if (options.layers > 0) spec.layers = options.layers;
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

Status save_random_model(const Model& model, const std::filesystem::path& file) {
  const Model::Impl& impl = model.impl();
  PHIDIAS_TRY(const ConversionPlan plan, plan_gguf(impl.spec, impl.weights));
  GgufHeader header;
  add_model_keys(header, impl.spec, impl.info.path + " with random weights", Recipe::kNoFileType);
  add_no_tokenizer_keys(header);
  ConversionPlan all = plan;
  add_long_rope_factors(all, impl.spec);
  for (const PlannedTensor& tensor : all)
    header.add_tensor(tensor.name, tensor.format, tensor.shape);
  ThreadPool threads(usable_cores());
  PHIDIAS_TRY(GgufWriter writer, GgufWriter::create(file, header));
  PHIDIAS_CHECK_OK(
      write_plan(all, threads, nullptr, nullptr, {},
                 [&](std::span<const std::byte> bytes) { return writer.write(bytes); }));
  return writer.commit();
}

}  // namespace phidias
