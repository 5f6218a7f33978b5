#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstring>

#include "text/jinja/format.h"
#include "text/jinja/natives.h"
#include "text/jinja/text_search.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

constexpr Integer kLargestInteger = static_cast<Integer>(~static_cast<unsigned __int128>(0) >> 1);

std::string_view symbol_of(BinaryOperator op) {
  constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kSymbols[static_cast<size_t>(op)];
}

std::string_view symbol_of(ComparisonOperator op) {
  constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

std::string type_of(const Value& value) { return std::string(value.type_name()); }

[[noreturn]] void fail_unsupported(BinaryOperator op, const Value& left, const Value& right) {
  fail_type("unsupported operand type(s) for " + std::string(symbol_of(op)) + ": '" +
            type_of(left) + "' and '" + type_of(right) + "'");
}

[[noreturn]] void fail_zero_division(std::string message) {
  fail("ZeroDivisionError", std::move(message));
}

void require_exact(bool overflowed) {
  if (overflowed) fail("OverflowError", "the integer is too large");
}

Integer floor_divide(Integer a, Integer b) {
  require_exact(b == -1 && a == -kLargestInteger - 1);
  const Integer quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Integer power(Integer base, Integer exponent) {
  Integer result = 1;
  while (true) {
    if (exponent & 1) require_exact(__builtin_mul_overflow(result, base, &result));
    exponent >>= 1;
    if (exponent == 0) return result;
    require_exact(__builtin_mul_overflow(base, base, &base));
  }
}

Value float_power(double base, double exponent) {
  if (base == 0 && exponent < 0) fail_zero_division("0.0 cannot be raised to a negative power");
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    fail("OverflowError", "(34, 'Numerical result out of range')");
  }
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
    fail_value(
        "a negative number to a broken power is a complex number, which templates cannot hold");
  }
  return Value(result);
}

Value integer_arithmetic(BinaryOperator op, Integer a, Integer b) {
  Integer result = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      require_exact(__builtin_add_overflow(a, b, &result));
      return Value(result);
    case BinaryOperator::kSubtract:
      require_exact(__builtin_sub_overflow(a, b, &result));
      return Value(result);
    case BinaryOperator::kMultiply:
      require_exact(__builtin_mul_overflow(a, b, &result));
      return Value(result);
    case BinaryOperator::kDivide:
      if (b == 0) fail_zero_division("division by zero");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
      if (b == 0) fail_zero_division("integer division or modulo by zero");
      return Value(floor_divide(a, b));
    case BinaryOperator::kModulo:
      if (b == 0) fail_zero_division("integer modulo by zero");
      return Value(b == -1 ? Integer{0} : a - floor_divide(a, b) * b);
    case BinaryOperator::kPower:
      if (b < 0) return float_power(static_cast<double>(a), static_cast<double>(b));
      return Value(power(a, b));
  }
  return Value();
}

Value float_arithmetic(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value(a + b);
    case BinaryOperator::kSubtract:
      return Value(a - b);
    case BinaryOperator::kMultiply:
      return Value(a * b);
    case BinaryOperator::kDivide:
      if (b == 0) fail_zero_division("float division by zero");
      return Value(a / b);
    case BinaryOperator::kFloorDivide:
      if (b == 0) fail_zero_division("float floor division by zero");
      return Value(std::floor(a / b));
    case BinaryOperator::kModulo: {
      if (b == 0) fail_zero_division("float modulo");
      // The sign is the divisor's, as in Python.
      const double rest = std::fmod(a, b);
      return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b
                                                      : std::copysign(rest, rest != 0 ? rest : b));
    }
    case BinaryOperator::kPower:
      return float_power(a, b);
  }
  return Value();
}

