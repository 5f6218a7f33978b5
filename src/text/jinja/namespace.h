// namespace(): the one thing whose attributes a template may set.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/print.h"
#include "text/jinja/runtime.h"

namespace phidias::jinja {

class Namespace : public Object {
 public:
  explicit Namespace(std::vector<std::pair<Value, Value>> entries) : entries_(std::move(entries)) {}

  std::string_view type_name() const override { return "Namespace"; }
  std::string_view qualified_type_name() const override { return "jinja2.utils.Namespace"; }

  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    for (const auto& [key, value] : entries_) {
      runtime.budget().charge(Budget::kStep);
      if (key.text() != nullptr && key.text()->bytes == name) return value;
    }
    return std::nullopt;
  }

  void set(Runtime& runtime, const std::string& name, Value value) {
    insert(runtime.budget(), entries_, runtime.text(name), std::move(value));
  }

  void print(Budget& budget, std::string& out) const override {
    out += "<Namespace {";
    bool first = true;
    for (const auto& [key, value] : entries_) {
      if (!first) out += ", ";
      first = false;
      append_repr(budget, key, out);
      out += ": ";
      append_repr(budget, value, out);
    }
    out += "}>";
  }

 private:
  std::vector<std::pair<Value, Value>> entries_;
};

}  // namespace phidias::jinja
