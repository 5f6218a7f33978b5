#include "text/hf_components.h"

#include <functional>

#include "base/try.h"
#include "text/patterns.h"

namespace phidias {
namespace {

Error unsupported(const DomReader& node, std::string_view kind, std::string_view type) {
  return node.error(Code::kUnsupported,
                    "the " + std::string(kind) + " \"" + std::string(type) + "\" is not supported");
}

// {"String": "..."} or {"Regex": "..."}.
Result<Pattern> read_pattern(const DomReader& node) {
  PHIDIAS_TRY(const DomReader pattern, node.child("pattern"));
  if (pattern.has("Regex")) {
    PHIDIAS_TRY(const std::string_view expression, pattern.string("Regex"));
    auto compiled = Pattern::regex(expression);
    if (!compiled.ok()) return pattern.error(compiled.error().code, compiled.error().message);
    return compiled;
  }
  PHIDIAS_TRY(const std::string_view text, pattern.string("String"));
  return Pattern::literal(std::string(text));
}

Result<Pattern> own_pattern(std::string_view expression) { return Pattern::regex(expression); }

Result<SplitBehavior> read_behavior(const DomReader& node, SplitBehavior fallback) {
  if (!node.has("behavior")) return fallback;
  PHIDIAS_TRY(const std::string_view name, node.string("behavior"));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return unsupported(node, "behavior", name);
}

Status read_metaspace(const DomReader& node, PreTokenizer& steps) {
  PHIDIAS_TRY(const std::string_view replacement, node.string("replacement"));
  MetaspaceWords words;
  words.replacement = replacement;
  PHIDIAS_TRY(const bool prefix, node.flag("add_prefix_space", true));  // older files
  if (!prefix) words.prepend = MetaspaceWords::Prepend::kNever;
  if (node.has("prepend_scheme")) {
    PHIDIAS_TRY(const std::string_view scheme, node.string("prepend_scheme"));
    if (scheme == "always") {
      words.prepend = MetaspaceWords::Prepend::kAlways;
    } else if (scheme == "first") {
      words.prepend = MetaspaceWords::Prepend::kFirst;
    } else if (scheme == "never") {
      words.prepend = MetaspaceWords::Prepend::kNever;
    } else {
      return unsupported(node, "prepend_scheme", scheme);
    }
  }
  steps.emplace_back(words);
  PHIDIAS_TRY(const bool splits, node.flag("split", true));
  if (splits) {
    steps.emplace_back(
        SplitAtPattern{Pattern::literal(words.replacement), SplitBehavior::kMergedWithNext, false});
  }
  return {};
}

std::string character_class(std::string_view members) { return "[" + std::string(members) + "]"; }

// How far a list of decoders has come: later stages cannot be followed by earlier ones.
enum class DecoderStage : uint8_t { kTexts, kBytes, kFused, kDone };

Status read_decoder_step(const DomReader& node, DecoderOptions& decoder, DecoderStage& stage) {
  PHIDIAS_TRY(const std::string_view type, node.string("type"));
  const auto out_of_order = [&] {
    return node.error(Code::kUnsupported, "the decoder \"" + std::string(type) +
                                              "\" is not supported behind the ones before it");
  };
  const auto only_from = [&](DecoderStage earliest, DecoderStage latest) {
    return stage >= earliest && stage <= latest;
  };
  if (type == "Sequence") {
    PHIDIAS_TRY(const auto decoders, node.list("decoders"));
    for (const DomReader& step : decoders)
      PHIDIAS_CHECK_OK(read_decoder_step(step, decoder, stage));
    return {};
  }
  if (type == "ByteLevel") {
    if (stage != DecoderStage::kTexts || !decoder.replacements.empty()) return out_of_order();
    decoder.byte_alphabet = true;
    stage = DecoderStage::kFused;
  } else if (type == "Replace") {
    if (stage != DecoderStage::kTexts) return out_of_order();
    PHIDIAS_TRY(Pattern pattern, read_pattern(node));
    PHIDIAS_TRY(const std::string_view content, node.string("content"));
    decoder.replacements.push_back({std::move(pattern), std::string(content)});
  } else if (type == "Metaspace") {
    if (stage != DecoderStage::kTexts) return out_of_order();
    PreTokenizer words;  // the same keys as on the way in
    PHIDIAS_CHECK_OK(read_metaspace(node, words));
    const auto& metaspace = std::get<MetaspaceWords>(words.front());
    decoder.replacements.push_back({Pattern::literal(metaspace.replacement), " "});
    if (metaspace.prepend != MetaspaceWords::Prepend::kNever)
      decoder.first_token_drops = metaspace.replacement;
  } else if (type == "ByteFallback") {
    if (stage != DecoderStage::kTexts) return out_of_order();
    decoder.byte_tokens = true;
    stage = DecoderStage::kBytes;
  } else if (type == "Fuse") {
    if (!only_from(DecoderStage::kTexts, DecoderStage::kFused)) return out_of_order();
    stage = DecoderStage::kFused;
  } else if (type == "Strip") {
    if (stage != DecoderStage::kFused) return out_of_order();
    PHIDIAS_TRY(const std::string_view content, node.string("content"));
    PHIDIAS_TRY(const uint64_t start, node.whole_number("start"));
    PHIDIAS_TRY(const uint64_t stop, node.whole_number("stop"));
    if (stop != 0)
      return node.error(Code::kUnsupported,
                        "a Strip decoder at the end of the text is not supported");
    if (content.empty()) return node.error(Code::kCorrupt, "has nothing to strip");
    decoder.strip = content;
    decoder.strip_count = start;
    stage = DecoderStage::kDone;
  } else {
    return unsupported(node, "decoder", type);
  }
  return {};
}

Status read_template(const DomReader& node, TokenizerImpl& parts) {
  PHIDIAS_TRY(const auto single, node.list("single"));
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  bool behind = false;
  for (const DomReader& piece : single) {
    if (piece.has("Sequence")) {
      if (behind)
        return piece.error(Code::kUnsupported, "a template with the text twice is not supported");
      behind = true;
      continue;
    }
    PHIDIAS_TRY(const DomReader special, piece.child("SpecialToken"));
    PHIDIAS_TRY(const std::string_view name, special.string("id"));
    PHIDIAS_TRY(const DomReader all, node.child("special_tokens"));
    PHIDIAS_TRY(const DomReader token, all.child(name));
    PHIDIAS_TRY(const auto ids, token.list("ids"));
    for (const DomReader& id : ids) {
      uint64_t value = 0;
      if (id.element().get(value) != simdjson::SUCCESS || value >= kMaxVocabularySize) {
        return id.error(Code::kCorrupt, "must be a token id");
      }
      (behind ? after : before).push_back(static_cast<TokenId>(value));
    }
  }
  if (!behind) return node.error(Code::kCorrupt, "the template leaves out the text");
  parts.prefix.insert(parts.prefix.begin(), before.begin(), before.end());
  parts.suffix.insert(parts.suffix.end(), after.begin(), after.end());
  return {};
}

}  // namespace

Status read_normalizer(const DomReader& node, Normalizer& steps) {
  if (node.element().is_null()) return {};
  PHIDIAS_TRY(const std::string_view type, node.string("type"));
  if (type == "Sequence") {
    PHIDIAS_TRY(const auto normalizers, node.list("normalizers"));
    for (const DomReader& step : normalizers) PHIDIAS_CHECK_OK(read_normalizer(step, steps));
  } else if (type == "Prepend") {
    PHIDIAS_TRY(const std::string_view text, node.string("prepend"));
    steps.emplace_back(PrependText{std::string(text)});
  } else if (type == "Replace") {
    PHIDIAS_TRY(Pattern pattern, read_pattern(node));
    PHIDIAS_TRY(const std::string_view content, node.string("content"));
    steps.emplace_back(ReplaceText{std::move(pattern), std::string(content)});
  } else if (type == "NFC") {
    steps.emplace_back(UnicodeForm::kNfc);
  } else if (type == "NFD") {
    steps.emplace_back(UnicodeForm::kNfd);
  } else if (type == "NFKC") {
    steps.emplace_back(UnicodeForm::kNfkc);
  } else if (type == "NFKD") {
    steps.emplace_back(UnicodeForm::kNfkd);
  } else if (type == "Lowercase") {
    steps.emplace_back(LowercaseText{});
  } else if (type == "Strip") {
    PHIDIAS_TRY(const bool left, node.flag("strip_left", true));
    PHIDIAS_TRY(const bool right, node.flag("strip_right", true));
    steps.emplace_back(StripText{left, right});
  } else {
    return unsupported(node, "normalizer", type);
  }
  return {};
}

Status read_pre_tokenizer(const DomReader& node, PreTokenizer& steps) {
  if (node.element().is_null()) return {};
  PHIDIAS_TRY(const std::string_view type, node.string("type"));
  if (type == "Sequence") {
    PHIDIAS_TRY(const auto list, node.list("pretokenizers"));
    for (const DomReader& step : list) PHIDIAS_CHECK_OK(read_pre_tokenizer(step, steps));
  } else if (type == "ByteLevel") {
    PHIDIAS_TRY(const bool prefix, node.flag("add_prefix_space", true));
    PHIDIAS_TRY(const bool splits, node.flag("use_regex", true));
    if (prefix) steps.emplace_back(PrependSpace{});
    if (splits) {
      PHIDIAS_TRY(Pattern pattern, own_pattern(kGpt2Expression));
      steps.emplace_back(SplitAtPattern{std::move(pattern), SplitBehavior::kIsolated, false});
    }
    steps.emplace_back(ToByteAlphabet{});
  } else if (type == "Split") {
    PHIDIAS_TRY(Pattern pattern, read_pattern(node));
    PHIDIAS_TRY(const SplitBehavior behavior, read_behavior(node, SplitBehavior::kIsolated));
    PHIDIAS_TRY(const bool invert, node.flag("invert", false));
    steps.emplace_back(SplitAtPattern{std::move(pattern), behavior, invert});
  } else if (type == "Digits") {
    PHIDIAS_TRY(const bool individual, node.flag("individual_digits", false));
    PHIDIAS_TRY(Pattern pattern, own_pattern(R"(\p{N})"));
    steps.emplace_back(
        SplitAtPattern{std::move(pattern),
                       individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false});
  } else if (type == "Punctuation") {
    PHIDIAS_TRY(Pattern pattern, own_pattern(R"([\p{P}$+<=>^`|~])"));
    PHIDIAS_TRY(const SplitBehavior behavior, read_behavior(node, SplitBehavior::kIsolated));
    steps.emplace_back(SplitAtPattern{std::move(pattern), behavior, false});
  } else if (type == "Whitespace") {
    const std::string neither = "^" + std::string(kWordSet) + std::string(kWhiteSpaceSet);
    PHIDIAS_TRY(Pattern pattern,
                own_pattern(character_class(kWordSet) + "+|" + character_class(neither) + "+"));
    steps.emplace_back(SplitAtPattern{std::move(pattern), SplitBehavior::kRemoved, true});
  } else if (type == "Metaspace") {
    return read_metaspace(node, steps);
  } else {
    return unsupported(node, "pre-tokenizer", type);
  }
  return {};
}

Status read_decoder(const DomReader& node, DecoderOptions& decoder) {
  if (node.element().is_null())
    return node.error(Code::kUnsupported, "a tokenizer without a decoder is not supported");
  DecoderStage stage = DecoderStage::kTexts;
  return read_decoder_step(node, decoder, stage);
}

Status read_post_processor(const DomReader& node, TokenizerImpl& parts) {
  if (node.element().is_null()) return {};
  PHIDIAS_TRY(const std::string_view type, node.string("type"));
  if (type == "Sequence") {
    PHIDIAS_TRY(const auto processors, node.list("processors"));
    for (const DomReader& step : processors) PHIDIAS_CHECK_OK(read_post_processor(step, parts));
  } else if (type == "TemplateProcessing") {
    return read_template(node, parts);
  } else if (type != "ByteLevel") {  // that one only moves offsets
    return unsupported(node, "post-processor", type);
  }
  return {};
}

Status read_bpe(const DomReader& node, TokenizerImpl& parts) {
  if (node.has("type")) {
    PHIDIAS_TRY(const std::string_view type, node.string("type"));
    if (type != "BPE") return unsupported(node, "model", type);
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!node.has(key)) continue;
    PHIDIAS_TRY(const std::string_view mark, node.string(key));
    if (!mark.empty())
      return node.error(Code::kUnsupported, "\"" + std::string(key) + "\" is not supported");
  }
  if (node.has("dropout")) {
    double dropout = 0;
    if (node.element()["dropout"].get(dropout) != simdjson::SUCCESS || dropout != 0) {
      return node.error(Code::kUnsupported,
                        "\"dropout\" is not supported: the same text must give the same ids");
    }
  }

