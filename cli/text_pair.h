// --clean and --corrupt: two texts, as texts or as ids.
#pragma once

#include <string>
#include <vector>

#include "command_options.h"
#include "phidias/model.h"

namespace phidias::cli {

struct TextPair {
  std::vector<TokenId> clean;
  std::vector<TokenId> corrupt;
};

struct TextPairArguments {
  std::string clean;
  std::string corrupt;
  std::string clean_ids;
  std::string corrupt_ids;

  void declare(CommandOptions& command);
  bool has_corrupt() const { return !corrupt.empty() || !corrupt_ids.empty(); }
  // Without a corrupt text it is the clean one. Errors: kNotFound for a text where there is no
  // tokenizer; kInvalidArgument for a text without tokens.
  Result<TextPair> read(const Tokenizer* tokenizer) const;
};

// A token as it can be seen; its id without a tokenizer.
std::string token_label(const Tokenizer* tokenizer, TokenId id);
// "3 ␣word" for each, and where another text has another token there, both.
std::vector<std::string> token_labels(const Tokenizer* tokenizer, const std::vector<TokenId>& ids,
                                      const std::vector<TokenId>& others);

}  // namespace phidias::cli
