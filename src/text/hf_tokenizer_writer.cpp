#include "text/hf_tokenizer_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/try.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer_impl.h"

namespace phidias {
namespace {

// Not ordered: an ordered object looks through all its keys to add one, and a vocabulary has
// hundreds of thousands.
using Json = nlohmann::json;

std::string dumped(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

constexpr const char* kSpaceMark = "\u2581";

Json added_token_json(const AddedToken& token) {
  return {{"content", token.text},
          {"lstrip", token.lstrip},
          {"normalized", token.normalized},
          {"rstrip", token.rstrip},
          {"single_word", token.single_word},
          {"special", token.special}};
}

struct Pieces {
  const std::vector<std::string>* texts = nullptr;
  std::vector<bool> used;  // by id: part of the model's vocabulary
  std::vector<double> scores;
};

// What transformers makes of a SentencePiece model: of each piece all pairs that give it, in the
// order of their ids; pieces by falling score.
Json merges_by_score(const Pieces& pieces) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < pieces.used.size(); ++id) {
    if (pieces.used[id]) ids.emplace((*pieces.texts)[id], id);
  }
  struct Pair {
    size_t left, right;
    double score;
  };
  std::vector<Pair> pairs;
  for (size_t id = 0; id < pieces.used.size(); ++id) {
    if (!pieces.used[id]) continue;
    const std::string_view text = (*pieces.texts)[id];
    const size_t first = pairs.size();
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut));
      const auto right = ids.find(text.substr(cut));
      if (left != ids.end() && right != ids.end())
        pairs.push_back({left->second, right->second, pieces.scores[id]});
    }
    std::sort(pairs.begin() + static_cast<std::ptrdiff_t>(first), pairs.end(),
              [](const Pair& a, const Pair& b) {
                return std::pair(a.left, a.right) < std::pair(b.left, b.right);
              });
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.score > b.score; });
  Json merges = Json::array();
  for (const Pair& pair : pairs)
    merges.push_back({(*pieces.texts)[pair.left], (*pieces.texts)[pair.right]});
  return merges;
}

Json sentencepiece_steps(bool adds_space, Json& decoder) {
  Json normalizers = Json::array();
  if (adds_space) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  normalizers.push_back(
      {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}});
  Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (adds_space)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  decoder = {{"type", "Sequence"}, {"decoders", decoders}};
  return {{"type", "Sequence"}, {"normalizers", normalizers}};
}

Json byte_level(bool add_prefix_space) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", false}};
}

Json byte_level_steps(std::string_view rule) {
  Json steps = Json::array();
  for (const std::string_view expression : gguf_pre_tokenizer_expressions(rule)) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", expression}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(byte_level(false));
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json byte_level_merges(const std::vector<std::string>& lines) {
  Json merges = Json::array();
  for (const std::string& line : lines) {
    const size_t space = std::min(line.size() - 1, line.find(' ', 1));  // the reader has checked
    merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return merges;
}

// Puts bos before the text and eos behind it, where the tokenizer does.
Json post_processor(const Tokenizer& tokenizer) {
  const auto special = [&](TokenId id) -> Json {
    return {{"SpecialToken", {{"id", tokenizer.token_bytes(id)}, {"type_id", 0}}}};
  };
  Json single = Json::array();
  Json tokens = Json::object();
  const auto put = [&](const std::vector<TokenId>& ids) {
    for (const TokenId id : ids) {
      const std::string text = tokenizer.token_bytes(id);
      single.push_back(special(id));
      tokens[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
    }
  };
  put(tokenizer.impl().prefix);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  put(tokenizer.impl().suffix);
  Json pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", tokens}};
}

Json config_json(const Tokenizer& tokenizer, uint64_t context) {
  Json config = Json::object();
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["model_max_length"] = context;
  config["clean_up_tokenization_spaces"] = false;
  config["add_bos_token"] = tokenizer.adds_bos();
  config["add_eos_token"] = !tokenizer.impl().suffix.empty();
  for (const auto& [name, text] : tokenizer.template_tokens()) config[name] = text;
  Json decoder = Json::object();
  for (const auto& [id, token] : tokenizer.impl().added.all())
    decoder[std::to_string(id)] = added_token_json(token);
  config["added_tokens_decoder"] = decoder;
  if (const auto source = tokenizer.chat_template()) config["chat_template"] = *source;
  return config;
}

}  // namespace

Result<HfTokenizerFiles> hf_tokenizer_files(const GgufFile& file, const Tokenizer& tokenizer,
                                            uint64_t context) {
  Pieces pieces;
  PHIDIAS_TRY(pieces.texts, file.optional_strings("tokenizer.ggml.tokens"));
  PHIDIAS_TRY(const auto kind, file.optional_string("tokenizer.ggml.model"));
  PHIDIAS_TRY(const auto types, file.optional_integers("tokenizer.ggml.token_type"));
  PHIDIAS_TRY(auto scores, file.optional_numbers("tokenizer.ggml.scores"));
  if (pieces.texts == nullptr) {
    return Error{Code::kNotFound, "carries no tokenizer", {file.name, {}, "tokenizer.ggml.tokens"}};
  }
  const size_t count = pieces.texts->size();
  pieces.scores = scores.value_or(std::vector<double>(count, 0.0));
  pieces.used.resize(count);
  Json vocabulary = Json::object();
  for (size_t id = 0; id < count; ++id) {
    const auto type = types && id < types->size() ? static_cast<GgufTokenType>((*types)[id])
                                                  : GgufTokenType::kNormal;
    pieces.used[id] = type == GgufTokenType::kNormal || type == GgufTokenType::kByte;
    if (pieces.used[id]) vocabulary[(*pieces.texts)[id]] = id;
  }
  const bool sentencepiece = kind == "llama";
  Json unknown;
  for (const auto& [name, text] : tokenizer.template_tokens()) {
    // BPE looks its unknown token up in its own vocabulary.
    if (name != "unk_token" || !sentencepiece) continue;
    unknown = text;
    vocabulary[text] = *tokenizer.find(text);
  }
  Json added = Json::array();
  for (const auto& [id, token] : tokenizer.impl().added.all()) {
    Json entry = {{"id", id}};
    entry.update(added_token_json(token));
    added.push_back(entry);
  }

  Json root = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", added},
               {"normalizer", nullptr},
               {"pre_tokenizer", nullptr},
               {"post_processor", post_processor(tokenizer)}};
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", unknown},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", sentencepiece},
                {"byte_fallback", sentencepiece}};
  if (sentencepiece) {
    PHIDIAS_TRY(const auto prefix, file.optional_bool("tokenizer.ggml.add_space_prefix"));
    root["normalizer"] = sentencepiece_steps(prefix.value_or(true), root["decoder"]);
    model["ignore_merges"] = false;
    model["vocab"] = std::move(vocabulary);
    model["merges"] = merges_by_score(pieces);
  } else {
    PHIDIAS_TRY(const auto rule, file.optional_string("tokenizer.ggml.pre"));
    PHIDIAS_TRY(const auto* lines, file.optional_strings("tokenizer.ggml.merges"));
    root["pre_tokenizer"] = byte_level_steps(rule.value_or("default"));
    root["decoder"] = byte_level(true);
    model["ignore_merges"] = gguf_pre_tokenizer_ignores_merges(rule.value_or("default"));
    model["vocab"] = std::move(vocabulary);
    model["merges"] = lines == nullptr ? Json::array() : byte_level_merges(*lines);
  }
  root["model"] = std::move(model);
  return HfTokenizerFiles{dumped(root), dumped(config_json(tokenizer, context))};
}

}  // namespace phidias