  PHIDIAS_TRY(const DomReader vocabulary, node.child("vocab"));
  simdjson::dom::object tokens;
  if (vocabulary.element().get(tokens) != simdjson::SUCCESS) {
    return vocabulary.error(Code::kCorrupt, "must be an object of token texts and ids");
  }
  for (const auto [text, value] : tokens) {
    uint64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS) {
      return vocabulary.error(Code::kCorrupt,
                              "the id of \"" + to_valid_utf8(text) + "\" must be a whole number");
    }
    const Status added = parts.vocabulary.add(text, id);
    if (!added.ok()) return vocabulary.error(added.error().code, added.error().message);
  }

  BpeOptions options;
  PHIDIAS_TRY(options.byte_fallback, node.flag("byte_fallback", false));
  PHIDIAS_TRY(options.fuse_unknown, node.flag("fuse_unk", false));
  PHIDIAS_TRY(options.ignore_merges, node.flag("ignore_merges", false));
  if (node.has("unk_token")) {
    PHIDIAS_TRY(const std::string_view unknown, node.string("unk_token"));
    options.unknown = parts.vocabulary.find(unknown);
  }

  // Two spellings: "a b", and ["a", "b"].
  PHIDIAS_TRY(const DomReader list, node.child("merges"));
  simdjson::dom::array entries;
  if (list.element().get(entries) != simdjson::SUCCESS)
    return list.error(Code::kCorrupt, "must be a list");
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  for (const simdjson::dom::element entry : entries) {
    const auto malformed = [&] {
      return list.error(Code::kCorrupt,
                        "merge " + std::to_string(merges.size()) + " must be two texts");
    };
    std::string_view left;
    std::string_view right;
    simdjson::dom::array pair;
    if (entry.get(left) == simdjson::SUCCESS) {
      const size_t space = left.find(' ');
      if (space == std::string_view::npos || left.find(' ', space + 1) != std::string_view::npos)
        return malformed();
      right = left.substr(space + 1);
      left = left.substr(0, space);
    } else if (entry.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
               pair.at(0).get(left) != simdjson::SUCCESS ||
               pair.at(1).get(right) != simdjson::SUCCESS) {
      return malformed();
    }
    merges.emplace_back(left, right);
  }
  auto model = Bpe::from_merges(parts.vocabulary, merges, options);
  if (!model.ok()) return list.error(model.error().code, model.error().message);
  parts.model = std::move(model).value();
  return {};
}

Status read_added_tokens(const std::vector<DomReader>& nodes, AddedTokens& added) {
  for (const DomReader& node : nodes) {
    AddedToken token;
    PHIDIAS_TRY(const std::string_view text, node.string("content"));
    PHIDIAS_TRY(const uint64_t id, node.whole_number("id"));
    if (id >= kMaxVocabularySize) {
      return node.error(Code::kCorrupt,
                        "the id must be below " + std::to_string(kMaxVocabularySize));
    }
    token.text = text;
    token.id = static_cast<TokenId>(id);
    PHIDIAS_TRY(token.special, node.flag("special", false));
    PHIDIAS_TRY(token.lstrip, node.flag("lstrip", false));
    PHIDIAS_TRY(token.rstrip, node.flag("rstrip", false));
    PHIDIAS_TRY(token.single_word, node.flag("single_word", false));
    PHIDIAS_TRY(token.normalized, node.flag("normalized", !token.special));
    const Status status = added.add(std::move(token));
    if (!status.ok()) return node.error(status.error().code, status.error().message);
  }
  return {};
}

}  // namespace phidias
