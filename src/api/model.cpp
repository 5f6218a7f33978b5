#include "phidias/model.h"

#include "api/model_files.h"
#include "api/model_impl.h"
#include "base/ascii.h"
#include "base/thread_pool.h"
#include "base/try.h"
#include "quant/fitting.h"
#include "weights/convert.h"

namespace phidias {
namespace {

Result<std::optional<Format>> weight_format(const std::string& name) {
  if (name == "file") return std::optional<Format>();
  const auto format = format_from_name(name);
  if (format) return std::optional<Format>(format);
  std::string known = "file";
  for (const FormatRow& row : format_rows()) known += ", " + ascii_lower(row.name);
  return Error{Code::kInvalidArgument,
               "\"" + name + "\" is not a number format; choose one of " + known,
               {{}, {}, "weights"}};
}

}  // namespace

Model::Model(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

const ModelInfo& Model::info() const { return impl_->info; }
std::shared_ptr<const Tokenizer> Model::tokenizer() const { return impl_->tokenizer; }
std::shared_ptr<const ChatTemplate> Model::chat_template() const { return impl_->chat_template; }
const std::vector<TokenId>& Model::stop_ids() const { return impl_->info.stop_ids; }

Result<std::shared_ptr<const Model>> Model::load(const std::filesystem::path& path,
                                                 const LoadOptions& options) {
  PHIDIAS_TRY(const auto format, weight_format(options.weights));
  PHIDIAS_TRY(const ModelFiles files, open_model_files(path));
  if (!files.has_weights()) {
    return Error{Code::kNotFound,
                 "the folder has no model.safetensors, no shards with an index and no .gguf file",
                 {path.string(), {}, {}}};
  }
  auto impl = std::make_unique<Impl>();
  impl->spec = files.spec;
  PHIDIAS_TRY(impl->weights, bind_weights(files.spec, *files.names, files.checkpoint.tensors));
  if (format) {
    ThreadPool threads(options.threads == 0 ? usable_cores() : options.threads);
    Status failed;
    impl->weights.for_each_matrix(impl->spec, [&](Matrix& matrix) {
      if (!failed.ok() || matrix.keeps == Keeps::kFormat) return;
      // As `quantize` would store it.
      const Format target = fitting(
          matrix.keeps == Keeps::kEightBits ? with_eight_bits(*format) : *format, matrix.cols);
      auto result = converted(matrix, target, threads);
      // The file's pages were read once and count as ours until they are given back.
      for (const RowBlock& block : matrix.blocks) {
        if (result.ok() && block.owner == nullptr && block.format != target) {
          release_mapped(block.data, block.bytes(matrix.cols));
        }
      }
      if (result.ok())
        matrix = std::move(*result);
      else
        failed = std::move(result).error();
    });
    PHIDIAS_CHECK_OK(failed);
    if (impl->spec.tied_head) impl->weights.head = impl->weights.embedding;
  }
  impl->info = describe(files);
  describe_weights(impl->spec, impl->weights, impl->info);
  PHIDIAS_TRY(impl->tokenizer, load_tokenizer_for(files));
  auto found = find_chat_template(files, impl->tokenizer.get());
  if (found.ok())
    impl->chat_template = std::move(found->chat_template);
  else
    impl->info.notices.push_back("the chat template cannot be used: " + found.error().to_string());
  impl->info.stop_ids = stop_ids_of(files, impl->tokenizer.get());
  return std::shared_ptr<const Model>(std::make_shared<Model>(std::move(impl)));
}

}  // namespace phidias
