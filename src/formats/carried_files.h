// The small files of a Hugging Face folder that a GGUF file made from it carries in its metadata,
// word for word: what GGUF has no key for (flags of markers, the exact configuration) is not lost,
// and the folder can be made again. A model that GGUF has no layout for is described by these files
// alone, and its tensors have the folder's names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace phidias {

// Every name that is carried, "tokenizer.json" first. Names come from this list alone, never from a
// file, so that none can lead out of a folder.
std::span<const std::string_view> carried_file_names();

// The key under which a file's text stands: for tokenizer.json the one that the GGUF specification
// defines (tokenizer.huggingface.json), for others "phidias.file.<name>".
std::string carried_file_key(std::string_view name);

}  // namespace phidias