Value add_texts(Runtime& runtime, const Text& left, const Text& right) {
  runtime.budget().charge(left.bytes.size() + right.bytes.size());
  const bool safe = left.safe || right.safe;
  if (left.safe == right.safe) return runtime.text(left.bytes + right.bytes, safe);
  if (left.safe) return runtime.text(left.bytes + escape_html(right.bytes), safe);
  return runtime.text(escape_html(left.bytes) + right.bytes, safe);
}

Value add_sequences(Runtime& runtime, const Sequence& left, const Sequence& right) {
  runtime.budget().charge(left.items.size() + right.items.size(), Budget::kElement);
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return runtime.list(std::move(items),
                      left.is_tuple() ? SequenceKind::kTuple : SequenceKind::kList);
}

bool is_list_or_tuple(const Value& value) {
  const Sequence* list = value.sequence();
  return list != nullptr && (list->is_tuple() || list->kind == SequenceKind::kList);
}

Value add(Runtime& runtime, const Value& left, const Value& right) {
  if (left.text() != nullptr) {
    if (right.text() != nullptr) return add_texts(runtime, *left.text(), *right.text());
    fail_type("can only concatenate str (not \"" + type_of(right) + "\") to str");
  }
  if (!is_list_or_tuple(left)) fail_unsupported(BinaryOperator::kAdd, left, right);
  if (!is_list_or_tuple(right) || left.sequence()->is_tuple() != right.sequence()->is_tuple()) {
    const std::string kind = left.sequence()->is_tuple() ? "tuple" : "list";
    fail_type("can only concatenate " + kind + " (not \"" + type_of(right) + "\") to " + kind);
  }
  return add_sequences(runtime, *left.sequence(), *right.sequence());
}

Value repeat(Runtime& runtime, const Value& what, Integer times) {
  if (times < 0) times = 0;
  if (times > kLargestInteger / 2 || times > static_cast<Integer>(SIZE_MAX)) times = SIZE_MAX;
  const size_t count = static_cast<size_t>(times);
  if (const Text* text = what.text()) {
    runtime.budget().charge(count, text->bytes.size());
    std::string out;
    if (!text->bytes.empty()) {
      out.reserve(text->bytes.size() * count);
      for (size_t i = 0; i < count; ++i) out += text->bytes;
    }
    return runtime.text(std::move(out), text->safe);
  }
  const std::vector<Value>& items = what.sequence()->items;
  runtime.budget().charge(count, items.size() * Budget::kElement);
  std::vector<Value> out;
  for (size_t i = 0; i < count && !items.empty(); ++i)
    out.insert(out.end(), items.begin(), items.end());
  return runtime.list(std::move(out),
                      what.sequence()->is_tuple() ? SequenceKind::kTuple : SequenceKind::kList);
}

Value multiply(Runtime& runtime, const Value& left, const Value& right) {
  const auto repeatable = [](const Value& v) { return v.text() != nullptr || is_list_or_tuple(v); };
  if (repeatable(left) && right.integer()) return repeat(runtime, left, *right.integer());
  if (repeatable(right) && left.integer()) return repeat(runtime, right, *left.integer());
  if (repeatable(left) || repeatable(right)) {
    fail_type("can't multiply sequence by non-int of type '" +
              type_of(repeatable(left) ? right : left) + "'");
  }
  fail_unsupported(BinaryOperator::kMultiply, left, right);
}

