#include "text/detokenizer.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/bpe.h"
#include "text/byte_level.h"

namespace phidias {
namespace {

std::string bytes_of_text(const DecoderOptions& options, std::string_view text) {
  if (options.byte_alphabet) {
    // A text with other characters in it stands for itself.
    if (auto bytes = alphabet_to_bytes(text)) return std::move(*bytes);
    return std::string(text);
  }
  std::string out(text);
  for (const auto& step : options.replacements) out = step.pattern.replace(out, step.content);
  return out;
}

}  // namespace

Detokenizer::Detokenizer(const DecoderOptions& options, const Vocabulary& vocabulary,
                         const AddedTokens& added)
    : byte_runs_(options.byte_tokens),
      strip_(options.strip),
      strip_count_(options.strip_count),
      first_differs_(!options.first_token_drops.empty()) {
  const TokenId last_added = added.all().empty() ? -1 : added.all().rbegin()->first;
  const size_t size = std::max(vocabulary.size(), static_cast<size_t>(last_added + 1));
  ends_.reserve(size);
  flags_.resize(size, 0);
  const Pattern dropped = Pattern::literal(options.first_token_drops);
  for (size_t i = 0; i < size; ++i) {
    const auto id = static_cast<TokenId>(i);
    const AddedToken* marker = added.find(id);
    const std::string_view text = marker != nullptr ? marker->text : vocabulary.text(id);
    const auto byte = options.byte_tokens ? parse_byte_token(text) : std::nullopt;
    if (marker != nullptr && marker->special) flags_[i] |= kSpecial;
    if (byte) flags_[i] |= kByte;
    // A marker is plain text, not letters of the byte alphabet.
    const std::string bytes = byte ? std::string(1, static_cast<char>(*byte))
                              : marker != nullptr && options.byte_alphabet
                                  ? std::string(text)
                                  : bytes_of_text(options, text);
    blob_ += bytes;
    ends_.push_back(blob_.size());
    if (first_differs_) {
      first_blob_ += byte ? bytes : bytes_of_text(options, dropped.replace(text, ""));
      first_ends_.push_back(first_blob_.size());
    }
  }
}

std::string_view Detokenizer::bytes_at(TokenId id, bool first) const {
  if (id < 0 || static_cast<size_t>(id) >= ends_.size()) return {};
  const auto at = static_cast<size_t>(id);
  const auto& ends = first && first_differs_ ? first_ends_ : ends_;
  const std::string_view blob = first && first_differs_ ? first_blob_ : blob_;
  const size_t begin = at == 0 ? 0 : ends[at - 1];
  return blob.substr(begin, ends[at] - begin);
}

std::string_view Detokenizer::bytes(TokenId id) const { return bytes_at(id, false); }

bool Detokenizer::is_byte_token(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < flags_.size() &&
         (flags_[static_cast<size_t>(id)] & kByte) != 0;
}

bool Detokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < flags_.size() &&
         (flags_[static_cast<size_t>(id)] & kSpecial) != 0;
}

// Ids that are not there do not even separate two runs of bytes.
bool Detokenizer::skips(TokenId id, bool skip_special) const {
  return bytes(id).empty() || (skip_special && is_special(id));
}

void Detokenizer::strip(std::string& text, DecodeProgress& progress) const {
  while (progress.stripping && !text.empty()) {
    if (progress.stripped == strip_count_ || !text.starts_with(strip_)) {
      progress.stripping = false;
    } else {
      text.erase(0, strip_.size());
      ++progress.stripped;
    }
  }
}

std::string Detokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  size_t run_begin = 0;  // where the run of byte tokens at the end of `bytes` begins
  bool in_run = false;
  bool first = true;
  const auto end_run = [&] {
    if (!in_run) return;
    in_run = false;
    const size_t length = bytes.size() - run_begin;
    if (is_valid_utf8(std::string_view(bytes).substr(run_begin))) return;
    bytes.resize(run_begin);
    for (size_t i = 0; i < length; ++i) bytes += kReplacementCharacter;
  };
  for (const TokenId id : ids) {
    if (skips(id, skip_special)) continue;
    if (!is_byte_token(id)) {
      end_run();
    } else if (!in_run) {
      in_run = true;
      run_begin = bytes.size();
    }
    bytes += bytes_at(id, first);
    first = false;
  }
  end_run();
  std::string text = to_valid_utf8(bytes);
  DecodeProgress progress;
  strip(text, progress);
  return text;
}

std::string Detokenizer::take_characters(DecodeProgress& progress, bool at_end) const {
  std::string text;
  std::string& pending = progress.pending;
  size_t at = 0;
  while (at < pending.size()) {
    const Utf8Step step = read_utf8(pending, at);
    if (step.state == Utf8State::kIncomplete && !at_end) break;
    if (step.state == Utf8State::kCharacter) {
      text.append(pending, at, step.length);
    } else {
      // Byte tokens are shown one by one, parts of characters as one.
      for (int i = 0; i < (byte_runs_ ? step.length : 1); ++i) text += kReplacementCharacter;
    }
    at += step.length;
  }
  pending.erase(0, at);
  strip(text, progress);
  return text;
}

std::string Detokenizer::push(TokenId id, bool skip_special, DecodeProgress& progress) const {
  if (skips(id, skip_special)) return {};
  progress.pending += bytes_at(id, progress.first_token);
  progress.first_token = false;
  return take_characters(progress, false);
}

std::string Detokenizer::flush(DecodeProgress& progress) const {
  return take_characters(progress, true);
}

}  // namespace phidias
