#include "phidias/convert.h"

#include <algorithm>
#include <chrono>

#include "api/calibration.h"
#include "api/convert_write.h"
#include "api/gguf_metadata.h"
#include "api/model_files.h"
#include "api/recipes.h"
#include "base/ascii.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "formats/carried_files.h"
#include "formats/gguf_writer.h"
#include "model/registry.h"
#include "text/gguf_tokenizer_writer.h"
#include "text/tokenizer_impl.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

std::string name_of_folder(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const std::string name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return name.empty() ? "model" : name;
}

// llama.cpp decides by general.name whether markers swallow the white space behind them, and
// looks certain tokens up where it says so: the name has to say "phi-3" exactly where the
// vocabulary is Phi-3's.
std::string name_for_vocabulary(std::string name, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return name;
  bool phi3 = true;
  for (const char* text : {"</s>", "<unk>", "<s>", "<|endoftext|>"})
    phi3 = phi3 && tokenizer->find(text).has_value();
  const AddedToken* end = tokenizer->impl().added.find(std::string_view("<|end|>"));
  const bool swallows = phi3 && end != nullptr && end->rstrip;
  const std::string lower = ascii_lower(name);
  for (const std::string_view word : {"phi-3", "phi3"}) {
    const size_t at = lower.find(word);
    if (at == std::string::npos) continue;
    if (!phi3) name.replace(at, word.size(), "phi 3");
    return name;
  }
  return swallows ? "phi-3 " + name : name;
}

Status add_tokenizer(GgufHeader& header, const ModelFiles& files, const Tokenizer* tokenizer,
                     std::vector<std::string>& notices) {
  const fs::path json = files.path / "tokenizer.json";
  std::error_code ignored;
  if (tokenizer == nullptr || !fs::exists(json, ignored)) {
    add_no_tokenizer_keys(header);
    if (tokenizer != nullptr)
      notices.emplace_back("the tokenizer is no tokenizer.json and cannot be written to GGUF");
    return {};
  }
  PHIDIAS_TRY(const std::string text, read_text_file(json, 512U << 20));
  return add_tokenizer_keys(header, text, json.string(), *tokenizer, files.spec.vocab, notices);
}

Status carry_files(GgufHeader& header, const fs::path& folder) {
  for (const std::string_view name : carried_file_names()) {
    std::error_code ignored;
    const fs::path file = folder / name;
    if (!fs::is_regular_file(file, ignored)) continue;
    PHIDIAS_TRY(const std::string text, read_text_file(file, 512U << 20));
    header.add(carried_file_key(name), std::string_view(text));
  }
  return {};
}

struct GgufContents {
  GgufHeader header;
  ConversionPlan plan;
  std::vector<std::string> notices;
};

Result<GgufContents> contents_of_gguf(const ModelFiles& files, const Recipe& recipe,
                                      const std::string& name) {
  GgufContents contents;
  const GgufFile& file = *files.checkpoint.gguf;
  uint32_t file_type = recipe.file_type;
  if (recipe.base.empty()) {  // types are kept
    PHIDIAS_TRY(const auto stated, file.optional_unsigned("general.file_type"));
    file_type = static_cast<uint32_t>(stated.value_or(Recipe::kNoFileType));
  }
  copy_keys(contents.header, file, name, file_type);
  contents.plan = plan_copy(files.checkpoint.tensors.tensors, *files.names);
  return contents;
}

// Where GGUF has no layout: the folder's files and its tensors by their own names.
Result<GgufContents> contents_of_carried_folder(const ModelFiles& files, const Recipe& recipe,
                                                const std::string& name) {
  GgufContents contents;
  add_general_keys(contents.header, files.spec, name, recipe.file_type);
  PHIDIAS_CHECK_OK(carry_files(contents.header, files.path));
  contents.plan = plan_copy(files.checkpoint.tensors.tensors, *files.names);
  contents.notices.push_back("GGUF has no layout for models of type " + files.spec.type +
                             ": this program reads the file, others do not");
  return contents;
}

Result<GgufContents> contents_of(const ModelFiles& files, const ModelWeights& weights,
                                 const Recipe& recipe, const std::string& wanted_name) {
  if (files.checkpoint.gguf) return contents_of_gguf(files, recipe, wanted_name);
  const std::string name = wanted_name.empty() ? name_of_folder(files.path) : wanted_name;
  if (!has_gguf_layout(files.spec.type)) return contents_of_carried_folder(files, recipe, name);
  GgufContents contents;
  PHIDIAS_TRY(const auto tokenizer, load_tokenizer_for(files));
  add_model_keys(contents.header, files.spec, name_for_vocabulary(name, tokenizer.get()),
                 recipe.file_type);
  PHIDIAS_CHECK_OK(add_tokenizer(contents.header, files, tokenizer.get(), contents.notices));
  PHIDIAS_CHECK_OK(carry_files(contents.header, files.path));
  PHIDIAS_TRY(contents.plan, plan_gguf(files.spec, weights));
  add_long_rope_factors(contents.plan, files.spec);
  return contents;
}

}  // namespace

Result<ConversionReport> write_gguf(const fs::path& model, const fs::path& file,
                                    const ConvertOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  PHIDIAS_TRY(const Recipe* recipe, find_recipe(options.recipe));
  PHIDIAS_TRY(const ModelFiles files, open_model_files(model));
  if (!files.has_weights())
    return Error{Code::kNotFound, "has no weights to convert", {model.string(), {}, {}}};
  // Binding checks every tensor, also where they are then copied by name.
  PHIDIAS_TRY(const ModelWeights weights,
              bind_weights(files.spec, *files.names, files.checkpoint.tensors));
  std::error_code ignored;
  if (fs::equivalent(model, file, ignored)) {
    return Error{Code::kInvalidArgument,
                 "is the file that is read; choose another name",
                 {file.string(), {}, {}}};
  }

  PHIDIAS_TRY(GgufContents contents, contents_of(files, weights, *recipe, options.model_name));
  auto& [header, plan, notices] = contents;
  choose_formats(plan, *recipe, files.spec.layers);
  if (options.importance) {
    const auto named = [&](const PlannedTensor& tensor) {
      return options.importance->mean_squares.contains(tensor.name);
    };
    if (std::none_of(plan.begin(), plan.end(), named)) {
      return Error{Code::kInvalidArgument,
                   "the importance matrix names no tensor of this model: it is another model's",
                   {model.string(), {}, {}}};
    }
  }
  for (const PlannedTensor& tensor : plan)
    header.add_tensor(tensor.name, tensor.format, tensor.shape);

  std::unique_ptr<Calibration> calibration;
  if (!options.calibration.ids.empty()) {
    PHIDIAS_TRY(calibration, Calibration::create(model, options.calibration, options.threads));
  }
  ThreadPool threads(options.threads == 0 ? usable_cores() : options.threads);
  PHIDIAS_TRY(GgufWriter writer, GgufWriter::create(file, header));
  PHIDIAS_CHECK_OK(
      write_plan(plan, threads, options.importance.get(), calibration.get(), options.progress,
                 [&](std::span<const std::byte> bytes) { return writer.write(bytes); }));
  PHIDIAS_CHECK_OK(writer.commit());

  ConversionReport report = describe_plan(plan);
  report.notices = std::move(notices);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace phidias
