#include "text/pre_tokenizer.h"

#include "text/byte_level.h"

namespace phidias {
namespace {

void append(Words& words, std::string_view word) {
  if (word.empty()) return;
  words.text += word;
  words.ends.push_back(words.text.size());
}

struct Piece {
  size_t begin;
  size_t end;
  bool matched;
};

// The pieces of `word`, matches and what lies between them, joined as the behaviour says.
std::vector<Piece> split(const SplitAtPattern& step, std::string_view word) {
  std::vector<Piece> pieces;
  size_t covered = 0;
  const auto add = [&](size_t begin, size_t end, bool match) {
    const bool matched = match != step.invert;
    const bool after_match = !pieces.empty() && pieces.back().matched;
    bool join = false;
    switch (step.behavior) {
      case SplitBehavior::kRemoved:
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kMergedWithPrevious:
        join = matched && !after_match;
        break;
      case SplitBehavior::kMergedWithNext:
        join = !matched && after_match;
        break;
      case SplitBehavior::kContiguous:
        join = matched == after_match;
        break;
    }
    if (join && !pieces.empty()) {
      pieces.back().end = end;
      pieces.back().matched = matched;
    } else {
      pieces.push_back({begin, end, matched});
    }
  };
  step.pattern.for_each_match(word, [&](size_t begin, size_t end) {
    if (covered < begin) add(covered, begin, false);
    add(begin, end, true);
    covered = end;
  });
  if (covered < word.size()) add(covered, word.size(), false);
  return pieces;
}

Words apply_step(const SplitAtPattern& step, const Words& words) {
  Words out;
  out.text.reserve(words.text.size());
  bool first = true;
  words.for_each([&](std::string_view word) {
    for (const Piece& piece : split(step, word)) {
      const bool kept = step.behavior != SplitBehavior::kRemoved || !piece.matched;
      if (first && piece.begin < piece.end) {
        out.at_origin = words.at_origin && kept;
        first = false;
      }
      if (kept) append(out, word.substr(piece.begin, piece.end - piece.begin));
    }
  });
  return out;
}

Words apply_step(const PrependSpace& /*step*/, const Words& words) {
  Words out;
  out.at_origin = words.at_origin;
  words.for_each([&](std::string_view word) {
    if (!word.starts_with(' ')) out.text += ' ';
    append(out, word);
  });
  return out;
}

Words apply_step(const ToByteAlphabet& /*step*/, const Words& words) {
  Words out;
  out.at_origin = words.at_origin;
  out.text.reserve(words.text.size() + words.text.size() / 2);
  words.for_each([&](std::string_view word) { append(out, bytes_to_alphabet(word)); });
  return out;
}

Words apply_step(const MetaspaceWords& step, const Words& words) {
  static const Pattern space = Pattern::literal(" ");
  Words out;
  out.at_origin = words.at_origin;
  bool first = words.at_origin;
  words.for_each([&](std::string_view word) {
    const std::string replaced = space.replace(word, step.replacement);
    const bool wanted = step.prepend == MetaspaceWords::Prepend::kAlways ||
                        (step.prepend == MetaspaceWords::Prepend::kFirst && first);
    if (wanted && !replaced.starts_with(step.replacement)) out.text += step.replacement;
    append(out, replaced);
    first = false;
  });
  return out;
}

}  // namespace

Words pre_tokenize(const PreTokenizer& steps, std::string_view segment, bool at_origin) {
  Words words;
  words.at_origin = at_origin;
  append(words, segment);
  for (const PreTokenizerStep& step : steps) {
    words = std::visit([&](const auto& kind) { return apply_step(kind, words); }, step);
  }
  return words;
}

}  // namespace phidias