std::partial_ordering order(Runtime& runtime, ComparisonOperator op, const Value& a,
                            const Value& b) {
  runtime.budget().charge(Budget::kStep);
  if (const auto x = a.integer(), y = b.integer(); x && y) {
    return *x < *y   ? std::partial_ordering::less
           : *x > *y ? std::partial_ordering::greater
                     : std::partial_ordering::equivalent;
  }
  if (const auto x = a.number(), y = b.number(); x && y) return *x <=> *y;
  if (a.text() != nullptr && b.text() != nullptr) {
    // The bytes of UTF-8 sort as the characters do.
    runtime.budget().charge(std::min(a.text()->bytes.size(), b.text()->bytes.size()));
    const int sign = a.text()->bytes.compare(b.text()->bytes);
    return sign <=> 0;
  }
  if (is_list_or_tuple(a) && is_list_or_tuple(b) &&
      a.sequence()->is_tuple() == b.sequence()->is_tuple()) {
    const Budget::Level level(runtime.budget());
    const std::vector<Value>& x = a.sequence()->items;
    const std::vector<Value>& y = b.sequence()->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equals(runtime.budget(), x[i], y[i])) return order(runtime, op, x[i], y[i]);
    }
    return x.size() <=> y.size();
  }
  if (a.undefined() != nullptr) fail_undefined(*a.undefined());
  if (b.undefined() != nullptr) fail_undefined(*b.undefined());
  fail_type("'" + std::string(symbol_of(op)) + "' not supported between instances of '" +
            type_of(a) + "' and '" + type_of(b) + "'");
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (item.text() == nullptr) {
      fail_type("'in <string>' requires string as left operand, not " + type_of(item));
    }
    runtime.budget().charge(text->bytes.size() + item.text()->bytes.size());
    return find_text(text->bytes, item.text()->bytes) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) {
    require_hashable(item);
    return find(runtime.budget(), *dict, item) != nullptr;
  }
  if (const Sequence* list = container.sequence()) {
    return std::any_of(list->items.begin(), list->items.end(), [&](const Value& candidate) {
      return equals(runtime.budget(), candidate, item);
    });
  }
  if (container.undefined() != nullptr) return false;
  fail_type("argument of type '" + type_of(container) + "' is not iterable");
}

std::optional<Value> element(Runtime& runtime, const Value& object, const Value& index) {
  if (const Dict* dict = object.dict()) {
    if (index.dict() != nullptr) return std::nullopt;
    const Value* found = find(runtime.budget(), *dict, index);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  auto at = index.integer();
  if (!at) return std::nullopt;
  if (const Sequence* list = object.sequence(); list != nullptr && list->is_indexable()) {
    const auto count = static_cast<Integer>(list->items.size());
    if (*at < 0) *at += count;
    if (*at < 0 || *at >= count) return std::nullopt;
    return list->items[static_cast<size_t>(*at)];
  }
  if (const Text* text = object.text()) {
    runtime.budget().charge(text->bytes.size());
    const auto count = static_cast<Integer>(count_characters(text->bytes));
    if (*at < 0) *at += count;
    if (*at < 0 || *at >= count) return std::nullopt;
    size_t start = 0;
    for (Integer i = 0; i < *at; ++i) start += character_at(text->bytes, start).size();
    return runtime.text(std::string(character_at(text->bytes, start)));
  }
  return std::nullopt;
}

// The positions of a slice of `count` elements.
std::vector<size_t> slice_positions(Runtime& runtime, size_t count, const Value& start,
                                    const Value& stop, const Value& step_value) {
  const auto part = [](const Value& value) -> std::optional<Integer> {
    if (value.is_none()) return std::nullopt;
    if (value.undefined() == nullptr && value.integer()) return value.integer();
    fail_type("slice indices must be integers or None or have an __index__ method");
  };
  const Integer step = part(step_value).value_or(1);
  if (step == 0) fail_value("slice step cannot be zero");
  const auto size = static_cast<Integer>(count);
  const Integer lowest = step > 0 ? 0 : -1;
  const Integer highest = step > 0 ? size : size - 1;
  const auto clamp = [&](std::optional<Integer> index, Integer fallback) {
    if (!index) return fallback;
    if (*index < 0) *index += size;
    return std::clamp(*index, lowest, highest);
  };
  const Integer from = clamp(part(start), step > 0 ? lowest : highest);
  const Integer to = clamp(part(stop), step > 0 ? highest : lowest);
  std::vector<size_t> positions;
  runtime.budget().charge(count, sizeof(size_t));
  // Steps longer than the whole go to its end at once, where adding them could not be represented.
  const Integer stride = std::clamp(step, -size - 1, size + 1);
  for (Integer at = from; stride > 0 ? at < to : at > to; at += stride) {
    positions.push_back(static_cast<size_t>(at));
  }
  return positions;
}

}  // namespace

