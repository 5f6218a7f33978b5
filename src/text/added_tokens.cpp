#include "text/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/vocabulary.h"

namespace phidias {
namespace {

constexpr size_t kMaxTextBytes = 4096;  // bounds the search at each place of the text

// The character before `at`, which is not 0.
size_t previous_character(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

size_t skip_white_space_back(std::string_view text, size_t at, size_t limit) {
  while (at > limit) {
    const size_t before = previous_character(text, at);
    if (!is_white_space(read_valid_utf8(text, before).code_point)) break;
    at = before;
  }
  return std::max(at, limit);
}

size_t skip_white_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Step step = read_valid_utf8(text, at);
    if (!is_white_space(step.code_point)) break;
    at += step.length;
  }
  return at;
}

bool is_word_character(std::string_view text, size_t at) {
  static const Result<Pattern> word = Pattern::regex("[" + std::string(kWordSet) + "]");
  bool found = false;
  if (word.ok()) {
    const std::string_view character = text.substr(at, read_valid_utf8(text, at).length);
    word->for_each_match(character, [&](size_t, size_t) { found = true; });
  }
  return found;
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is_word_character(text, previous_character(text, begin))) &&
         (end == text.size() || !is_word_character(text, end));
}

bool is_guard(std::string_view text, size_t at, char32_t guard) {
  return guard != 0 && at < text.size() && read_valid_utf8(text, at).code_point == guard;
}

}  // namespace

Status AddedTokens::add(AddedToken token) {
  if (token.text.empty()) return {};
  const auto fail = [&](Code code, const std::string& reason) {
    return Error{
        code, "the added token \"" + to_valid_utf8(token.text.substr(0, 64)) + "\" " + reason, {}};
  };
  if (!is_valid_utf8(token.text)) return fail(Code::kCorrupt, "is not valid UTF-8");
  if (token.id < 0 || static_cast<uint64_t>(token.id) >= kMaxVocabularySize) {
    return fail(Code::kCorrupt, "has the id " + std::to_string(token.id) + "; ids must be below " +
                                    std::to_string(kMaxVocabularySize));
  }
  if (token.text.size() > kMaxTextBytes) {
    return fail(Code::kUnsupported, "has more than " + std::to_string(kMaxTextBytes) + " bytes");
  }
  if (const auto known = ids_.find(token.text); known != ids_.end()) {
    tokens_.erase(known->second);
    ids_.erase(known);
  }
  if (tokens_.count(token.id) != 0) {
    return fail(Code::kCorrupt,
                "has the id " + std::to_string(token.id) + ", which another added token has too");
  }
  ids_.emplace(token.text, token.id);
  const TokenId id = token.id;
  tokens_.emplace(id, std::move(token));
  return {};
}

void AddedTokens::finish(const Normalizer& normalizer) {
  for (const auto& [id, token] : tokens_) {
    if (token.normalized) {
      normalized_.add(normalize(normalizer, token.text), &token);
    } else {
      raw_.add(token.text, &token);
    }
  }
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto at = tokens_.find(id);
  return at == tokens_.end() ? nullptr : &at->second;
}

const AddedToken* AddedTokens::find(std::string_view text) const {
  const auto at = ids_.find(std::string(text));
  return at == ids_.end() ? nullptr : find(at->second);
}

void AddedTokens::Trie::add(std::string_view text, const AddedToken* token) {
  if (text.empty()) return;
  uint32_t node = 0;
  for (const char c : text) {
    uint32_t next = 0;
    if (node == 0) {
      next = first_[static_cast<unsigned char>(c)];
    } else {
      for (const auto& [letter, child] : nodes_[node].next) {
        if (letter == c) next = child;
      }
    }
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      if (node == 0) {
        first_[static_cast<unsigned char>(c)] = next;
      } else {
        nodes_[node].next.emplace_back(c, next);
      }
    }
    node = next;
  }
  if (nodes_[node].token == nullptr) nodes_[node].token = token;
}

std::pair<const AddedToken*, size_t> AddedTokens::Trie::longest(std::string_view text,
                                                                size_t from) const {
  std::pair<const AddedToken*, size_t> best = {nullptr, 0};
  uint32_t node = first_[static_cast<unsigned char>(text[from])];
  for (size_t length = 1; node != 0; ++length) {
    if (nodes_[node].token != nullptr) best = {nodes_[node].token, length};
    if (from + length >= text.size()) break;
    uint32_t next = 0;
    for (const auto& [letter, child] : nodes_[node].next) {
      if (letter == text[from + length]) next = child;
    }
    node = next;
  }
  return best;
}

std::vector<AddedTokens::Piece> AddedTokens::split(std::string_view text, Stage stage,
                                                   char32_t guard) const {
  const Trie& trie = stage == Stage::kRaw ? raw_ : normalized_;
  std::vector<Piece> pieces;
  size_t covered = 0;
  for (size_t at = 0; at < text.size() && !trie.empty();) {
    const auto [token, length] = trie.longest(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + length;
    at = end;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (read_valid_utf8(text, begin).length == length && is_guard(text, end, guard)) continue;
    if (token->lstrip) begin = skip_white_space_back(text, begin, covered);
    if (token->rstrip) end = skip_white_space(text, end);
    if (begin >= end) continue;  // white space that is a token, but was swallowed
    if (covered < begin) pieces.push_back({nullptr, covered, begin});
    pieces.push_back({token, begin, end});
    covered = end;
  }
  if (covered < text.size()) pieces.push_back({nullptr, covered, text.size()});
  return pieces;
}

std::string AddedTokens::guarded(std::string_view text, char32_t guard) const {
  std::string mark;
  append_utf8(mark, guard);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = read_valid_utf8(text, at).length;
    const bool marker =
        raw_.longest(text, at).first != nullptr || normalized_.longest(text, at).first != nullptr;
    out += text.substr(at, length);
    if (marker) out += mark;
    at += length;
  }
  return out;
}

}  // namespace phidias
