// Tokenizers from the metadata of a GGUF file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/gguf.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// tokenizer.ggml.token_type
enum class GgufTokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// The name (tokenizer.ggml.pre) of the rule that cuts text into words by these expressions, one
// after another; nullopt where none has been given to it.
std::optional<std::string_view> gguf_pre_tokenizer(std::span<const std::string> expressions,
                                                   bool ignore_merges);
// The expressions that a name stands for; empty for a name that is not known.
std::span<const std::string_view> gguf_pre_tokenizer_expressions(std::string_view name);
bool gguf_pre_tokenizer_ignores_merges(std::string_view name);

// tokenizer.ggml.model "llama" (SentencePiece, merged by scores) and "gpt2" (byte-level, merges;
// cut into words as tokenizer.ggml.pre says). Flags of markers that the format does not store are
// restored (family.h). A file that carries the tokenizer.json it was made from (carried_files.h) is
// read by that. Errors: kNotFound where the file carries no tokenizer, kCorrupt,
// kUnsupported with the kind's name.
Result<std::shared_ptr<const Tokenizer>> tokenizer_from_gguf(const GgufFile& file);

}  // namespace phidias
