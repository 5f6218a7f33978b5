#include "phidias/tokenizer.h"

#include <algorithm>

#include "base/try.h"
#include "base/utf8.h"
#include "text/family.h"
#include "text/gguf_tokenizer.h"
#include "text/hf_tokenizer.h"
#include "text/tokenizer_impl.h"

namespace phidias {
namespace {

bool is_scalar_value(char32_t c) { return c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF); }

std::string without(std::string_view text, char32_t character) {
  std::string spelled;
  append_utf8(spelled, character);
  return Pattern::literal(spelled).replace(text, "");
}

}  // namespace

void TokenizerImpl::finish() {
  added.finish(normalizer);
  detokenizer = Detokenizer(decoder, vocabulary, added);

  stop_ids = more_stop_ids;
  if (eos) stop_ids.push_back(*eos);
  for (const std::string_view text : turn_end_markers()) {
    if (const auto id = find(text)) stop_ids.push_back(*id);
  }
  for (const MarkerAt& marker : turn_end_markers_by_id()) {
    if (find(marker.text) == marker.id) stop_ids.push_back(marker.id);
  }
  std::sort(stop_ids.begin(), stop_ids.end());
  stop_ids.erase(std::unique(stop_ids.begin(), stop_ids.end()), stop_ids.end());
}

std::optional<TokenId> TokenizerImpl::find(std::string_view text) const {
  if (const AddedToken* token = added.find(text)) return token->id;
  const auto id = vocabulary.find(text);
  if (id && added.find(*id) != nullptr) return std::nullopt;  // the id was given to another text
  return id;
}

void TokenizerImpl::set_adds_bos(bool wanted) {
  if (!bos) return;
  const bool has = !prefix.empty() && prefix.front() == *bos;
  if (wanted && !has) prefix.insert(prefix.begin(), *bos);
  if (!wanted && has) prefix.erase(prefix.begin());
}

void TokenizerImpl::set_adds_eos(bool wanted) {
  if (!eos) return;
  const bool has = !suffix.empty() && suffix.back() == *eos;
  if (wanted && !has) suffix.push_back(*eos);
  if (!wanted && has) suffix.pop_back();
}

void TokenizerImpl::encode_segment(std::string_view segment, bool at_origin,
                                   const EncodeOptions& options, Bpe::Scratch& scratch,
                                   std::vector<TokenId>& ids) const {
  const auto encode_words = [&](std::string_view text, bool first) {
    pre_tokenize(pre_tokenizer, text, first).for_each([&](std::string_view word) {
      model.encode(vocabulary, word, scratch, ids);
    });
  };
  if (!options.markers || !added.has_normalized()) {
    const std::string text =
        options.guard != 0 ? without(segment, options.guard) : std::string(segment);
    encode_words(normalize(normalizer, text), at_origin);
    return;
  }
  // The guard stays until these markers have been looked for, too.
  const std::string text = normalize(normalizer, segment);
  for (const auto& piece : added.split(text, AddedTokens::Stage::kNormalized, options.guard)) {
    if (piece.token != nullptr) {
      ids.push_back(piece.token->id);
      continue;
    }
    const std::string_view part =
        std::string_view(text).substr(piece.begin, piece.end - piece.begin);
    const bool first = at_origin && piece.begin == 0;
    encode_words(options.guard != 0 ? without(part, options.guard) : std::string(part), first);
  }
}

std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerImpl parts) {
  auto impl = std::make_unique<TokenizerImpl>(std::move(parts));
  impl->finish();
  return std::make_shared<const Tokenizer>(std::move(impl));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return load_hf_tokenizer(path);
  PHIDIAS_TRY(const GgufFile file, GgufFile::open(path));
  return tokenizer_from_gguf(file);
}

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerImpl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = to_valid_utf8(text);
    text = repaired;
  }
  std::vector<TokenId> ids;
  if (options.add_special) ids = impl_->prefix;
  Bpe::Scratch scratch;
  if (!options.markers) {
    impl_->encode_segment(text, true, options, scratch, ids);
  } else {
    for (const auto& piece : impl_->added.split(text, AddedTokens::Stage::kRaw, options.guard)) {
      if (piece.token != nullptr) {
        ids.push_back(piece.token->id);
      } else {
        impl_->encode_segment(text.substr(piece.begin, piece.end - piece.begin), piece.begin == 0,
                              options, scratch, ids);
      }
    }
  }
  if (options.add_special) ids.insert(ids.end(), impl_->suffix.begin(), impl_->suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  return impl_->detokenizer.decode(ids, skip_special);
}

std::string Tokenizer::token_bytes(TokenId id) const {
  return std::string(impl_->detokenizer.bytes(id));
}
std::optional<TokenId> Tokenizer::find(std::string_view token_text) const {
  return impl_->find(token_text);
}
bool Tokenizer::is_special(TokenId id) const { return impl_->detokenizer.is_special(id); }
size_t Tokenizer::size() const { return impl_->detokenizer.size(); }

std::optional<TokenId> Tokenizer::bos() const { return impl_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return impl_->eos; }
std::optional<TokenId> Tokenizer::pad() const { return impl_->pad; }

bool Tokenizer::adds_bos() const {
  return impl_->bos && !impl_->prefix.empty() && impl_->prefix.front() == *impl_->bos;
}

std::vector<TokenId> Tokenizer::stop_ids() const { return impl_->stop_ids; }
std::optional<std::string> Tokenizer::chat_template() const { return impl_->chat_template; }

std::vector<std::pair<std::string, std::string>> Tokenizer::template_tokens() const {
  return impl_->template_tokens;
}

std::string Tokenizer::guard_markers(std::string_view text, char32_t guard) const {
  if (guard == 0 || !is_scalar_value(guard)) return std::string(text);
  return impl_->added.guarded(without(to_valid_utf8(text), guard), guard);
}

DecodeStream::DecodeStream(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {}

std::string DecodeStream::push(TokenId id) {
  return tokenizer_->impl().detokenizer.push(id, skip_special_, progress_);
}

std::string DecodeStream::flush() { return tokenizer_->impl().detokenizer.flush(progress_); }

}  // namespace phidias
