#include <CLI/CLI.hpp>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "commands.h"
#include "phidias/version.h"
#include "usage.h"

namespace phidias::cli {
namespace {

constexpr Command kCommands[] = {
    {"chat", "Talk with a model in the terminal", setup_chat},
    {"generate", "Continue a text, or answer one question", setup_generate},
    {"pull", "Download a model from a hub", setup_pull},
    {"inspect", "What a checkpoint is, checked without running it", setup_inspect},
    {"tokenize", "Text to token ids", setup_tokenize},
    {"detokenize", "Token ids to text", setup_detokenize},
    {"render", "Conversations to prompts, by the checkpoint's chat template", setup_render},
    {"logits", "Logits of given tokens, to a safetensors file", setup_logits},
    {"perplexity", "How well a model predicts a text", setup_perplexity},
    {"convert", "A checkpoint to one GGUF file", setup_convert},
    {"quantize", "A checkpoint to a GGUF file in fewer bits", setup_quantize},
    {"imatrix", "Which inputs of a model's matrices matter, by a text", setup_imatrix},
    {"export", "A checkpoint to a folder laid out as the published ones", setup_export},
    {"trace", "Named values of a run, kept and changed", setup_trace},
    {"lens", "What each layer would predict at each position", setup_lens},
    {"patch", "Which layers and positions carry a difference between two texts", setup_patch},
    {"ablate", "What a text loses without a layer, a head or a position", setup_ablate},
    {"attrib", "How much each value matters to a metric, out of gradients", setup_attrib},
    {"heads", "What the attention heads look at", setup_heads},
    {"vector", "A control vector from pairs of contrasting texts", setup_vector},
    {"collect", "Values of many texts, to a folder of shards", setup_collect},
    {"support", "Which values a model has", setup_support},
    {"bench", "How fast it is here, beside what the machine can do", setup_bench},
    {"version", "The version, and what this build and this CPU have", setup_version},
};

int report(const Error& error) {
  std::fprintf(stderr, "phidias: %s\n", error.to_string().c_str());
  return kExitFailed;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Phidias runs Microsoft's Phi-3 family of language models (Phi-3, Phi-3.5, Phi-4) on the "
      "CPU.\n"
      "Start with: phidias chat -m FOLDER_OR_GGUF",
      "phidias"};
  app.footer(
      "Exit status: 0 success, 1 failure (one sentence on standard error), 2 wrong usage, 130 "
      "interrupted.\n"
      "Colours appear on terminals only, and not with NO_COLOR set.");
  app.set_version_flag("--version", std::string("phidias ") + PHIDIAS_VERSION);
  app.failure_message(usage_fault);
  app.require_subcommand(1);
  app.fallthrough(false);
  std::function<Result<int>()> chosen;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    CommandOptions options(*sub);
    auto action = command.setup(options);
    sub->callback([&chosen, action] { chosen = action; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    const int status = app.exit(fault);
    return status == 0 ? kExitOk : kExitUsage;
  }
  const Result<int> result = chosen();
  if (!result.ok()) return report(result.error());
  if (*result == kExitOk && std::ferror(stdout) != 0)
    return report({Code::kIo, "not everything could be written", {"standard output", {}, {}}});
  return *result;
}

}  // namespace
}  // namespace phidias::cli

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // text is UTF-8 everywhere, whatever the environment says
  std::signal(SIGPIPE, SIG_IGN);        // a closed pipe is a failed write, not the end
  try {
    return phidias::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "phidias: not enough memory; try a smaller --ctx, --kv q8 or a model with smaller "
                 "weights\n");
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "phidias: internal fault: %s\n", fault.what());
  }
  return phidias::cli::kExitFailed;
}
