#include "text/bpe.h"

#include <algorithm>

#include "base/try.h"
#include "base/utf8.h"

namespace phidias {
namespace {

constexpr char32_t kLowCharacters =
    0x400;  // Latin, Greek and the byte alphabet are looked up in a table
constexpr uint32_t kNone = ~uint32_t{0};
constexpr size_t kMaxPieceBytes =
    1024;  // building is quadratic in this; SentencePiece itself stops at 16

std::string byte_token(unsigned byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

// The character that `text` is, if it is exactly one.
std::optional<char32_t> single_character(std::string_view text) {
  if (text.empty() || text.size() > 4) return std::nullopt;
  const Utf8Step step = read_valid_utf8(text, 0);
  if (step.length != text.size()) return std::nullopt;
  return step.code_point;
}

}  // namespace

std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : text.substr(3, 2)) {
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<unsigned>(c - '0');
    } else if (c >= 'A' && c <= 'F') {
      value = value * 16 + static_cast<unsigned>(c - 'A' + 10);
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<unsigned>(c - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return static_cast<uint8_t>(value);
}

void MergeTable::reserve(size_t count) {
  size_t capacity = 16;
  while (capacity < count * 2) capacity *= 2;
  if (capacity <= slots_.size()) return;
  std::vector<Slot> old(capacity);
  old.swap(slots_);
  mask_ = capacity - 1;
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.key == kFree) continue;
    set(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & 0xFFFFFFFFU),
        slot.merge);
  }
}

void MergeTable::set(TokenId left, TokenId right, Merge merge) {
  if (used_ * 2 >= slots_.size()) reserve(std::max<size_t>(used_ * 2, 8));
  const uint64_t key = key_of(left, right);
  size_t at = hash(key) & mask_;
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
  if (slots_[at].key == kFree) ++used_;
  slots_[at] = {key, merge};
}

Bpe::Bpe(const Vocabulary& vocabulary, const BpeOptions& options)
    : options_(options), low_characters_(kLowCharacters, -1) {
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const auto character = single_character(vocabulary.text(id));
    if (!character) continue;
    set_symbol(*character, id);
  }
  if (options_.byte_fallback) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto id = vocabulary.find(byte_token(byte));
      if (!id) break;
      byte_tokens_.push_back(*id);
    }
    // All or none: half a character in bytes would be lost silently.
    if (byte_tokens_.size() != 256) byte_tokens_.clear();
  }
  first_phantom_ = static_cast<TokenId>(vocabulary.size());
}

Result<Bpe> Bpe::from_merges(
    const Vocabulary& vocabulary,
    const std::vector<std::pair<std::string_view, std::string_view>>& merges,
    const BpeOptions& options) {
  Bpe bpe(vocabulary, options);
  bpe.merges_.reserve(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    joined.assign(left).append(right);
    const auto left_id = vocabulary.find(left);
    const auto right_id = vocabulary.find(right);
    const auto result = vocabulary.find(joined);
    if (!left_id || !right_id || !result) {
      const std::string_view missing = !left_id    ? left
                                       : !right_id ? right
                                                   : std::string_view(joined);
      return Error{Code::kCorrupt,
                   "merge " + std::to_string(rank) + " needs the token \"" +
                       std::string(missing.substr(0, 64)) + "\", which is not in the vocabulary",
                   {}};
    }
    bpe.merges_.set(*left_id, *right_id, {static_cast<uint32_t>(rank), *result});
    bpe.add_neighbours(joined);
  }
  return bpe;
}

Result<Bpe> Bpe::from_pieces(const Vocabulary& vocabulary, const std::vector<RankedPiece>& pieces,
                             const BpeOptions& options) {
  Bpe bpe(vocabulary, options);
  // Only pieces may be merged, so markers and byte tokens are not looked for.
  std::unordered_map<std::string_view, TokenId> symbols;
  symbols.reserve(pieces.size());
  for (const RankedPiece& piece : pieces) symbols.emplace(vocabulary.text(piece.id), piece.id);

  const auto symbol = [&](std::string_view part) -> std::optional<TokenId> {
    if (const auto found = symbols.find(part); found != symbols.end()) return found->second;
    const auto character = single_character(part);
    if (!character) return std::nullopt;
    if (const TokenId known = bpe.symbol_of(*character); known >= 0) return known;
    const TokenId phantom = bpe.first_phantom_ + static_cast<TokenId>(bpe.phantoms_.size());
    bpe.phantoms_.emplace_back(part);
    bpe.set_symbol(*character, phantom);
    return phantom;
  };

  bpe.merges_.reserve(pieces.size() * 2);
  for (const RankedPiece& piece : pieces) {
    const std::string_view text = vocabulary.text(piece.id);
    if (text.size() > kMaxPieceBytes) {
      return Error{Code::kUnsupported,
                   "the token " + std::to_string(piece.id) + " has " + std::to_string(text.size()) +
                       " bytes, more than the " + std::to_string(kMaxPieceBytes) +
                       " that are supported",
                   {}};
    }
    for (size_t cut = 0; cut < text.size();) {
      cut += read_valid_utf8(text, cut).length;
      if (cut >= text.size()) break;
      const auto left = symbol(text.substr(0, cut));
      const auto right = symbol(text.substr(cut));
      if (left && right) bpe.merges_.set(*left, *right, {piece.rank, piece.id});
    }
  }
  // Once all characters have their symbols.
  for (const RankedPiece& piece : pieces) bpe.add_neighbours(vocabulary.text(piece.id));
  return bpe;
}

