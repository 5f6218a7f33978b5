// The sub-commands, one file each.
#pragma once

#include "command.h"

namespace phidias::cli {

std::function<Result<int>()> setup_ablate(CommandOptions& command);
std::function<Result<int>()> setup_attrib(CommandOptions& command);
std::function<Result<int>()> setup_bench(CommandOptions& command);
std::function<Result<int>()> setup_chat(CommandOptions& command);
std::function<Result<int>()> setup_collect(CommandOptions& command);
std::function<Result<int>()> setup_convert(CommandOptions& command);
std::function<Result<int>()> setup_detokenize(CommandOptions& command);
std::function<Result<int>()> setup_export(CommandOptions& command);
std::function<Result<int>()> setup_generate(CommandOptions& command);
std::function<Result<int>()> setup_imatrix(CommandOptions& command);
std::function<Result<int>()> setup_heads(CommandOptions& command);
std::function<Result<int>()> setup_inspect(CommandOptions& command);
std::function<Result<int>()> setup_lens(CommandOptions& command);
std::function<Result<int>()> setup_logits(CommandOptions& command);
std::function<Result<int>()> setup_patch(CommandOptions& command);
std::function<Result<int>()> setup_perplexity(CommandOptions& command);
std::function<Result<int>()> setup_pull(CommandOptions& command);
std::function<Result<int>()> setup_quantize(CommandOptions& command);
std::function<Result<int>()> setup_render(CommandOptions& command);
std::function<Result<int>()> setup_support(CommandOptions& command);
std::function<Result<int>()> setup_tokenize(CommandOptions& command);
std::function<Result<int>()> setup_trace(CommandOptions& command);
std::function<Result<int>()> setup_vector(CommandOptions& command);
std::function<Result<int>()> setup_version(CommandOptions& command);

}  // namespace phidias::cli
