// phidias pull.
#include "commands.h"
#include "interrupt.h"
#include "output.h"
#include "phidias/hub.h"
#include "terminal/progress_bar.h"

namespace phidias::cli {
namespace {

struct PullArguments {
  std::string name;
  std::string revision = "main";
  std::string endpoint;
  std::string cache;
};

Result<int> run(const PullArguments& arguments) {
  auto reference = HubReference::parse(arguments.name);
  if (!reference.ok()) return std::move(reference).error();
  reference->revision = arguments.revision;
  HubOptions options = HubOptions::from_environment();
  if (!arguments.endpoint.empty()) options.endpoint = arguments.endpoint;
  if (!arguments.cache.empty()) options.cache = arguments.cache;
  install_interrupt_handler();
  ProgressBar bar(Terminal::of(2));
  auto path = pull_model(*reference, options, [&bar](const HubProgress& progress) {
    bar.update(progress.file, progress.done, progress.total);
    return !interrupted();
  });
  bar.finish();
  if (!path.ok()) {
    if (path.error().code == Code::kCancelled) {
      std::fprintf(stderr, "interrupted; the same command goes on from here\n");
      return kExitInterrupted;
    }
    return std::move(path).error();
  }
  print(path->string() + "\n");
  std::fprintf(stderr, "run it with: phidias chat -m %s\n", arguments.name.c_str());
  return kExitOk;
}

}  // namespace

std::function<Result<int>()> setup_pull(CommandOptions& command) {
  auto arguments = std::make_shared<PullArguments>();
  command
      .add_option("name", arguments->name,
                  "owner/name, or owner/name:PART for the .gguf file whose name has PART in it")
      .required();
  command.add_option("--revision", arguments->revision, "A branch, a tag or a commit")
      .show_default();
  command.add_option("--endpoint", arguments->endpoint,
                     "The hub's address; default: HF_ENDPOINT, else https://huggingface.co");
  command.add_option(
      "--cache", arguments->cache,
      "The cache folder; default: HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub");
  command.footer("Private and gated models: put a token into HF_TOKEN.");
  return [arguments] { return run(*arguments); };
}

}  // namespace phidias::cli
