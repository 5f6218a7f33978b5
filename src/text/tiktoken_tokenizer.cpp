#include "text/tiktoken_tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/try.h"
#include "text/byte_level.h"
#include "text/family.h"
#include "text/patterns.h"

namespace phidias {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+') {
      value = 62;
    } else if (c == '/') {
      value = 63;
    } else {
      return std::nullopt;
    }
    bits = bits << 6 | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return bytes;
}

}  // namespace

Result<std::optional<fs::path>> find_tiktoken_file(const fs::path& folder) {
  std::optional<fs::path> found;
  std::error_code reason;
  for (fs::directory_iterator at(folder, reason), end; !reason && at != end; at.increment(reason)) {
    if (at->path().extension() != ".tiktoken") continue;
    if (found) {
      return Error{Code::kUnsupported,
                   "has several .tiktoken files; leave the one of this model",
                   {folder.string(), {}, {}}};
    }
    found = at->path();
  }
  return found;
}

Result<TokenizerImpl> parse_tiktoken(std::string_view text, const std::string& file) {
  TokenizerImpl parts;
  std::vector<Bpe::RankedPiece> pieces;
  size_t line_number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;

    const auto fail = [&](const std::string& reason) {
      return Error{Code::kCorrupt, reason, {file, {}, "line " + std::to_string(line_number)}};
    };
    const size_t space = line.find(' ');
    const auto bytes = decode_base64(line.substr(0, space));
    uint32_t rank = 0;
    bool number = false;
    if (space != std::string_view::npos) {
      const std::string_view digits = line.substr(space + 1);
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
      number = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
    }
    if (!bytes || !number) return fail("must be base64 and a rank");
    const Status added = parts.vocabulary.add(bytes_to_alphabet(*bytes), rank);
    if (!added.ok()) return fail(added.error().message);
    pieces.push_back({static_cast<TokenId>(rank), rank});
  }

  const auto markers = tiktoken_markers();
  if (parts.vocabulary.size() != static_cast<size_t>(markers.front().id)) {
    return Error{Code::kUnsupported,
                 "has " + std::to_string(parts.vocabulary.size()) +
                     " tokens; only cl100k_base is read from ranks, others need a tokenizer.json",
                 {file, {}, {}}};
  }
  for (const AddedToken& marker : markers) PHIDIAS_CHECK_OK(parts.added.add(marker));

  BpeOptions options;
  options.ignore_merges = true;
  PHIDIAS_TRY(parts.model, Bpe::from_pieces(parts.vocabulary, pieces, options));
  PHIDIAS_TRY(Pattern words, Pattern::regex(kCl100kExpression));
  parts.pre_tokenizer.emplace_back(
      SplitAtPattern{std::move(words), SplitBehavior::kIsolated, false});
  parts.pre_tokenizer.emplace_back(ToByteAlphabet{});
  parts.decoder.byte_alphabet = true;
  return parts;
}

}  // namespace phidias
