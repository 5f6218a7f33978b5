#include "text/gguf_tokenizer_writer.h"

#include <algorithm>
#include <unordered_map>

#include "base/json.h"
#include "base/try.h"
#include "text/dom.h"
#include "text/gguf_tokenizer.h"
#include "text/patterns.h"
#include "text/tokenizer_impl.h"

namespace phidias {
namespace {

constexpr float kAddedScore = -1000;
constexpr float kUnusedScore = -10000;

using MergePair = std::pair<std::string_view, std::string_view>;

// "a b" or ["a", "b"]; the readers have refused everything else.
Result<std::vector<MergePair>> merges_of(const DomReader& model) {
  PHIDIAS_TRY(const DomReader list, model.child("merges"));
  simdjson::dom::array entries;
  if (list.element().get(entries) != simdjson::SUCCESS)
    return list.error(Code::kCorrupt, "must be a list");
  std::vector<MergePair> merges;
  merges.reserve(entries.size());
  for (const simdjson::dom::element entry : entries) {
    std::string_view left, right;
    simdjson::dom::array pair;
    if (entry.get(left) == simdjson::SUCCESS) {
      const size_t space = std::min(left.size(), left.find(' ', 1));
      right = left.substr(std::min(left.size(), space + 1));
      left = left.substr(0, space);
    } else if (entry.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
               pair.at(0).get(left) != simdjson::SUCCESS ||
               pair.at(1).get(right) != simdjson::SUCCESS) {
      return list.error(Code::kCorrupt,
                        "merge " + std::to_string(merges.size()) + " must be two texts");
    }
    merges.emplace_back(left, right);
  }
  return merges;
}

// A part of the tree that is small.
Result<Json> part_of(const DomReader& top, std::string_view key) {
  if (!top.has(key)) return Json();
  PHIDIAS_TRY(const DomReader part, top.child(key));
  return parse_json(simdjson::minify(part.element()));
}

// The expressions that cut text into words, in order.
void append_expressions(const Json& step, std::vector<std::string>& expressions) {
  if (!step.is_object()) return;
  const std::string type = step.value("type", "");
  if (type == "Sequence" && step.contains("pretokenizers")) {
    for (const Json& inner : step["pretokenizers"]) append_expressions(inner, expressions);
  } else if (type == "Split" && step.contains("pattern") && step["pattern"].is_object()) {
    expressions.push_back(step["pattern"].value("Regex", step["pattern"].value("String", "")));
  } else if (type == "Digits") {
    expressions.emplace_back(step.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "ByteLevel" && step.value("use_regex", true)) {
    expressions.emplace_back(kGpt2Expression);
  }
}

bool prepends_space(const Json& normalizer) {
  if (!normalizer.is_object()) return false;
  if (normalizer.value("type", "") == "Prepend") return true;
  const auto inner = normalizer.find("normalizers");
  return inner != normalizer.end() && inner->is_array() &&
         std::any_of(inner->begin(), inner->end(), prepends_space);
}

void add_ids(GgufHeader& header, const Tokenizer& tokenizer) {
  const auto add = [&](const char* key, std::optional<TokenId> id) {
    if (id) header.add(key, static_cast<uint32_t>(*id));
  };
  add("tokenizer.ggml.bos_token_id", tokenizer.bos());
  add("tokenizer.ggml.eos_token_id", tokenizer.eos());
  add("tokenizer.ggml.padding_token_id", tokenizer.pad());
  for (const auto& [name, text] : tokenizer.template_tokens()) {
    if (name == "unk_token") add("tokenizer.ggml.unknown_token_id", tokenizer.find(text));
  }
  // The end of a turn where it is another token than the end of the text.
  for (const char* text : {"<|end|>", "<|im_end|>"}) {
    const auto id = tokenizer.find(text);
    if (!id || id == tokenizer.eos()) continue;
    add("tokenizer.ggml.eot_token_id", id);
    break;
  }
  const auto around = tokenizer.encode("");
  header.add("tokenizer.ggml.add_bos_token", tokenizer.adds_bos());
  header.add("tokenizer.ggml.add_eos_token", tokenizer.eos() && !around.empty() &&
                                                 around.back() == *tokenizer.eos() &&
                                                 around.size() > (tokenizer.adds_bos() ? 1U : 0U));
}

// Of each text that some merge makes: how many such texts were made before.
std::unordered_map<std::string, float> scores_by_merges(const std::vector<MergePair>& merges) {
  std::unordered_map<std::string, float> scores;
  for (const auto& [left, right] : merges)
    scores.emplace(std::string(left) + std::string(right), -static_cast<float>(scores.size()));
  return scores;
}

}  // namespace

Status add_tokenizer_keys(GgufHeader& header, std::string_view tokenizer_json,
                          const std::string& place, const Tokenizer& tokenizer, size_t rows,
                          std::vector<std::string>& notices) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto reason = parser.parse(tokenizer_json.data(), tokenizer_json.size()).get(root);
      reason != simdjson::SUCCESS) {
    return Error{Code::kCorrupt, simdjson::error_message(reason), {place, {}, {}}};
  }
  if (tokenizer.size() > rows) {
    return Error{Code::kUnsupported,
                 "has ids up to " + std::to_string(tokenizer.size() - 1) +
                     ", but the embedding has only " + std::to_string(rows) + " rows",
                 {place, {}, "/model/vocab"}};
  }
  const DomReader top(root, "");
  PHIDIAS_TRY(const DomReader model, top.child("model"));
  PHIDIAS_TRY(const auto merges, merges_of(model));
  PHIDIAS_TRY(const bool sentencepiece, model.flag("byte_fallback", false));
  const auto merge_scores =
      sentencepiece ? scores_by_merges(merges) : std::unordered_map<std::string, float>();

