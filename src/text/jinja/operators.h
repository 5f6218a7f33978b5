// What Python's operators do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace phidias::jinja {

[[noreturn]] void fail_undefined(const Undefined& undefined);
// Fails for what cannot be a key of a dict.
void require_hashable(const Value& key);

Value unary(Runtime& runtime, UnaryOperator op, const Value& operand);
Value binary(Runtime& runtime, BinaryOperator op, const Value& left, const Value& right);
bool compare(Runtime& runtime, ComparisonOperator op, const Value& left, const Value& right);

// The elements that a loop over the value sees.
std::vector<Value> iterate(Runtime& runtime, const Value& value);
bool is_iterable(const Value& value);
// len(value).
size_t length(Runtime& runtime, const Value& value);

// object.name and object[index] with Jinja's fallback from one to the other; what is not there is
// undefined.
Value attribute(Runtime& runtime, const Value& object, std::string_view name);
Value subscript(Runtime& runtime, const Value& object, const Value& index);
// What Python's getattr() finds: a method or a field, but no entry of a dict. One that the sandbox
// refuses is undefined, and says so when it is used.
std::optional<Value> own_attribute(Runtime& runtime, const Value& object, std::string_view name);
// object[start:stop:step]; None stands for a part left out.
Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
            const Value& step);
// The attribute argument of filters: "a.b.0", or an index.
Value nested_attribute(Runtime& runtime, Value object, const Value& path);

std::string escape_html(std::string_view text);

}  // namespace phidias::jinja
