// Any bytes as text: ids that decode to the same text, whatever markers it spells out, and markers
// that a guard hides.
#include <algorithm>
#include <string>
#include <string_view>

#include "fuzz_tokenizers.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const phidias::Tokenizer& tokenizer, std::string_view input, bool sentencepiece) {
  constexpr char32_t kGuard = 0xE000;
  // The mark for a space cannot be told from a space, and a guard is not the text's.
  std::string text = phidias::Pattern::literal("\ue000").replace(phidias::to_valid_utf8(input), "");
  if (sentencepiece) text = phidias::Pattern::literal("▁").replace(text, " ");

  phidias::EncodeOptions plain;
  plain.markers = false;
  const auto ids = tokenizer.encode(text, plain);
  require(tokenizer.decode(ids) == text);
  std::string bytes;
  for (const auto id : ids) bytes += tokenizer.token_bytes(id);
  require(bytes == (sentencepiece && !text.empty() ? " " + text : text));
  require(std::none_of(ids.begin(), ids.end(), [](auto id) { return id >= 1000; }));

  phidias::EncodeOptions guarded;
  guarded.guard = kGuard;
  require(tokenizer.encode(tokenizer.guard_markers(text, kGuard), guarded) == ids);

  // With markers obeyed, decoding what was encoded comes to rest: white space that markers swallow
  // is gone for good.
  const auto marked = tokenizer.encode(text);
  (void)tokenizer.decode(marked);
  (void)tokenizer.encode(input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto byte_level = phidias::fuzz::byte_level();
  static const auto byte_tokens = phidias::fuzz::byte_tokens();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check(*byte_level, input, false);
  check(*byte_tokens, input, true);
  return 0;
}
