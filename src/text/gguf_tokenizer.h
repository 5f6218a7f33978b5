// Tokenizers from the metadata of a GGUF file.
#pragma once

#include <memory>

#include "formats/gguf.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// tokenizer.ggml.model "llama" (SentencePiece, merged by scores) and "gpt2" (byte-level, merges;
// cut into words as tokenizer.ggml.pre says). Flags of markers that the format does not store are
// restored (family.h). Errors: kNotFound where the file carries no tokenizer, kCorrupt,
// kUnsupported with the kind's name.
Result<std::shared_ptr<const Tokenizer>> tokenizer_from_gguf(const GgufFile& file);

}  // namespace phidias
