#include "text/vocabulary.h"

#include <algorithm>

#include "base/utf8.h"

namespace phidias {
namespace {

constexpr size_t kBlockBytes = 64U << 10;

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
  if (index_.count(text) != 0) return fail("is in the vocabulary twice");
  if (id >= texts_.size()) texts_.resize(static_cast<size_t>(id) + 1);
  const std::string_view kept = keep(text);
  texts_[static_cast<size_t>(id)] = kept;
  index_.emplace(kept, token);
  return {};
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto at = index_.find(text);
  if (at == index_.end()) return std::nullopt;
  return at->second;
}

}  // namespace phidias
