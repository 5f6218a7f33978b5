#include "phidias/prompt.h"

#include <charconv>
#include <optional>

#include "base/try.h"
#include "base/utf8.h"

namespace phidias {
namespace {

// A code point that stands for no character (Unicode reserves U+FDD0 to U+FDEF for such uses) and
// is in no message. Should all of them be, which no honest text does, U+FDD0 is lost from the
// messages.
char32_t unused_noncharacter(const std::vector<ChatMessage>& messages) {
  for (char32_t candidate = 0xFDD0; candidate <= 0xFDEF; ++candidate) {
    std::string encoded;
    append_utf8(encoded, candidate);
    bool found = false;
    for (const ChatMessage& message : messages)
      found = found || message.content.find(encoded) != std::string::npos;
    if (!found) return candidate;
  }
  return 0xFDD0;
}

void erase_all(std::string& text, char32_t code_point) {
  std::string encoded;
  append_utf8(encoded, code_point);
  for (size_t at = text.find(encoded); at != std::string::npos; at = text.find(encoded, at))
    text.erase(at, encoded.size());
}

// A tag <|image_n|> and where it stands.
struct Tag {
  size_t begin = 0;
  size_t end = 0;
  uint64_t number = 0;  // too large for any image where it has too many digits
};

std::optional<Tag> find_tag(std::string_view text, size_t from) {
  constexpr std::string_view kBegin = "<|image_";
  constexpr std::string_view kEnd = "|>";
  for (size_t at = text.find(kBegin, from); at != std::string_view::npos;
       at = text.find(kBegin, at + 1)) {
    const size_t digits = at + kBegin.size();
    size_t end = digits;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end == digits || !text.substr(end).starts_with(kEnd)) continue;
    Tag tag{.begin = at, .end = end + kEnd.size(), .number = 0};
    const auto read = std::from_chars(text.data() + digits, text.data() + end, tag.number);
    if (read.ec != std::errc()) tag.number = UINT64_MAX;
    return tag;
  }
  return {};
}

}  // namespace

std::string image_tag(size_t number) { return "<|image_" + std::to_string(number) + "|>"; }

Result<std::vector<TokenId>> encode_with_images(const Tokenizer& tokenizer, std::string_view text,
                                                std::span<const ImageHandle> images,
                                                const EncodeOptions& options) {
  if (images.empty()) return tokenizer.encode(text, options);
  std::vector<TokenId> ids;
  std::vector<bool> shown(images.size(), false);
  size_t at = 0;
  while (true) {
    const auto tag = find_tag(text, at);
    const auto piece =
        tokenizer.encode(text.substr(at, (tag ? tag->begin : text.size()) - at), options);
    ids.insert(ids.end(), piece.begin(), piece.end());
    if (!tag) break;
    if (tag->number == 0 || tag->number > images.size()) {
      return Error{Code::kInvalidArgument,
                   "the text has the tag " +
                       std::string(text.substr(tag->begin, tag->end - tag->begin)) +
                       ", but the images are numbered 1 to " + std::to_string(images.size()),
                   {{}, {}, "prompt"}};
    }
    const size_t index = static_cast<size_t>(tag->number) - 1;
    ids.insert(ids.end(), images[index]->tokens, -static_cast<TokenId>(tag->number));
    shown[index] = true;
    at = tag->end;
  }
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown[i]) continue;
    return Error{Code::kInvalidArgument,
                 "the text has no tag " + image_tag(i + 1) + " where image " +
                     std::to_string(i + 1) + " would stand",
                 {{}, {}, "prompt"}};
  }
  return ids;
}

Result<ChatPrompt> chat_prompt(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                               const std::vector<ChatMessage>& messages,
                               const RenderOptions& options, bool obey_markers,
                               const std::vector<ImageHandle>* images) {
  const char32_t guard = obey_markers ? 0 : unused_noncharacter(messages);
  std::vector<ChatMessage> guarded = messages;
  if (guard != 0) {
    for (ChatMessage& message : guarded)
      message.content = tokenizer.guard_markers(message.content, guard);
  }
  ChatPrompt prompt;
  PHIDIAS_TRY(prompt.text, chat_template.render(guarded, options, tokenizer.template_tokens()));
  const EncodeOptions encoding{.add_special = images != nullptr, .markers = true, .guard = guard};
  if (images != nullptr) {
    PHIDIAS_TRY(prompt.ids, encode_with_images(tokenizer, prompt.text, *images, encoding));
  } else {
    prompt.ids = tokenizer.encode(prompt.text, encoding);
  }
  if (guard != 0) erase_all(prompt.text, guard);
  prompt.untraced = chat_template.untraced_messages(messages, options, tokenizer.template_tokens());
  return prompt;
}

}  // namespace phidias
