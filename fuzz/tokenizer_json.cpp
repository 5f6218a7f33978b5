// Any bytes as tokenizer.json: an error or a tokenizer that works, never more.
#include <string>
#include <string_view>

#include "text/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  auto parts = phidias::parse_tokenizer_json(json, "tokenizer.json");
  if (!parts.ok()) return 0;
  const auto tokenizer = phidias::make_tokenizer(std::move(*parts));
  const auto ids = tokenizer->encode("Hello, w\u00f6rld 123\n <|user|>  ok\xFF");
  (void)tokenizer->decode(ids);
  (void)tokenizer->decode(ids, true);
  phidias::DecodeStream stream(*tokenizer);
  for (const auto id : ids) (void)stream.push(id);
  (void)stream.flush();
  return 0;
}
