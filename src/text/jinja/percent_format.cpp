// format % values.
#include <algorithm>
#include <cmath>

#include "text/jinja/conversion.h"
#include "text/jinja/format.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, std::string_view format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {
    const Sequence* list = values.sequence();
    is_tuple_ = list != nullptr && list->is_tuple();
  }

  Value run() {
    std::string out;
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      if (c != '%') {
        out += c;
      } else if (at_ < format_.size() && format_[at_] == '%') {
        out += format_[at_++];
      } else {
        out += convert();
      }
    }
    // What can be subscripted may go unused in Python, unless it is a tuple or a string.
    const bool may_go_unused = values_.dict() != nullptr || values_.undefined() != nullptr ||
                               (values_.sequence() != nullptr && !is_tuple_);
    if (next_ < available() && !may_go_unused) {
      fail_type("not all arguments converted during string formatting");
    }
    return runtime_.text(std::move(out));
  }

 private:
  size_t available() const { return is_tuple_ ? values_.sequence()->items.size() : 1; }

  Value next_value() {
    if (named_) return *named_;
    if (next_ >= available()) fail_type("not enough arguments for format string");
    ++next_;
    return is_tuple_ ? values_.sequence()->items[next_ - 1] : values_;
  }

  size_t next_size() {
    const auto whole = next_value().integer();
    if (!whole) fail_type("* wants int");
    if (*whole > Integer{kMaxOutputBytes}) fail_value("Too many decimal digits in format string");
    return static_cast<size_t>(std::max<Integer>(*whole, 0));
  }

  void read_name() {
    named_.reset();
    if (at_ >= format_.size() || format_[at_] != '(') return;
    const size_t end = format_.find(')', at_);
    if (end == format_.npos) fail_value("incomplete format key");
    if (values_.dict() == nullptr) fail_type("format requires a mapping");
    const std::string_view name = format_.substr(at_ + 1, end - at_ - 1);
    const Value* found = find(runtime_.budget(), *values_.dict(), name);
    if (found == nullptr) {
      std::string quoted;
      append_quoted(name, quoted);
      fail("KeyError", quoted);
    }
    named_ = *found;
    at_ = end + 1;
  }

  Specification read_specification() {
    Specification how;
    how.align = '>';
    for (; at_ < format_.size(); ++at_) {
      const char c = format_[at_];
      if (c == '-') {
        how.align = '<';
        how.fill = " ";
      } else if (c == '+' || (c == ' ' && how.sign == '-')) {
        how.sign = c;
      } else if (c == '0' && how.align != '<') {
        how.align = '=';
        how.fill = "0";
      } else if (c == '#') {
        how.alternate = true;
      } else if (c != ' ' && c != '0') {
        break;
      }
    }
    const auto size = [this]() -> std::optional<size_t> {
      if (at_ >= format_.size() || format_[at_] != '*') return read_number(format_, at_);
      ++at_;
      return next_size();
    };
    how.width = size().value_or(0);
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      how.precision = std::min(size().value_or(0), kMaxPrecision);
    }
    while (at_ < format_.size() &&
           std::string_view("hlL").find(format_[at_]) != std::string_view::npos)
      ++at_;
    if (at_ >= format_.size()) fail_value("incomplete format");
    how.type = format_[at_++];
    return how;
  }

  std::string convert() {
    read_name();
    Specification how = read_specification();
    const Value value = next_value();
    switch (how.type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text =
            how.type == 's' ? runtime_.to_text(value) : to_repr(runtime_.budget(), value);
        if (how.align == '=') how.align = '>', how.fill = " ";
        return pad(runtime_, truncate_characters(std::move(text), how.precision), how, '>');
      }
      case 'c':
        return pad(runtime_, character(value), how, '>');
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return pad(runtime_, format_integer(integer(value, how.type), how), how, '>');
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.number())
          fail_type("must be real number, not " + std::string(value.type_name()));
        return pad(runtime_, format_float(*value.number(), how), how, '>');
      default:
        break;
    }
    fail_value(std::string("unsupported format character '") + how.type + "' at index " +
               std::to_string(at_ - 1));
  }

  static Integer integer(const Value& value, char type) {
    if (const auto whole = value.integer()) return *whole;
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (decimal && value.number() && std::abs(*value.number()) < 1e38) {
      return static_cast<Integer>(*value.number());
    }
    fail_type(std::string("%") + type + " format: " + (decimal ? "a real number" : "an integer") +
              " is required, not " + std::string(value.type_name()));
  }

  static std::string character(const Value& value) {
    std::string out;
    if (const auto code = value.integer(); code && *code >= 0 && *code <= 0x10FFFF) {
      append_character(out, static_cast<char32_t>(*code));
    } else if (value.text() != nullptr && count_characters(value.text()->bytes) == 1) {
      out = value.text()->bytes;
    } else {
      fail_type("%c requires int or char");
    }
    return out;
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& values_;
  bool is_tuple_ = false;
  size_t at_ = 0;
  size_t next_ = 0;
  std::optional<Value> named_;
};

}  // namespace

Value percent_format(Runtime& runtime, std::string_view format, const Value& values) {
  runtime.budget().charge(format.size());
  return PercentFormatter(runtime, format, values).run();
}

}  // namespace phidias::jinja
