// Tokenizers from a Hugging Face folder.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "phidias/status.h"
#include "phidias/tokenizer.h"
#include "text/tokenizer_impl.h"

namespace phidias {

// tokenizer.json (or, without one, a .tiktoken file of ranks) makes the tokenizer;
// tokenizer_config.json, special_tokens_map.json and added_tokens.json add what it leaves open:
// bos, eos and padding, whether bos is put in front, further markers, the chat template
// (chat_template.jinja and chat_template.json go before the config's). Errors: kNotFound, kCorrupt,
// kUnsupported, with file and JSON path.
Result<std::shared_ptr<const Tokenizer>> load_hf_tokenizer(const std::filesystem::path& folder);

// The same from files that lie elsewhere, by their names in such a folder; nullopt for one that is
// not there. Needs tokenizer.json or kTiktokenFile (kNotFound).
//   place   in errors, before a file's name
using ReadNamedFile = std::function<Result<std::optional<std::string>>(std::string_view name)>;
Result<std::shared_ptr<const Tokenizer>> load_hf_tokenizer(const ReadNamedFile& read,
                                                           const std::string& place);

// The parts that one tokenizer.json describes. `json` is its text, `file` its name in errors.
Result<TokenizerImpl> parse_tokenizer_json(std::string_view json, const std::string& file);

}  // namespace phidias
