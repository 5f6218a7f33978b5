// Any ids, two bytes each: every chunk of a stream is valid UTF-8, and together they are the
// decoded text (where byte tokens form no valid text, the two may differ in how many U+FFFD they
// show, and in nothing else).
#include <string>
#include <vector>

#include "fuzz_tokenizers.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const phidias::Tokenizer& tokenizer, const std::vector<phidias::TokenId>& ids,
           bool exact) {
  for (const bool skip_special : {false, true}) {
    phidias::DecodeStream stream(tokenizer, skip_special);
    std::string joined;
    for (const auto id : ids) {
      const std::string chunk = stream.push(id);
      require(phidias::is_valid_utf8(chunk));
      joined += chunk;
    }
    const std::string end = stream.flush();
    require(phidias::is_valid_utf8(end));
    joined += end;
    const std::string whole = tokenizer.decode(ids, skip_special);
    require(phidias::is_valid_utf8(whole));
    const bool valid = whole.find(phidias::kReplacementCharacter) == std::string::npos;
    if (exact || valid) require(joined == whole);
    if (joined.find(phidias::kReplacementCharacter) == std::string::npos) require(valid);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto byte_level = phidias::fuzz::byte_level();
  static const auto byte_tokens = phidias::fuzz::byte_tokens();
  std::vector<phidias::TokenId> ids;
  for (size_t i = 0; i + 1 < size; i += 2) {
    ids.push_back(static_cast<phidias::TokenId>((data[i] << 8 | data[i + 1]) % 1100));
  }
  check(*byte_level, ids, true);
  check(*byte_tokens, ids, false);
  return 0;
}
