#include "text/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/try.h"
#include "formats/carried_files.h"
#include "text/family.h"
#include "text/hf_tokenizer.h"
#include "text/patterns.h"
#include "text/tiktoken_tokenizer.h"
#include "text/tokenizer_impl.h"

namespace phidias {
namespace {

// What tokenizer.ggml.pre stands for: expressions that cut the text one after another.
struct WordRule {
  std::string_view name;
  std::vector<std::string_view> expressions;
  bool ignore_merges = false;
  bool adds_bos = false;  // where the file does not say
};

const std::vector<WordRule>& word_rules() {
  static const std::vector<WordRule> rules = {
      {"gpt-2", {kGpt2Expression}},
      {"smollm", {R"(\p{N})", kGpt2Expression}},
      {"dbrx", {kCl100kExpression}},
      {"gpt-4o", {kO200kExpression}},
      {"llama-bpe", {kCl100kExpression}, true, true},
      // What files from before this key was written are read with.
      {"default", {R"([\p{P}$+<=>^~|]+)", kGpt2Expression, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
  };
  return rules;
}

constexpr std::string_view kSpaceMark = "\u2581";

class GgufTokenizerReader {
 public:
  explicit GgufTokenizerReader(const GgufFile& file) : file_(file) {}

  Result<std::shared_ptr<const Tokenizer>> read();

 private:
  Error error(Code code, std::string message, std::string key) const {
    return {code, std::move(message), {file_.name, {}, std::move(key)}};
  }
  Status read_tokens();
  Status read_sentencepiece();
  Status read_byte_level();
  Status read_named_tokens();
  Status read_additions();

  const GgufFile& file_;
  GgufOrigin origin_;
  std::string model_;
  std::string architecture_;
  std::string chat_template_;
  const std::vector<std::string>* tokens_ = nullptr;
  std::vector<Bpe::RankedPiece> pieces_;  // normal tokens, without ranks
  bool adds_bos_by_default_ = false;
  TokenizerImpl parts_;
};

bool is_padding(std::string_view text, size_t id) {
  return text == "[PAD" + std::to_string(id) + "]";
}

Status GgufTokenizerReader::read_tokens() {
  PHIDIAS_TRY(tokens_, file_.optional_strings("tokenizer.ggml.tokens"));
  if (tokens_ == nullptr || tokens_->empty()) {
    return error(Code::kCorrupt, "is missing", "tokenizer.ggml.tokens");
  }
  if (tokens_->size() > kMaxVocabularySize) {
    return error(Code::kUnsupported,
                 "has more than " + std::to_string(kMaxVocabularySize) + " tokens",
                 "tokenizer.ggml.tokens");
  }
  PHIDIAS_TRY(const auto types, file_.optional_integers("tokenizer.ggml.token_type"));
  if (types && types->size() != tokens_->size()) {
    return error(Code::kCorrupt, "must have as many entries as tokenizer.ggml.tokens",
                 "tokenizer.ggml.token_type");
  }

  std::vector<AddedToken> markers;
  for (size_t i = 0; i < tokens_->size(); ++i) {
    const std::string& text = (*tokens_)[i];
    const auto type = types ? static_cast<GgufTokenType>((*types)[i]) : GgufTokenType::kNormal;
    const auto id = static_cast<TokenId>(i);
    switch (type) {
      case GgufTokenType::kUnused:
        continue;
      case GgufTokenType::kUnknown:
        if (is_padding(text, i)) continue;
        [[fallthrough]];
      case GgufTokenType::kControl:
      case GgufTokenType::kUserDefined: {
        AddedToken marker;
        marker.id = id;
        marker.text = text;
        marker.special = type != GgufTokenType::kUserDefined;
        markers.push_back(std::move(marker));
        continue;
      }
      case GgufTokenType::kNormal:
        pieces_.push_back({id, 0});
        break;
      case GgufTokenType::kByte:
        break;
      default:
        return error(Code::kUnsupported,
                     "the type " + std::to_string((*types)[i]) + " of token " + std::to_string(i) +
                         " is not known",
                     "tokenizer.ggml.token_type");
    }
    const Status added = parts_.vocabulary.add(text, i);
    if (!added.ok())
      return error(added.error().code, added.error().message, "tokenizer.ggml.tokens");
  }
  restore_marker_flags(markers, origin_);
  for (AddedToken& marker : markers) {
    const Status added = parts_.added.add(std::move(marker));
    if (!added.ok())
      return error(added.error().code, added.error().message, "tokenizer.ggml.tokens");
  }
  return {};
}

Status GgufTokenizerReader::read_sentencepiece() {
  PHIDIAS_TRY(const auto scores, file_.optional_numbers("tokenizer.ggml.scores"));
  if (!scores || scores->size() != tokens_->size()) {
    return error(Code::kCorrupt, "must have as many entries as tokenizer.ggml.tokens",
                 "tokenizer.ggml.scores");
  }
  // Rank 0 is the best score; equal scores have equal ranks, so that the leftmost pair goes first.
  std::vector<double> order;
  order.reserve(pieces_.size());
  for (const auto& piece : pieces_) {
    const double score = (*scores)[static_cast<size_t>(piece.id)];
    if (std::isnan(score))
      return error(Code::kCorrupt, "holds a score that is no number", "tokenizer.ggml.scores");
    order.push_back(score);
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  for (auto& piece : pieces_) {
    const auto at = std::lower_bound(order.begin(), order.end(),
                                     (*scores)[static_cast<size_t>(piece.id)], std::greater<>());
    piece.rank = static_cast<uint32_t>(at - order.begin());
  }

  BpeOptions options;
  options.byte_fallback = true;
  options.fuse_unknown = true;
  PHIDIAS_TRY(const auto unknown, file_.optional_unsigned("tokenizer.ggml.unknown_token_id"));
  if (unknown && *unknown < tokens_->size()) options.unknown = static_cast<TokenId>(*unknown);
  auto model = Bpe::from_pieces(parts_.vocabulary, pieces_, options);
  if (!model.ok()) return error(model.error().code, model.error().message, "tokenizer.ggml.tokens");
  parts_.model = std::move(model).value();

  PHIDIAS_TRY(const auto prefix, file_.optional_bool("tokenizer.ggml.add_space_prefix"));
  const bool adds_space = prefix.value_or(true);
  if (adds_space) parts_.normalizer.emplace_back(PrependText{std::string(kSpaceMark)});
  parts_.normalizer.emplace_back(ReplaceText{Pattern::literal(" "), std::string(kSpaceMark)});
  parts_.decoder.replacements.push_back({Pattern::literal(std::string(kSpaceMark)), " "});
  parts_.decoder.byte_tokens = true;
  parts_.decoder.strip = " ";
  parts_.decoder.strip_count = adds_space ? 1 : 0;
  // llama.cpp puts bos in front where nothing is said; the Phi-3 models were made without.
  adds_bos_by_default_ = architecture_ != "phi3";
  return {};
}

Status GgufTokenizerReader::read_byte_level() {
  PHIDIAS_TRY(const auto named, file_.optional_string("tokenizer.ggml.pre"));
  const std::string name = named.value_or("default");
  const auto& rules = word_rules();
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const WordRule& r) { return r.name == name; });
  if (rule == rules.end()) {
    std::string known;
    for (const WordRule& r : rules) known += (known.empty() ? "" : ", ") + std::string(r.name);
    return error(Code::kUnsupported,
                 "the pre-tokenizer \"" + name + "\" is not supported; those that are: " + known,
                 "tokenizer.ggml.pre");
  }
  for (const std::string_view expression : rule->expressions) {
    PHIDIAS_TRY(Pattern pattern, Pattern::regex(expression));
    parts_.pre_tokenizer.emplace_back(
        SplitAtPattern{std::move(pattern), SplitBehavior::kIsolated, false});
  }
  parts_.pre_tokenizer.emplace_back(ToByteAlphabet{});
  parts_.decoder.byte_alphabet = true;

  PHIDIAS_TRY(const auto* lines, file_.optional_strings("tokenizer.ggml.merges"));
  if (lines == nullptr) return error(Code::kCorrupt, "is missing", "tokenizer.ggml.merges");
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  merges.reserve(lines->size());
  for (const std::string_view line : *lines) {
    // The first place where both parts can be: a part may begin with a space in other tools' files.
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos) {
      return error(
          Code::kCorrupt,
          "merge " + std::to_string(merges.size()) + " must be two texts with a space between",
          "tokenizer.ggml.merges");
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  BpeOptions options;
  options.ignore_merges = rule->ignore_merges;
  auto model = Bpe::from_merges(parts_.vocabulary, merges, options);
  if (!model.ok()) return error(model.error().code, model.error().message, "tokenizer.ggml.merges");
  parts_.model = std::move(model).value();
  adds_bos_by_default_ = rule->adds_bos;
  return {};
}

Status GgufTokenizerReader::read_named_tokens() {
  struct Named {
    const char* key;
    const char* template_name;
    std::optional<TokenId>* id;
  };
  std::optional<TokenId> unknown;
  const Named all[] = {{"tokenizer.ggml.bos_token_id", "bos_token", &parts_.bos},
                       {"tokenizer.ggml.eos_token_id", "eos_token", &parts_.eos},
                       {"tokenizer.ggml.unknown_token_id", "unk_token", &unknown},
                       {"tokenizer.ggml.padding_token_id", "pad_token", &parts_.pad}};
  for (const Named& named : all) {
    PHIDIAS_TRY(const auto id, file_.optional_unsigned(named.key));
    if (!id) continue;
    if (*id >= tokens_->size()) {
      return error(Code::kCorrupt, std::to_string(*id) + " is not an id of this vocabulary",
                   named.key);
    }
    *named.id = static_cast<TokenId>(*id);
    parts_.template_tokens.emplace_back(named.template_name, (*tokens_)[static_cast<size_t>(*id)]);
  }
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    PHIDIAS_TRY(const auto id, file_.optional_unsigned(key));
    if (id && *id < tokens_->size()) parts_.more_stop_ids.push_back(static_cast<TokenId>(*id));
  }
  return {};
}

Status GgufTokenizerReader::read_additions() {
  PHIDIAS_TRY(const auto adds_bos, file_.optional_bool("tokenizer.ggml.add_bos_token"));
  PHIDIAS_TRY(const auto adds_eos, file_.optional_bool("tokenizer.ggml.add_eos_token"));
  parts_.set_adds_bos(adds_bos.value_or(adds_bos_by_default_));
  parts_.set_adds_eos(adds_eos.value_or(false));
  return {};
}

Result<std::shared_ptr<const Tokenizer>> GgufTokenizerReader::read() {
  PHIDIAS_TRY(const auto model, file_.optional_string("tokenizer.ggml.model"));
  model_ = model.value_or("no_vocab");
  if (model_ == "no_vocab" || model_ == "none") {
    return error(Code::kNotFound,
                 "the file carries no tokenizer; give one with a folder that has tokenizer.json",
                 "tokenizer.ggml.model");
  }
  PHIDIAS_TRY(const auto architecture, file_.optional_string("general.architecture"));
  architecture_ = architecture.value_or("");
  PHIDIAS_TRY(parts_.chat_template, file_.optional_string("tokenizer.chat_template"));
  chat_template_ = parts_.chat_template.value_or("");
  origin_ = {architecture_, model_, chat_template_};

  const bool sentencepiece = model_ == "llama";
  if (!sentencepiece && model_ != "gpt2") {
    return error(Code::kUnsupported,
                 "the tokenizer \"" + model_ + "\" is not supported; those that are: llama, gpt2",
                 "tokenizer.ggml.model");
  }
  PHIDIAS_CHECK_OK(read_tokens());
  PHIDIAS_CHECK_OK(sentencepiece ? read_sentencepiece() : read_byte_level());
  PHIDIAS_CHECK_OK(read_named_tokens());
  PHIDIAS_CHECK_OK(read_additions());
  return make_tokenizer(std::move(parts_));
}

}  // namespace

std::optional<std::string_view> gguf_pre_tokenizer(std::span<const std::string> expressions,
                                                   bool ignore_merges) {
  for (const WordRule& rule : word_rules()) {
    if (rule.ignore_merges == ignore_merges &&
        std::equal(rule.expressions.begin(), rule.expressions.end(), expressions.begin(),
                   expressions.end()))
      return rule.name;
  }
  return std::nullopt;
}

std::span<const std::string_view> gguf_pre_tokenizer_expressions(std::string_view name) {
  for (const WordRule& rule : word_rules()) {
    if (rule.name == name) return rule.expressions;
  }
  return {};
}

bool gguf_pre_tokenizer_ignores_merges(std::string_view name) {
  const auto& rules = word_rules();
  return std::any_of(rules.begin(), rules.end(), [name](const WordRule& rule) {
    return rule.name == name && rule.ignore_merges;
  });
}

Result<std::shared_ptr<const Tokenizer>> tokenizer_from_gguf(const GgufFile& file) {
  // The tokenizer's own file says more than the keys do.
  if (file.find(carried_file_key("tokenizer.json")) != nullptr ||
      file.find(carried_file_key(kTiktokenFile)) != nullptr) {
    return load_hf_tokenizer(
        [&file](std::string_view name) { return file.optional_string(carried_file_key(name)); },
        file.name);
  }
  return GgufTokenizerReader(file).read();
}

}  // namespace phidias
