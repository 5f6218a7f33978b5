// From a conversation to the ids that a model is given.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/chat.h"
#include "phidias/image.h"
#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// Encodes text in which the tag <|image_n|> stands for the n-th image, from 1: as many ids -n as it
// has tokens. The pieces between tags are encoded each by itself, also empty ones, with the special
// tokens that `options` asks for: as the vision models' own processor does. A tag may occur several
// times; without images it is ordinary text. Errors: kInvalidArgument for a tag without an image
// and for an image without a tag.
Result<std::vector<TokenId>> encode_with_images(const Tokenizer& tokenizer, std::string_view text,
                                                std::span<const ImageHandle> images,
                                                const EncodeOptions& options = {});
// "<|image_n|>"
std::string image_tag(size_t number);

struct ChatPrompt {
  std::string text;  // as the template renders it
  std::vector<TokenId> ids;
  std::vector<size_t> untraced;  // messages that the template leaves out: the user should be told
};

// Renders the conversation and encodes the whole text, without special tokens beyond the template's
// own.
//   obey_markers   false: markers that a message spells out stay ordinary text, so that nobody can
//   close a turn or
//                  forge another from inside one; true: they act, as with transformers'
//                  apply_chat_template
//   images   of a model that sees images, where the messages have tags for them. The text is then
//   encoded with the
//            special tokens of the tokenizer, as the vision models' own processor does; null: the
//            model sees none
// Errors: those of ChatTemplate::render and encode_with_images.
Result<ChatPrompt> chat_prompt(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                               const std::vector<ChatMessage>& messages,
                               const RenderOptions& options = {}, bool obey_markers = false,
                               const std::vector<ImageHandle>* images = nullptr);

}  // namespace phidias