void fail_undefined(const Undefined& undefined) { fail(undefined.failure, undefined.message); }

void require_hashable(const Value& key) {
  const Sequence* list = key.sequence();
  if (key.dict() != nullptr || (list != nullptr && list->kind == SequenceKind::kList)) {
    fail_type("unhashable type: '" + type_of(key) + "'");
  }
}

Value unary(Runtime&, UnaryOperator op, const Value& operand) {
  if (op == UnaryOperator::kNot) return Value(!operand.truthy());
  if (operand.undefined() != nullptr) fail_undefined(*operand.undefined());
  const bool minus = op == UnaryOperator::kMinus;
  if (const auto whole = operand.integer()) {
    require_exact(minus && *whole == -kLargestInteger - 1);
    return Value(minus ? -*whole : *whole);
  }
  if (const auto number = operand.number()) return Value(minus ? -*number : *number);
  fail_type(std::string("bad operand type for unary ") + (minus ? "-" : "+") + ": '" +
            type_of(operand) + "'");
}

Value binary(Runtime& runtime, BinaryOperator op, const Value& left, const Value& right) {
  if (op == BinaryOperator::kModulo && left.text() != nullptr) {
    return percent_format(runtime, left.text()->bytes, right);
  }
  if (left.undefined() != nullptr) fail_undefined(*left.undefined());
  if (right.undefined() != nullptr) fail_undefined(*right.undefined());
  if (const auto a = left.integer(), b = right.integer(); a && b)
    return integer_arithmetic(op, *a, *b);
  if (const auto a = left.number(), b = right.number(); a && b) return float_arithmetic(op, *a, *b);
  if (op == BinaryOperator::kAdd) return add(runtime, left, right);
  if (op == BinaryOperator::kMultiply) return multiply(runtime, left, right);
  fail_unsupported(op, left, right);
}

bool compare(Runtime& runtime, ComparisonOperator op, const Value& left, const Value& right) {
  switch (op) {
    case ComparisonOperator::kEqual:
      return equals(runtime.budget(), left, right);
    case ComparisonOperator::kNotEqual:
      return !equals(runtime.budget(), left, right);
    case ComparisonOperator::kLess:
      return std::is_lt(order(runtime, op, left, right));
    case ComparisonOperator::kLessEqual:
      return std::is_lteq(order(runtime, op, left, right));
    case ComparisonOperator::kGreater:
      return std::is_gt(order(runtime, op, left, right));
    case ComparisonOperator::kGreaterEqual:
      return std::is_gteq(order(runtime, op, left, right));
    case ComparisonOperator::kIn:
      return contains(runtime, right, left);
    case ComparisonOperator::kNotIn:
      return !contains(runtime, right, left);
  }
  return false;
}

bool is_iterable(const Value& value) {
  return value.sequence() != nullptr || value.dict() != nullptr || value.text() != nullptr ||
         value.undefined() != nullptr;
}

std::vector<Value> iterate(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (const Sequence* list = value.sequence()) {
    runtime.budget().charge(list->items.size(), sizeof(Value));
    return list->items;
  }
  if (const Dict* dict = value.dict()) {
    runtime.budget().charge(dict->entries.size(), sizeof(Value));
    for (const auto& entry : dict->entries) items.push_back(entry.first);
    return items;
  }
  if (const Text* text = value.text()) {
    for (size_t at = 0; at < text->bytes.size();) {
      const std::string_view character = character_at(text->bytes, at);
      items.push_back(runtime.text(std::string(character)));
      at += character.size();
    }
    return items;
  }
  if (value.undefined() != nullptr) return items;
  fail_type("'" + type_of(value) + "' object is not iterable");
}

