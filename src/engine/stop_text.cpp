#include "engine/stop_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace phidias {

Result<StopText> StopText::create(std::vector<std::string> stops) {
  for (size_t i = 0; i < stops.size(); ++i) {
    const auto invalid = [&](const char* message) {
      return Error{Code::kInvalidArgument,
                   message,
                   {.file = {}, .offset = {}, .item = fmt::format("stop[{}]", i)}};
    };
    if (stops[i].empty()) return invalid("a stop string is empty; leave it out");
    // Were it allowed, the text before it would end inside a character.
    if ((static_cast<unsigned char>(stops[i].front()) & 0xC0) == 0x80) {
      return invalid("a stop string begins inside a character; it must be UTF-8");
    }
  }
  return StopText(std::move(stops));
}

std::string StopText::push(std::string_view piece) {
  if (matched_) return {};
  held_ += piece;
  return release(false);
}

std::string StopText::flush() {
  if (matched_) return {};
  return release(true);
}

std::string StopText::release(bool at_end) {
  const std::string_view held = held_;
  size_t start = 0;
  bool undecided = false;
  for (; start < held.size(); ++start) {
    const std::string_view tail = held.substr(start);
    for (size_t i = 0; i < stops_.size(); ++i) {
      if (tail.starts_with(stops_[i])) {
        if (!matched_ || stops_[i].size() < stops_[*matched_].size()) matched_ = i;
      } else if (!at_end && std::string_view(stops_[i]).starts_with(tail)) {
        undecided = true;
      }
    }
    if (matched_ || undecided) break;
  }
  std::string sent = held_.substr(0, start);
  held_.erase(0, matched_ ? held_.size() : start);
  return sent;
}

}  // namespace phidias
