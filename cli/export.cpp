// phidias export: a checkpoint as a Hugging Face folder.
#include "commands.h"
#include "common.h"
#include "conversion.h"
#include "phidias/convert.h"

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

std::function<Result<int>()> setup_export(CLI::App& app) {
  auto arguments = std::make_shared<ExportArguments>();
  arguments->model.declare(app);
  app.add_option("--hf", arguments->folder,
                 "The folder to write, in Hugging Face's layout; it must not exist or be empty")
      ->required();
  app.add_option("--type", arguments->options.type, "Type of the weights: bf16, f16 or f32")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->capture_default_str();
  app.add_option("--shard-gb", arguments->shard_gigabytes,
                 "The most that one safetensors file holds, in 10^9 bytes")
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  app.add_option("-t,--threads", arguments->options.threads,
                 "Threads; default: the physical cores that this process may use")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", arguments->json, "What it cost as a JSON object");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
