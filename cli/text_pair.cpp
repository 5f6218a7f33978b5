#include "text_pair.h"

#include "html_page.h"
#include "input_options.h"

namespace phidias::cli {
namespace {

Result<std::vector<TokenId>> text_or_ids(const std::string& text, const std::string& ids,
                                         const Tokenizer* tokenizer, const char* option) {
  if (!ids.empty()) return parse_ids(ids, option);
  if (tokenizer == nullptr)
    return Error{Code::kNotFound, "the checkpoint has no tokenizer; give ids", {{}, {}, option}};
  auto tokens = tokenizer->encode(text);
  if (tokens.empty())
    return Error{Code::kInvalidArgument, "the text has no tokens", {{}, {}, option}};
  return tokens;
}

}  // namespace

void TextPairArguments::declare(CommandOptions& command) {
  command.add_option("--clean", clean, "The text whose values are put in");
  command.add_option("--corrupt", corrupt, "The text they are put into, equally long");
  command.add_option("--clean-ids", clean_ids, "The same as token ids");
  command.add_option("--corrupt-ids", corrupt_ids, "The same as token ids");
}

Result<TextPair> TextPairArguments::read(const Tokenizer* tokenizer) const {
  auto first = text_or_ids(clean, clean_ids, tokenizer, "--clean");
  if (!first.ok()) return std::move(first).error();
  if (!has_corrupt()) return TextPair{*first, *first};
  auto second = text_or_ids(corrupt, corrupt_ids, tokenizer, "--corrupt");
  if (!second.ok()) return std::move(second).error();
  return TextPair{std::move(*first), std::move(*second)};
}

std::string token_label(const Tokenizer* tokenizer, TokenId id) {
  return tokenizer == nullptr ? std::to_string(id) : visible_token(tokenizer->token_bytes(id));
}

std::vector<std::string> token_labels(const Tokenizer* tokenizer, const std::vector<TokenId>& ids,
                                      const std::vector<TokenId>& others) {
  std::vector<std::string> labels;
  for (size_t i = 0; i < ids.size(); ++i) {
    labels.push_back(std::to_string(i) + " " + token_label(tokenizer, ids[i]));
    if (i < others.size() && others[i] != ids[i])
      labels.back() += " / " + token_label(tokenizer, others[i]);
  }
  return labels;
}

}  // namespace phidias::cli
