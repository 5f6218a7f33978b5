// The tokens of a vocabulary: text of each id, id of each text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/status.h"
#include "phidias/tokenizer.h"

namespace phidias {

// Ids from a file must lie below this; the largest published vocabularies have a quarter of a
// million.
inline constexpr uint64_t kMaxVocabularySize = uint64_t{1} << 22;

// Filled once, then immutable and safe to share. Movable, not copyable.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // `text` must be valid UTF-8; it is copied.
  // Errors: kCorrupt for an id that is out of range or taken, or a text that is.
  Status add(std::string_view text, uint64_t id);

  size_t size() const { return texts_.size(); }  // highest id + 1
  bool contains(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < texts_.size() &&
           texts_[static_cast<size_t>(id)].data() != nullptr;
  }
  // Empty for ids that are not there.
  std::string_view text(TokenId id) const {
    return contains(id) ? texts_[static_cast<size_t>(id)] : std::string_view();
  }
  std::optional<TokenId> find(std::string_view text) const;

 private:
  struct Slot {
    uint32_t hash = 0;
    TokenId id = -1;  // free
  };

  std::string_view keep(std::string_view text);
  // The slot of `text`, or the free one where it belongs.
  size_t slot_of(std::string_view text, uint32_t hash) const;
  void grow();

  // The texts lie in blocks that never move.
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_size_ = 0;  // of the last block
  size_t block_left_ = 0;
  std::vector<std::string_view> texts_;
  std::vector<Slot> slots_ = std::vector<Slot>(16);  // open addressing, at most half full
  size_t used_ = 0;
};

}  // namespace phidias
