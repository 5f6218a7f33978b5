// What text filters and string methods share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace phidias::jinja {

// str.replace; without `count`, everywhere.
std::string replace_text(Runtime& runtime, std::string_view text, std::string_view old_text,
                         std::string_view new_text, std::optional<Integer> count);
// str.strip, of one side or both; without a set, white space.
std::string_view strip_text(Runtime& runtime, std::string_view text,
                            const std::optional<std::string>& set, bool left, bool right);
// str.ljust (kLeft: the text stands at the left), str.rjust, str.center.
enum class Justify { kLeft, kRight, kCenter };
std::string justify(Runtime& runtime, std::string_view text, Integer width, std::string_view fill,
                    Justify how);

}  // namespace phidias::jinja
