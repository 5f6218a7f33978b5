// The tokenizer of a GGUF file as the files of a Hugging Face folder, for GGUF files that do not
// carry those themselves.
#pragma once

#include <string>

#include "formats/gguf.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

struct HfTokenizerFiles {
  std::string tokenizer_json;
  std::string tokenizer_config_json;  // with the chat template
};

// SentencePiece's scores become merges: every way of making a piece from two others, best piece
// first.
//   tokenizer   as tokenizer_from_gguf() read it from `file`; it has the flags of markers
//   context     positions, for model_max_length
// Errors: those of the reader.
Result<HfTokenizerFiles> hf_tokenizer_files(const GgufFile& file, const Tokenizer& tokenizer,
                                            uint64_t context);

}  // namespace phidias
