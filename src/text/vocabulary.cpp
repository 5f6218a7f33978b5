#include "text/vocabulary.h"

#include <algorithm>
#include <functional>

#include "base/utf8.h"

namespace phidias {
namespace {

constexpr size_t kBlockBytes = 64U << 10;

uint32_t hash_of(std::string_view text) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(text));
}

}  // namespace

std::string_view Vocabulary::keep(std::string_view text) {
  // One byte at least, so that an empty token has a place and is not an absent one.
  const size_t needed = std::max<size_t>(text.size(), 1);
  if (needed > block_left_) {
    block_size_ = std::max(needed, kBlockBytes);
    block_left_ = block_size_;
    blocks_.push_back(std::make_unique<char[]>(block_size_));
  }
  char* place = blocks_.back().get() + (block_size_ - block_left_);
  text.copy(place, text.size());
  block_left_ -= needed;
  return {place, text.size()};
}

Status Vocabulary::add(std::string_view text, uint64_t id) {
  const auto fail = [&](const std::string& reason) {
    return Error{
        Code::kCorrupt, "the token \"" + to_valid_utf8(text.substr(0, 64)) + "\" " + reason, {}};
  };
  if (!is_valid_utf8(text)) return fail("(id " + std::to_string(id) + ") is not valid UTF-8");
  if (id >= kMaxVocabularySize) {
    return fail("has the id " + std::to_string(id) + "; ids must be below " +
                std::to_string(kMaxVocabularySize));
  }
  const auto token = static_cast<TokenId>(id);
  if (contains(token))
    return fail("has the id " + std::to_string(id) + ", which another token has too");
  if (find(text)) return fail("is in the vocabulary twice");
  if (id >= texts_.size()) texts_.resize(static_cast<size_t>(id) + 1);
  texts_[static_cast<size_t>(id)] = keep(text);
  if (++used_ * 2 > slots_.size()) grow();
  const uint32_t hash = hash_of(text);
  slots_[slot_of(text, hash)] = {hash, token};
  return {};
}

size_t Vocabulary::slot_of(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id >= 0 &&
         (slots_[at].hash != hash || texts_[static_cast<size_t>(slots_[at].id)] != text)) {
    at = (at + 1) & mask;
  }
  return at;
}

void Vocabulary::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].id >= 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const Slot& slot = slots_[slot_of(text, hash_of(text))];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

}  // namespace phidias
