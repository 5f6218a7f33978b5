// Ends an answer at a stop string, wherever token borders fall in it.
//
// The rule: the answer is cut before the stop string that starts first; of those starting at the
// same place the shortest counts, as it is complete first. What is sent and where it ends therefore
// do not depend on how the text is cut into pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phidias/status.h"

namespace phidias {

// One per answer; not thread safe.
class StopText {
 public:
  // Errors: kInvalidArgument, with "stop[i]" as the place, for an empty string or one that begins
  // inside a character.
  static Result<StopText> create(std::vector<std::string> stops);

  // Takes the next piece of decoded text, whole characters, and returns what may be sent: all text
  // before a stop string or before a tail that may still become one. Whole characters again;
  // nothing after a stop.
  std::string push(std::string_view piece);
  // At the end of the answer: the tail that became no stop string.
  std::string flush();

  // The index of the stop string that ended the answer. Where one string could still begin before
  // another that is already complete, this waits for the text that decides, or for flush().
  std::optional<size_t> matched() const { return matched_; }

 private:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  std::string release(bool at_end);

  std::vector<std::string> stops_;
  std::string held_;  // not sent yet
  std::optional<size_t> matched_;
};

}  // namespace phidias
