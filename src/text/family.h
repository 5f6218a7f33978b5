// What the files of the Phi family leave out: markers that end a turn, and flags of markers that a
// GGUF file does not store. Vocabularies are known by a marker at its id, never by a model's name.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "phidias/tokenizer.h"
#include "text/added_tokens.h"

namespace phidias {

// Texts of tokens that end a turn in whatever vocabulary they are.
std::span<const std::string_view> turn_end_markers();

// A token that ends a turn only where it has this id.
struct MarkerAt {
  std::string_view text;
  TokenId id;
};
std::span<const MarkerAt> turn_end_markers_by_id();

// Markers that tokenizer.json calls special, but that the published code of their model shows when
// it decodes.
std::span<const MarkerAt> markers_shown_by_published_code();

// Markers of cl100k_base as Phi-3-small has them, from the first id behind its ranks on, ascending.
std::vector<AddedToken> tiktoken_markers();

// What is known of a GGUF file beside its tokens.
struct GgufOrigin {
  std::string_view architecture;   // general.architecture
  std::string_view model;          // tokenizer.ggml.model
  std::string_view chat_template;  // empty if there is none
};

// Sets lstrip, rstrip and special of the markers as the family's tokenizer.json files have them.
void restore_marker_flags(std::vector<AddedToken>& markers, const GgufOrigin& origin);

}  // namespace phidias
