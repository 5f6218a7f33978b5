// What natives and the interpreter share while one template is rendered.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/print.h"
#include "text/jinja/value.h"

namespace phidias::jinja {

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Budget& budget() { return budget_; }

  Value text(std::string bytes, bool safe = false) {
    return Value::text(budget_, std::move(bytes), safe);
  }
  Value list(std::vector<Value> items, SequenceKind kind = SequenceKind::kList) {
    return Value::sequence(budget_, kind, std::move(items));
  }
  Value dict(std::vector<std::pair<Value, Value>> entries) {
    return Value::dict(budget_, std::move(entries));
  }
  Value undefined(std::string message) { return Value::undefined(budget_, std::move(message)); }
  std::string to_text(const Value& value) { return jinja::to_text(budget_, value); }

  // An object that lives until the end of the rendering.
  template <typename T, typename... Args>
  T* create(Args&&... args) {
    budget_.charge(sizeof(T) + Budget::kElement);
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T* created = object.get();
    objects_.push_back(std::move(object));
    return created;
  }

  Value call(const Value& callee, const Arguments& arguments);
  // The filter or test of this name; an unknown one fails as Jinja words it at run time.
  Native filter(std::string_view name);
  Native test(std::string_view name);

 private:
  Budget budget_;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace phidias::jinja
