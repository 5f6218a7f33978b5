// Upper and lower case, and the classes of characters that Python's string methods ask for.
#pragma once

#include <string>
#include <string_view>

namespace phidias::jinja {

// Full case mappings of whole strings, as Python has them: "ß" becomes "SS".
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string swap_case(std::string_view text);
std::string capitalize(std::string_view text);    // str.capitalize()
std::string title_method(std::string_view text);  // str.title(): a word starts after any non-letter
std::string title_filter(
    std::string_view text);  // the filter: a word starts after - ( { [ < or space

bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_alpha(char32_t code);    // a letter of any script
bool is_decimal(char32_t code);  // a digit of a decimal system of any script
bool is_space(char32_t code);
bool is_printable(char32_t code);  // repr() shows it as it is

// str.islower() and str.isupper(): some character is of the case wanted, and none of the other.
bool has_case(std::string_view text, bool (*wanted)(char32_t), bool (*other)(char32_t));

// Without white space, of any script, at the end or at the beginning.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

}  // namespace phidias::jinja
