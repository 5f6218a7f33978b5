// The tests of `value is name(arguments)`.
#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/letter_case.h"
#include "text/jinja/native_table.h"
#include "text/jinja/natives.h"
#include "text/jinja/operators.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

// A test that looks at the value alone.
template <bool (*kHolds)(const Value&)>
Value simple(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound none("test", arguments, {});
  return Value(kHolds(self));
}

template <ComparisonOperator kOperator>
Value comparison(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("test", arguments, {"other"}, 1);
  return Value(compare(runtime, kOperator, self, bound.value(0)));
}

bool is_defined(const Value& value) { return value.undefined() == nullptr; }
bool is_undefined(const Value& value) { return value.undefined() != nullptr; }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && value.truthy(); }
bool is_false(const Value& value) { return value.is_bool() && !value.truthy(); }
bool is_integer(const Value& value) { return value.integer() && !value.is_bool(); }
bool is_float(const Value& value) { return value.is_float(); }
bool is_number(const Value& value) { return value.number().has_value(); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_callable(const Value& value) { return value.callable(); }
bool is_escaped(const Value& value) { return value.text() != nullptr && value.text()->safe; }

bool is_sequence(const Value& value) {
  return is_string(value) || is_mapping(value) || is_undefined(value) ||
         (value.sequence() != nullptr && value.sequence()->is_indexable());
}

// value % divisor == rest.
Value has_remainder(Runtime& runtime, const Value& value, const Value& divisor, Integer rest) {
  return Value(equals(runtime.budget(), binary(runtime, BinaryOperator::kModulo, value, divisor),
                      Value(rest)));
}

Value even(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("even", arguments, {});
  return has_remainder(runtime, self, Value(Integer{2}), 0);
}

Value odd(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("odd", arguments, {});
  return has_remainder(runtime, self, Value(Integer{2}), 1);
}

Value divisible_by(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return has_remainder(runtime, self, bound.value(0), 0);
}

Value same_as(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("sameas", arguments, {"other"}, 1);
  return Value(self.same_as(bound.value(0)));
}

Value is_lower_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("lower", arguments, {});
  const std::string text = runtime.to_text(self);
  return Value(has_case(text, is_lower, is_upper));
}

Value is_upper_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("upper", arguments, {});
  const std::string text = runtime.to_text(self);
  return Value(has_case(text, is_upper, is_lower));
}

Value is_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("filter", arguments, {});
  return Value(find_filter(runtime.to_text(self)) != nullptr);
}

Value is_test(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("test", arguments, {});
  return Value(find_test(runtime.to_text(self)) != nullptr);
}

constexpr NamedNative kTests[] = {
    {"defined", simple<is_defined>},
    {"undefined", simple<is_undefined>},
    {"none", simple<is_none>},
    {"boolean", simple<is_boolean>},
    {"true", simple<is_true>},
    {"false", simple<is_false>},
    {"integer", simple<is_integer>},
    {"float", simple<is_float>},
    {"number", simple<is_number>},
    {"string", simple<is_string>},
    {"mapping", simple<is_mapping>},
    {"sequence", simple<is_sequence>},
    {"iterable", simple<is_iterable>},
    {"callable", simple<is_callable>},
    {"escaped", simple<is_escaped>},
    {"even", even},
    {"odd", odd},
    {"divisibleby", divisible_by},
    {"sameas", same_as},
    {"lower", is_lower_test},
    {"upper", is_upper_test},
    {"filter", is_filter},
    {"test", is_test},
    {"in", comparison<ComparisonOperator::kIn>},
    {"eq", comparison<ComparisonOperator::kEqual>},
    {"equalto", comparison<ComparisonOperator::kEqual>},
    {"==", comparison<ComparisonOperator::kEqual>},
    {"ne", comparison<ComparisonOperator::kNotEqual>},
    {"!=", comparison<ComparisonOperator::kNotEqual>},
    {"lt", comparison<ComparisonOperator::kLess>},
    {"lessthan", comparison<ComparisonOperator::kLess>},
    {"<", comparison<ComparisonOperator::kLess>},
    {"le", comparison<ComparisonOperator::kLessEqual>},
    {"<=", comparison<ComparisonOperator::kLessEqual>},
    {"gt", comparison<ComparisonOperator::kGreater>},
    {"greaterthan", comparison<ComparisonOperator::kGreater>},
    {">", comparison<ComparisonOperator::kGreater>},
    {"ge", comparison<ComparisonOperator::kGreaterEqual>},
    {">=", comparison<ComparisonOperator::kGreaterEqual>},
};

}  // namespace

Native find_test(std::string_view name) { return find_native(kTests, name); }

}  // namespace phidias::jinja