  std::vector<std::string> texts(rows);
  std::vector<int32_t> types(rows, static_cast<int32_t>(GgufTokenType::kUnused));
  std::vector<float> scores(rows, kUnusedScore);
  for (size_t id = 0; id < rows; ++id) texts[id] = "[PAD" + std::to_string(id) + "]";
  const auto set = [&](size_t id, std::string text, GgufTokenType type, float score) {
    texts[id] = std::move(text);
    types[id] = static_cast<int32_t>(type);
    scores[id] = score;
  };
  const Vocabulary& vocabulary = tokenizer.impl().vocabulary;
  for (size_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.contains(static_cast<TokenId>(id))) continue;
    std::string text(vocabulary.text(static_cast<TokenId>(id)));
    const bool byte = sentencepiece && parse_byte_token(text).has_value();
    const auto made = merge_scores.find(text);
    // What no merge makes is never chosen by its score.
    const float score = byte                         ? 0.0F
                        : made == merge_scores.end() ? -static_cast<float>(merge_scores.size())
                                                     : made->second;
    set(id, std::move(text), byte ? GgufTokenType::kByte : GgufTokenType::kNormal, score);
  }
  for (const auto& [id, token] : tokenizer.impl().added.all()) {
    set(static_cast<size_t>(id), token.text,
        token.special ? GgufTokenType::kControl : GgufTokenType::kUserDefined, kAddedScore);
  }

  header.add("tokenizer.ggml.model", sentencepiece ? "llama" : "gpt2");
  if (sentencepiece) {
    header.add("tokenizer.ggml.pre", "default");
    PHIDIAS_TRY(const Json normalizer, part_of(top, "normalizer"));
    header.add("tokenizer.ggml.add_space_prefix", prepends_space(normalizer));
  } else {
    std::vector<std::string> expressions;
    PHIDIAS_TRY(const Json steps, part_of(top, "pre_tokenizer"));
    append_expressions(steps, expressions);
    PHIDIAS_TRY(const bool ignores_merges, model.flag("ignore_merges", false));
    const auto name = gguf_pre_tokenizer(expressions, ignores_merges);
    if (!name) {
      notices.emplace_back(
          "GGUF has no name for the way in which this tokenizer cuts text into words: other "
          "programs will read its texts with slightly different ids");
    }
    header.add("tokenizer.ggml.pre", name.value_or("default"));
  }
  header.add_array("tokenizer.ggml.tokens", std::span<const std::string>(texts));
  if (sentencepiece) header.add_array("tokenizer.ggml.scores", std::span<const float>(scores));
  header.add_array("tokenizer.ggml.token_type", std::span<const int32_t>(types));
  if (!sentencepiece) {
    std::vector<std::string> lines;
    lines.reserve(merges.size());
    for (const auto& [left, right] : merges)
      lines.push_back(std::string(left) + " " + std::string(right));
    header.add_array("tokenizer.ggml.merges", std::span<const std::string>(lines));
  }
  add_ids(header, tokenizer);
  if (const auto source = tokenizer.chat_template())
    header.add("tokenizer.chat_template", std::string_view(*source));
  return {};
}

void add_no_tokenizer_keys(GgufHeader& header) { header.add("tokenizer.ggml.model", "no_vocab"); }

}  // namespace phidias
