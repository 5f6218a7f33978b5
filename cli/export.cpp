// phidias export: a checkpoint as a Hugging Face folder.
#include "commands.h"
#include "conversion.h"
#include "phidias/convert.h"
#include "run_options.h"

namespace phidias::cli {
namespace {

struct ExportArguments {
  ModelOption model;
  std::string folder;
  ExportOptions options;
  double shard_gigabytes = 5;
  bool json = false;
};

Result<int> run(ExportArguments arguments) {
  auto path = arguments.model.find();
  if (!path.ok()) return std::move(path).error();
  arguments.options.shard_bytes = static_cast<uint64_t>(arguments.shard_gigabytes * 1e9);
  return run_conversion(arguments.folder, arguments.json, [&](auto progress) {
    arguments.options.progress = std::move(progress);
    return export_folder(*path, arguments.folder, arguments.options);
  });
}

}  // namespace

std::function<Result<int>()> setup_export(CommandOptions& command) {
  auto arguments = std::make_shared<ExportArguments>();
  arguments->model.declare(command);
  command
      .add_option("-o,--hf", arguments->folder,
                  "The folder to write, in Hugging Face's layout; it must not exist or be empty")
      .required();
  command.add_option("--type", arguments->options.type, "Type of the weights: bf16, f16 or f32")
      .one_of({"bf16", "f16", "f32"})
      .show_default();
  command
      .add_option("--shard-gb", arguments->shard_gigabytes,
                  "The most that one safetensors file holds, in 10^9 bytes")
      .in_range(1e-6, 1e6)
      .show_default();
  declare_threads(command, arguments->options.threads);
  command.add_flag("--json", arguments->json, "What it cost as a JSON object");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
