#include "trace/positions.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"
#include "base/invalid.h"
#include "base/try.h"

namespace phidias {
namespace {

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return {};
  return number;
}

}  // namespace

Positions Positions::range(int64_t begin, std::optional<int64_t> end) {
  Positions positions(Kind::kRange);
  positions.begin = begin;
  positions.end = end;
  return positions;
}

Positions Positions::where_token(TokenId token) {
  Positions positions(Kind::kToken);
  positions.token = token;
  return positions;
}

Result<Positions> Positions::parse(std::string_view text) {
  text = trimmed(text);
  if (text == "all" || text == "*" || text == ":") return Positions();
  if (text == "prompt") return Positions(Kind::kPrompt);
  if (text == "decode") return Positions(Kind::kDecode);
  if (text == "last") return Positions(Kind::kLast);
  const Error wrong = invalid("\"" + std::string(text) +
                                  "\" is no choice of positions; write all, prompt, decode, last, "
                                  "a position, several with commas, or a range such as 4: or 1:3",
                              "at");
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    const std::string_view first = trimmed(text.substr(0, colon));
    const std::string_view last = trimmed(text.substr(colon + 1));
    const auto begin = first.empty() ? std::optional<int64_t>(0) : whole_number(first);
    const auto end = whole_number(last);
    if (!begin || (!end && !last.empty())) return wrong;
    return range(*begin, end);
  }
  if (text.starts_with("token ")) {
    const auto token = whole_number(trimmed(text.substr(6)));
    if (!token) return wrong;
    return where_token(static_cast<TokenId>(*token));
  }
  Positions positions(Kind::kList);
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const auto position = whole_number(trimmed(text.substr(0, comma)));
    if (!position) return wrong;
    positions.list.push_back(*position);
    if (comma == text.size()) return positions;
    text.remove_prefix(comma + 1);
  }
}

std::string Positions::to_string() const {
  switch (kind) {
    case Kind::kAll:
      return "all";
    case Kind::kPrompt:
      return "prompt";
    case Kind::kDecode:
      return "decode";
    case Kind::kLast:
      return "last";
    case Kind::kRange:
      return std::to_string(begin) + ":" + (end ? std::to_string(*end) : "");
    case Kind::kToken:
      return "token " + std::to_string(token);
    case Kind::kList:
      break;
  }
  std::string text;
  for (const int64_t position : list) text += (text.empty() ? "" : ",") + std::to_string(position);
  return text;
}

Result<PositionSet> PositionSet::resolve(const Positions& positions,
                                         std::span<const TokenId> prompt, size_t rows,
                                         const std::string& place) {
  const auto length = static_cast<int64_t>(prompt.size());
  const auto last = static_cast<int64_t>(rows);
  const auto absolute = [&](int64_t position) {
    return position < 0 ? position + length : position;
  };
  PositionSet set;
  std::vector<size_t> listed;
  switch (positions.kind) {
    case Positions::Kind::kAll:
      set.end_ = rows;
      return set;
    case Positions::Kind::kPrompt:
      set.end_ = std::min(prompt.size(), rows);
      return set;
    case Positions::Kind::kDecode:
      set.begin_ = std::min(prompt.size(), rows);
      set.end_ = rows;  // may be empty: nothing is generated then
      return set;
    case Positions::Kind::kLast:
      set.begin_ = prompt.size() - 1;
      set.end_ = prompt.size();
      return set;
    case Positions::Kind::kRange: {
      const int64_t begin = absolute(positions.begin);
      const int64_t end = positions.end ? absolute(*positions.end) : last;
      if (begin < 0 || begin > end || end > last) {
        return invalid("the positions " + positions.to_string() +
                           " do not lie in the run, which has " + std::to_string(rows),
                       place);
      }
      set.begin_ = static_cast<size_t>(begin);
      set.end_ = static_cast<size_t>(end);
      return set;
    }
    case Positions::Kind::kToken:
      for (size_t i = 0; i < prompt.size(); ++i) {
        if (prompt[i] == positions.token) listed.push_back(i);
      }
      if (listed.empty())
        return invalid("the prompt has no token " + std::to_string(positions.token), place);
      break;
    case Positions::Kind::kList:
      for (const int64_t entry : positions.list) {
        const int64_t position = absolute(entry);
        if (position < 0 || position >= last) {
          return invalid("position " + std::to_string(entry) +
                             " does not lie in the run, which has " + std::to_string(rows),
                         place);
        }
        listed.push_back(static_cast<size_t>(position));
      }
      if (listed.empty()) return invalid("no position is chosen", place);
      break;
  }
  set.where_.assign(rows, kNone);
  for (size_t i = 0; i < listed.size(); ++i) {
    if (set.where_[listed[i]] != kNone)
      return invalid("position " + std::to_string(listed[i]) + " is chosen twice", place);
    set.where_[listed[i]] = i;
  }
  set.listed_ = std::move(listed);
  return set;
}

}  // namespace phidias
