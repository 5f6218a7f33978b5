#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace phidias {
namespace {

std::string apply_step(const PrependText& step, const std::string& text) {
  return text.empty() ? text : step.text + text;
}

std::string apply_step(const ReplaceText& step, const std::string& text) {
  return step.pattern.replace(text, step.content);
}

// The library's own ordering of marks exchanges neighbours, which is quadratic in a long run of
// them. So: decompose character by character, sort each run, and let the library compose only.
std::string apply_step(UnicodeForm form, const std::string& text) {
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  const bool compose = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  const auto decompose =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));

  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = read_valid_utf8(text, at);
    at += step.length;
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point),
                                               parts, 32, decompose, &boundary);
    characters.insert(characters.end(), parts, parts + std::clamp<utf8proc_ssize_t>(count, 0, 32));
  }

  const auto order = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t begin = 0; begin < characters.size();) {
    size_t end = begin;
    while (end < characters.size() && order(characters[end]) != 0) ++end;
    std::stable_sort(characters.begin() + static_cast<ptrdiff_t>(begin),
                     characters.begin() + static_cast<ptrdiff_t>(end),
                     [&](auto a, auto b) { return order(a) < order(b); });
    begin = end + 1;
  }

  if (compose) {
    const auto size = utf8proc_normalize_utf32(
        characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    characters.resize(static_cast<size_t>(std::max<utf8proc_ssize_t>(size, 0)));
  }
  std::string out;
  out.reserve(text.size());
  for (const auto c : characters) append_utf8(out, static_cast<char32_t>(c));
  return out;
}

std::string apply_step(const LowercaseText& /*step*/, const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = read_valid_utf8(text, at);
    at += step.length;
    append_utf8(out, static_cast<char32_t>(
                         utf8proc_tolower(static_cast<utf8proc_int32_t>(step.code_point))));
    // The only letter whose lower case is two characters: I with a dot above.
    if (step.code_point == 0x130) append_utf8(out, 0x307);
  }
  return out;
}

std::string apply_step(const StripText& step, const std::string& text) {
  size_t begin = 0;
  size_t end = 0;  // behind the last character that stays
  bool seen = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step character = read_valid_utf8(text, at);
    if (!is_white_space(character.code_point)) {
      if (!seen) begin = at;
      seen = true;
      end = at + character.length;
    }
    at += character.length;
  }
  if (!seen) return step.left || step.right ? std::string() : text;
  if (!step.left) begin = 0;
  if (!step.right) end = text.size();
  return text.substr(begin, end - begin);
}

}  // namespace

std::string normalize(const Normalizer& normalizer, std::string_view text) {
  std::string result(text);
  for (const NormalizerStep& step : normalizer) {
    result = std::visit([&](const auto& kind) { return apply_step(kind, result); }, step);
  }
  return result;
}

}  // namespace phidias