size_t length(Runtime& runtime, const Value& value) {
  if (const Text* text = value.text()) {
    runtime.budget().charge(text->bytes.size());
    return count_characters(text->bytes);
  }
  if (const Dict* dict = value.dict()) return dict->entries.size();
  if (value.undefined() != nullptr) return 0;
  const Sequence* list = value.sequence();
  if (list == nullptr || list->kind == SequenceKind::kGenerator) {
    fail_type("object of type '" + type_of(value) + "' has no len()");
  }
  return list->items.size();
}

std::optional<Value> own_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  const bool special =
      name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
  if (special || is_mutating_method(object, name)) {
    return Value::undefined(runtime.budget(),
                            "access to attribute '" + std::string(name) + "' of '" +
                                type_of(object) + "' object is unsafe.",
                            "SecurityError");
  }
  if (object.object() != nullptr) return object.object()->attribute(runtime, name);
  if (object.sequence() != nullptr && object.sequence()->kind == SequenceKind::kGroup) {
    if (name == "grouper") return object.sequence()->items[0];
    if (name == "list") return object.sequence()->items[1];
  }
  const Native method = find_method(object, name);
  if (method == nullptr) return std::nullopt;
  return Value::function(runtime.budget(), name, method, object);
}

Value attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.undefined() != nullptr) fail_undefined(*object.undefined());
  if (auto found = own_attribute(runtime, object, name)) return *std::move(found);
  if (const Dict* dict = object.dict()) {
    if (const Value* found = find(runtime.budget(), *dict, name)) return *found;
  }
  return runtime.undefined("'" + object.qualified_type_name() + "' has no attribute '" +
                           std::string(name) + "'");
}

Value subscript(Runtime& runtime, const Value& object, const Value& index) {
  if (object.undefined() != nullptr) fail_undefined(*object.undefined());
  if (auto found = element(runtime, object, index)) return *std::move(found);
  if (const Text* name = index.text()) {
    if (auto found = own_attribute(runtime, object, name->bytes)) return *std::move(found);
    std::string quoted;
    append_quoted(name->bytes, quoted);
    return runtime.undefined("'" + object.qualified_type_name() + "' has no attribute " + quoted);
  }
  return runtime.undefined(object.qualified_type_name() + " has no element " +
                           to_repr(runtime.budget(), index));
}

Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  if (object.undefined() != nullptr) fail_undefined(*object.undefined());
  if (const Text* text = object.text()) {
    runtime.budget().charge(text->bytes.size(), sizeof(std::string_view));
    const std::vector<std::string_view> all = characters(text->bytes);
    std::string out;
    for (const size_t at : slice_positions(runtime, all.size(), start, stop, step)) out += all[at];
    return runtime.text(std::move(out), text->safe);
  }
  const Sequence* list = object.sequence();
  if (list == nullptr || !list->is_indexable()) {
    if (object.dict() != nullptr) fail_type("unhashable type: 'slice'");
    fail_type("'" + type_of(object) + "' object is not subscriptable");
  }
  std::vector<Value> items;
  for (const size_t at : slice_positions(runtime, list->items.size(), start, stop, step)) {
    items.push_back(list->items[at]);
  }
  const SequenceKind kind = list->kind == SequenceKind::kGroup ? SequenceKind::kTuple : list->kind;
  return runtime.list(std::move(items), kind);
}

Value nested_attribute(Runtime& runtime, Value object, const Value& path) {
  if (path.is_none()) return object;
  if (path.text() == nullptr) return subscript(runtime, object, path);
  const std::string& names = path.text()->bytes;
  for (size_t at = 0; at <= names.size();) {
    const size_t dot = std::min(names.find('.', at), names.size());
    const std::string part = names.substr(at, dot - at);
    const bool is_index =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    object =
        subscript(runtime, object, is_index ? Value(Integer{std::stol(part)}) : runtime.text(part));
    at = dot + 1;
  }
  return object;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace phidias::jinja
