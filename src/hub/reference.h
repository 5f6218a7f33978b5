// Names that come from a user or a hub, checked before they become part of a path or a URL, and the
// choice of files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/hub.h"

namespace phidias {

// A file's path inside a repository: relative, plain, inside it. kCorrupt otherwise.
Status check_file_name(std::string_view name);
// A commit: 40 or 64 hexadecimal digits. kCorrupt otherwise.
Status check_commit(std::string_view commit);

// The files of `listing` that are needed to run the model: a .gguf file alone, or the configs,
// tokenizer, template and weights of a folder.
//   errors  kNotFound, kInvalidArgument: what there is instead, ten names at most
Result<std::vector<std::string>> choose_files(std::span<const std::string> listing,
                                              const HubReference& reference);

bool is_gguf(std::string_view name);

}  // namespace phidias
