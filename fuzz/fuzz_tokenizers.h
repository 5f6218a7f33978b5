// Two small tokenizers for fuzz targets: byte-level, and SentencePiece's layout with byte tokens.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/hf_tokenizer.h"

namespace phidias::fuzz {

inline std::shared_ptr<const Tokenizer> parse_or_abort(const std::string& json) {
  auto parts = parse_tokenizer_json(json, "tokenizer.json");
  if (!parts.ok()) std::abort();
  return make_tokenizer(std::move(*parts));
}

inline std::string added_tokens() {
  return R"("added_tokens": [
    {"id": 1000, "content": "<|user|>", "special": true, "normalized": false, "rstrip": true},
    {"id": 1001, "content": "<|end|>", "special": true, "normalized": false, "lstrip": true, "rstrip": true},
    {"id": 1002, "content": "<|tool|>", "special": false, "normalized": false}])";
}

// Bytes 0..255 in the order of their characters, and a few merges.
inline std::shared_ptr<const Tokenizer> byte_level() {
  std::string vocabulary;
  size_t next = 0;
  const auto add = [&](const std::string& text) {
    std::string escaped;
    for (const char c : text) {
      if (c == '"' || c == '\\') escaped += '\\';
      escaped += c;
    }
    vocabulary += (next == 0 ? "\"" : ", \"") + escaped + "\": " + std::to_string(next);
    ++next;
  };
  for (const char32_t character : byte_characters()) {
    std::string text;
    append_utf8(text, character);
    add(text);
  }
  for (const char* text : {"aa", "aaaa", "ab", "\u0120a", "\u00e2\u0124", "\u010a\u010a"})
    add(text);
  return parse_or_abort(R"({"model": {"type": "BPE", "vocab": {)" + vocabulary +
                        R"(}, "merges": ["a a", "aa aa", "a b", "Ġ a", "â Ĥ", "Ċ Ċ"]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
        "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
    "decoder": {"type": "ByteLevel"}, )" +
                        added_tokens() + "}");
}

inline std::shared_ptr<const Tokenizer> byte_tokens() {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string vocabulary =
      R"("<unk>": 256, "▁": 257, "a": 258, "b": 259, "▁a": 260, "ab": 261, "▁▁": 262)";
  for (size_t byte = 0; byte < 256; ++byte) {
    vocabulary += std::string(R"(, "<0x)") + kDigits[byte >> 4] + kDigits[byte & 15] + R"(>": )" +
                  std::to_string(byte);
  }
  return parse_or_abort(
      R"({"model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>",
    "vocab": {)" +
      vocabulary + R"(}, "merges": ["▁ a", "a b", "▁ ▁"]},
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}, )" +
      added_tokens() + "}");
}

}  // namespace phidias::fuzz
