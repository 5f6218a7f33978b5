// Searching and splitting text as Python does, in time that grows with the text alone, whatever is
// sought: templates may be hostile.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace phidias::jinja {

inline constexpr size_t kNoLimit = static_cast<size_t>(-1);

// As std::string_view::find and rfind, whose worst case is the product of the lengths.
size_t find_text(std::string_view text, std::string_view sought, size_t from = 0);
size_t find_last_text(std::string_view text, std::string_view sought);

// The first `most` places where `sought`, which is not empty, stands; places do not overlap.
std::vector<size_t> find_all(std::string_view text, std::string_view sought,
                             size_t most = kNoLimit);

// str.split and str.rsplit; an empty separator stands for runs of white space.
std::vector<std::string_view> split(std::string_view text, std::string_view separator, size_t most);
std::vector<std::string_view> split_from_end(std::string_view text, std::string_view separator,
                                             size_t most);
// str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

// str.lstrip and str.rstrip with a set of characters.
std::string_view strip_left(std::string_view text, std::string_view set);
std::string_view strip_right(std::string_view text, std::string_view set);

}  // namespace phidias::jinja
