// The metadata of a GGUF file that describe a model, by the keys that llama.cpp reads.
#pragma once

#include <string_view>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "model/spec.h"

namespace phidias {

// general.*: all that a file has beside the folder's files it carries, where GGUF has no layout.
//   file_type   general.file_type; Recipe::kNoFileType leaves it out
void add_general_keys(GgufHeader& header, const ModelSpec& spec, std::string_view name,
                      uint32_t file_type);
// The same and <architecture>.*; not the tokenizer.
void add_model_keys(GgufHeader& header, const ModelSpec& spec, std::string_view name,
                    uint32_t file_type);

// Every key of another file, to the letter, but for those that say how tensors are stored; these
// are written by what is stored now. Returns whether the file has a name; with `name` not empty
// that one is written in its place.
void copy_keys(GgufHeader& header, const GgufFile& file, std::string_view name, uint32_t file_type);

}  // namespace phidias
