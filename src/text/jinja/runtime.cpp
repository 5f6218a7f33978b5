#include "text/jinja/runtime.h"

#include "text/jinja/native_table.h"
#include "text/jinja/natives.h"
#include "text/jinja/operators.h"

namespace phidias::jinja {

Native find_filter(std::string_view name) {
  if (const Native code = find_text_filter(name)) return code;
  if (const Native code = find_number_filter(name)) return code;
  return find_sequence_filter(name);
}

Native Runtime::filter(std::string_view name) {
  if (const Native code = find_filter(name)) return code;
  fail("TemplateRuntimeError", "No filter named '" + std::string(name) + "'.");
}

Native Runtime::test(std::string_view name) {
  if (const Native code = find_test(name)) return code;
  fail("TemplateRuntimeError", "No test named '" + std::string(name) + "'.");
}

Value Runtime::call(const Value& callee, const Arguments& arguments) {
  const Budget::Level level(budget_);
  if (const Function* function = callee.function())
    return function->code(*this, function->self, arguments);
  if (Object* object = callee.object()) return object->call(*this, arguments);
  if (const Undefined* undefined = callee.undefined()) fail_undefined(*undefined);
  fail_type("'" + std::string(callee.type_name()) + "' object is not callable");
}

}  // namespace phidias::jinja
