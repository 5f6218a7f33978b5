// Tokenizers from a tiktoken file of ranks: lines of a token's bytes in base64 and its rank, which
// is its id.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "phidias/status.h"
#include "text/tokenizer_impl.h"

namespace phidias {

// Its name in published folders.
inline constexpr std::string_view kTiktokenFile = "cl100k_base.tiktoken";

// The one file of `folder` that ends in .tiktoken; nullopt if there is none, kUnsupported if there
// are several.
Result<std::optional<std::filesystem::path>> find_tiktoken_file(
    const std::filesystem::path& folder);

// Such a file holds neither the markers nor the expression that cuts text into words, so only the
// vocabulary whose markers are known is read: cl100k_base, as Phi-3-small has it. Errors: kCorrupt,
// kUnsupported.
//   text   the file's contents; `file` its name in errors
Result<TokenizerImpl> parse_tiktoken(std::string_view text, const std::string& file);

}  // namespace phidias