TokenId Bpe::symbol_of(char32_t character) const {
  if (character < low_characters_.size()) return low_characters_[character];
  const auto found = characters_.find(character);
  return found == characters_.end() ? -1 : found->second;
}

void Bpe::set_symbol(char32_t character, TokenId symbol) {
  if (character < kLowCharacters) {
    low_characters_[character] = symbol;
  } else {
    characters_[character] = symbol;
  }
}

template <typename Push>
void Bpe::spell_unknown(std::string_view character, bool after_unknown, const Push& push) const {
  if (!byte_tokens_.empty()) {
    for (const char byte : character) push(byte_tokens_[static_cast<unsigned char>(byte)]);
  } else if (options_.unknown && !(after_unknown && options_.fuse_unknown)) {
    push(*options_.unknown);
  }
}

void Bpe::add_neighbours(std::string_view result) {
  TokenId previous = -1;
  for (size_t at = 0; at < result.size();) {
    const Utf8Step step = read_valid_utf8(result, at);
    const TokenId symbol = symbol_of(step.code_point);
    if (previous >= 0 && symbol >= 0) neighbours_.set(previous, symbol, {});
    previous = symbol;
    at += step.length;
  }
}

// Takes characters up to the first border that no merge reaches across; returns how many bytes that
// were.
size_t Bpe::add_symbols(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  symbols.clear();
  const auto push = [&symbols](TokenId id) {
    const auto at = static_cast<uint32_t>(symbols.size());
    symbols.push_back({id, at == 0 ? kNone : at - 1, at + 1});
  };
  size_t at = 0;
  TokenId previous = -1;
  while (at < word.size()) {
    const Utf8Step step = read_valid_utf8(word, at);
    const TokenId symbol = symbol_of(step.code_point);
    if (symbol >= 0) {
      if (previous >= 0 && neighbours_.find(previous, symbol) == nullptr) break;
      push(symbol);
    } else {
      spell_unknown(word.substr(at, step.length),
                    !symbols.empty() && symbols.back().id == options_.unknown, push);
    }
    previous = symbol;
    at += step.length;
  }
  if (!symbols.empty()) symbols.back().next = kNone;
  return at;
}

void Bpe::add_candidate(Scratch& scratch, uint32_t left) const {
  const auto& symbol = scratch.symbols_[left];
  if (symbol.next == kNone) return;
  if (const Merge* merge = merges_.find(symbol.id, scratch.symbols_[symbol.next].id)) {
    scratch.heap_.push_back({merge->rank, left, merge->result});
  }
}

void Bpe::merge_symbols(Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  heap.clear();
  for (uint32_t i = 0; i < symbols.size(); ++i) add_candidate(scratch, i);
  std::make_heap(heap.begin(), heap.end());

  const auto consider = [&](uint32_t left) {
    const size_t before = heap.size();
    add_candidate(scratch, left);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end());
  };
  while (!heap.empty()) {
    const Scratch::Candidate top = heap.front();
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    auto& left = symbols[top.left];
    if (left.id < 0 || left.next == kNone) continue;
    auto& right = symbols[left.next];
    // The pair may have changed since; then it was considered again.
    const Merge* merge = merges_.find(left.id, right.id);
    if (merge == nullptr || merge->result != top.result) continue;
    left.id = top.result;
    left.next = right.next;
    right.id = -1;  // merged away
    if (left.next != kNone) symbols[left.next].previous = top.left;
    if (left.previous != kNone) consider(left.previous);
    consider(top.left);
  }
}

void Bpe::append_ids(const Scratch& scratch, std::vector<TokenId>& ids) const {
  bool after_unknown = false;
  for (const auto& symbol : scratch.symbols_) {
    if (symbol.id < 0) continue;
    if (symbol.id < first_phantom_) {
      ids.push_back(symbol.id);
      after_unknown = symbol.id == options_.unknown;
    } else {
      const auto& character = phantoms_[static_cast<size_t>(symbol.id - first_phantom_)];
      spell_unknown(character, after_unknown, [&ids](TokenId id) { ids.push_back(id); });
      after_unknown = byte_tokens_.empty() && options_.unknown.has_value();
    }
  }
}

void Bpe::encode(const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                 std::vector<TokenId>& ids) const {
  if (options_.ignore_merges) {
    if (const auto whole = vocabulary.find(word)) {
      ids.push_back(*whole);
      return;
    }
  }
  while (!word.empty()) {
    word.remove_prefix(add_symbols(word, scratch));
    if (scratch.symbols_.size() > 1) merge_symbols(scratch);
    append_ids(scratch, ids);
  }
}

}  // namespace phidias
