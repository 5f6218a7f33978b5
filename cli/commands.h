// The sub-commands, one file each.
#pragma once

#include "command.h"

namespace phidias::cli {

std::function<Result<int>()> setup_ablate(CLI::App& app);
std::function<Result<int>()> setup_attrib(CLI::App& app);
std::function<Result<int>()> setup_bench(CLI::App& app);
std::function<Result<int>()> setup_chat(CLI::App& app);
std::function<Result<int>()> setup_collect(CLI::App& app);
std::function<Result<int>()> setup_convert(CLI::App& app);
std::function<Result<int>()> setup_detokenize(CLI::App& app);
std::function<Result<int>()> setup_export(CLI::App& app);
std::function<Result<int>()> setup_generate(CLI::App& app);
std::function<Result<int>()> setup_imatrix(CLI::App& app);
std::function<Result<int>()> setup_heads(CLI::App& app);
std::function<Result<int>()> setup_inspect(CLI::App& app);
std::function<Result<int>()> setup_lens(CLI::App& app);
std::function<Result<int>()> setup_logits(CLI::App& app);
std::function<Result<int>()> setup_patch(CLI::App& app);
std::function<Result<int>()> setup_perplexity(CLI::App& app);
std::function<Result<int>()> setup_pull(CLI::App& app);
std::function<Result<int>()> setup_quantize(CLI::App& app);
std::function<Result<int>()> setup_render(CLI::App& app);
std::function<Result<int>()> setup_support(CLI::App& app);
std::function<Result<int>()> setup_tokenize(CLI::App& app);
std::function<Result<int>()> setup_trace(CLI::App& app);
std::function<Result<int>()> setup_vector(CLI::App& app);
std::function<Result<int>()> setup_version(CLI::App& app);

}  // namespace phidias::cli
