#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/namespace.h"
#include "text/jinja/natives.h"
#include "text/jinja/operators.h"

namespace phidias::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
    for (const auto& [key, value] : scope->values_) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, old] : values_) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  values_.emplace_back(name, std::move(value));
}

// The `loop` of a for statement.
class Loop : public Object {
 public:
  Loop(Interpreter& interpreter, const For& node, const Scope& scope, std::vector<Value> items,
       size_t depth)
      : interpreter_(interpreter),
        node_(node),
        scope_(scope),
        items_(std::move(items)),
        depth_(depth) {}

  size_t count() const { return items_.size(); }
  const Value& enter(size_t index) { return items_[index_ = index]; }

  std::string_view type_name() const override { return "LoopContext"; }
  std::string_view qualified_type_name() const override { return "jinja2.runtime.LoopContext"; }
  bool callable() const override { return true; }

  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    const size_t count = items_.size();
    if (name == "index") return Value::from_size(index_ + 1);
    if (name == "index0") return Value::from_size(index_);
    if (name == "revindex") return Value::from_size(count - index_);
    if (name == "revindex0") return Value::from_size(count - index_ - 1);
    if (name == "length") return Value::from_size(count);
    if (name == "first") return Value(index_ == 0);
    if (name == "last") return Value(index_ + 1 == count);
    if (name == "depth") return Value::from_size(depth_ + 1);
    if (name == "depth0") return Value::from_size(depth_);
    if (name == "previtem") {
      return index_ > 0 ? items_[index_ - 1] : runtime.undefined("there is no previous item");
    }
    if (name == "nextitem") {
      return index_ + 1 < count ? items_[index_ + 1] : runtime.undefined("there is no next item");
    }
    if (name == "cycle") return Value::function(runtime.budget(), "cycle", cycle, Value(this));
    if (name == "changed")
      return Value::function(runtime.budget(), "changed", changed, Value(this));
    return std::nullopt;
  }

  Value call(Runtime& runtime, const Arguments& arguments) override {
    const Bound bound("loop", arguments, {"iterable"}, 1);
    if (!node_.recursive) {
      fail_type("The loop must have the 'recursive' marker to be called recursively.");
    }
    std::vector<Value> items = iterate(runtime, bound.value(0));
    return interpreter_.capture(
        [&] { interpreter_.run_loop(node_, scope_, std::move(items), depth_ + 1); });
  }

 private:
  static Value cycle(Runtime&, const Value& self, const Arguments& arguments) {
    const auto& loop = static_cast<Loop&>(*self.object());
    if (arguments.positional.empty()) fail_type("no items for cycling given");
    return arguments.positional[loop.index_ % arguments.positional.size()];
  }

  static Value changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
    auto& loop = static_cast<Loop&>(*self.object());
    Value now = runtime.list(arguments.positional, SequenceKind::kTuple);
    if (loop.last_ && equals(runtime.budget(), *loop.last_, now)) return Value(false);
    loop.last_ = std::move(now);
    return Value(true);
  }

  Interpreter& interpreter_;
  const For& node_;
  const Scope& scope_;
  std::vector<Value> items_;
  size_t depth_;
  size_t index_ = 0;
  std::optional<Value> last_;  // what changed() was last asked about
};

class MacroObject : public Object {
 public:
  MacroObject(Interpreter& interpreter, const Macro& macro, const Scope& scope)
      : interpreter_(interpreter), macro_(macro), scope_(scope) {}

  std::string_view type_name() const override { return "Macro"; }
  std::string_view qualified_type_name() const override { return "jinja2.runtime.Macro"; }
  bool callable() const override { return true; }

  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    if (name == "name") return runtime.text(macro_.name);
    if (name == "caller") return Value(macro_.takes_caller);
    if (name == "catch_kwargs") return Value(macro_.takes_named);
    if (name == "catch_varargs") return Value(macro_.takes_rest);
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const Parameter& parameter : macro_.parameters)
      names.push_back(runtime.text(parameter.name));
    return runtime.list(std::move(names), SequenceKind::kTuple);
  }

  Value call(Runtime&, const Arguments& arguments) override {
    return interpreter_.call_macro(macro_, scope_, arguments);
  }

  void print(Budget&, std::string& out) const override { out += "<Macro '" + macro_.name + "'>"; }

 private:
  Interpreter& interpreter_;
  const Macro& macro_;
  const Scope& scope_;
};

std::string Interpreter::run(const Body& body,
                             const std::vector<std::pair<std::string, Value>>& context) {
  Scope variables(nullptr);
  for (const auto& [name, value] : context) variables.set(name, value);
  Scope top(&variables);
  execute(body, top);
  return std::move(out_);
}

Scope& Interpreter::new_scope(const Scope& outer) {
  runtime_.budget().charge(4 * Budget::kElement);
  return *scopes_.emplace_back(std::make_unique<Scope>(&outer));
}

void Interpreter::write(std::string_view text) {
  runtime_.budget().charge(text.size());
  out_ += text;
  if (out_.size() > kMaxOutputBytes)
    fail("TemplateRuntimeError", "the template writes more than is allowed");
}

void Interpreter::print(const Value& value) {
  if (const Text* text = value.text()) return write(text->bytes);
  write(runtime_.to_text(value));
}

template <typename Run>
Value Interpreter::capture(Run run) {
  std::string outer = std::exchange(out_, {});
  run();
  return runtime_.text(std::exchange(out_, std::move(outer)));
}

// Statements
// ----------------------------------------------------------------------------------------------

Interpreter::Flow Interpreter::execute(const Body& body, Scope& scope) {
  const Budget::Level level(runtime_.budget());
  for (const auto& statement : body) {
    line_ = statement->line;
    runtime_.budget().charge(Budget::kStep);
    const Flow flow =
        std::visit([&](const auto& node) { return run(node, scope); }, statement->node);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Output& node, Scope&) {
  write(node.text);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Print& node, Scope& scope) {
  print(evaluate(*node.value, scope));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const If& node, Scope& scope) {
  for (const auto& [test, body] : node.branches) {
    if (evaluate(*test, scope).truthy()) return execute(body, scope);
  }
  return execute(node.otherwise, scope);
}

Interpreter::Flow Interpreter::run(const For& node, Scope& scope) {
  run_loop(node, scope, iterate(runtime_, evaluate(*node.iterable, scope)), 0);
  return Flow::kNext;
}

void Interpreter::run_loop(const For& node, const Scope& scope, std::vector<Value> items,
                           size_t depth) {
  if (node.filter) {
    std::vector<Value> kept;
    for (Value& item : items) {
      Scope& inner = new_scope(scope);
      assign(node.target, item, inner);
      if (evaluate(*node.filter, inner).truthy()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  Loop& loop = *runtime_.create<Loop>(*this, node, scope, std::move(items), depth);
  // Jinja runs the else part where no round reached its end, be it for break and continue.
  bool reached_end = false;
  for (size_t i = 0; i < loop.count(); ++i) {
    Scope& inner = new_scope(scope);
    inner.set("loop", Value(&loop));
    assign(node.target, loop.enter(i), inner);
    const Flow flow = execute(node.body, inner);
    if (flow == Flow::kBreak) break;
    reached_end |= flow == Flow::kNext;
  }
  if (!reached_end) execute(node.otherwise, new_scope(scope));
}

Interpreter::Flow Interpreter::run(const Set& node, Scope& scope) {
  assign(node.target, evaluate(*node.value, scope), scope);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const SetBlock& node, Scope& scope) {
  Flow flow = Flow::kNext;
  const Value text = capture([&] { flow = execute(node.body, new_scope(scope)); });
  if (flow == Flow::kNext) assign(node.target, apply(node.filters, text, scope), scope);
  return flow;
}

Interpreter::Flow Interpreter::run(const Macro& node, Scope& scope) {
  scope.set(node.name, Value(runtime_.create<MacroObject>(*this, node, scope)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const CallBlock& node, Scope& scope) {
  const Call& call = std::get<Call>(node.call->node);
  const Value callee = evaluate(*call.callee, scope);
  Arguments arguments = evaluate(call.arguments, scope);
  arguments.named.emplace_back("caller",
                               Value(runtime_.create<MacroObject>(*this, node.caller, scope)));
  print(runtime_.call(callee, arguments));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const FilterBlock& node, Scope& scope) {
  Flow flow = Flow::kNext;
  const Value text = capture([&] { flow = execute(node.body, new_scope(scope)); });
  if (flow == Flow::kNext) print(apply(node.filters, text, scope));
  return flow;
}

Interpreter::Flow Interpreter::run(const With& node, Scope& scope) {
  Scope& inner = new_scope(scope);
  for (const auto& [target, value] : node.values) assign(target, evaluate(*value, scope), inner);
  return execute(node.body, inner);
}

Interpreter::Flow Interpreter::run(const Generation& node, Scope& scope) {
  return execute(node.body, new_scope(scope));
}

Value Interpreter::call_macro(const Macro& macro, const Scope& scope, Arguments arguments) {
  const auto take_named = [&arguments](std::string_view name) -> std::optional<Value> {
    const auto at = std::find_if(arguments.named.begin(), arguments.named.end(),
                                 [name](const auto& entry) { return entry.first == name; });
    if (at == arguments.named.end()) return std::nullopt;
    Value value = std::move(at->second);
    arguments.named.erase(at);
    return value;
  };
  const size_t count = macro.parameters.size();
  Scope& inner = new_scope(scope);
  bool has_caller = false;
  std::vector<const Parameter*> missing;
  for (size_t i = 0; i < count; ++i) {
    const Parameter& parameter = macro.parameters[i];
    has_caller |= parameter.name == "caller";
    auto value =
        i < arguments.positional.size() ? arguments.positional[i] : take_named(parameter.name);
    if (value) {
      inner.set(parameter.name, *std::move(value));
    } else {
      missing.push_back(&parameter);
    }
  }
  if (macro.takes_caller && !has_caller) {
    inner.set("caller", take_named("caller").value_or(runtime_.undefined("No caller defined")));
  }
  if (macro.takes_named) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [name, value] : arguments.named) entries.emplace_back(runtime_.text(name), value);
    inner.set("kwargs", runtime_.dict(std::move(entries)));
  } else if (!arguments.named.empty()) {
    if (take_named("caller")) {
      fail_type("macro '" + macro.name +
                "' was invoked with two values for the special caller argument. This is most "
                "likely a bug.");
    }
    fail_type("macro '" + macro.name + "' takes no keyword argument '" +
              arguments.named.front().first + "'");
  }
  if (macro.takes_rest) {
    const size_t used = std::min(count, arguments.positional.size());
    inner.set("varargs",
              runtime_.list({arguments.positional.begin() + static_cast<std::ptrdiff_t>(used),
                             arguments.positional.end()},
                            SequenceKind::kTuple));
  } else if (arguments.positional.size() > count) {
    fail_type("macro '" + macro.name + "' takes not more than " + std::to_string(count) +
              " argument(s)");
  }
  // A default may use the parameters before it.
  for (const Parameter* parameter : missing) {
    inner.set(parameter->name,
              parameter->fallback
                  ? evaluate(*parameter->fallback, inner)
                  : runtime_.undefined("parameter '" + parameter->name + "' was not provided"));
  }
  return capture([&] { execute(macro.body, inner); });
}

void Interpreter::assign(const Target& target, const Value& value, Scope& scope) {
  runtime_.budget().charge(Budget::kElement);
  if (!target.attribute.empty()) {
    const Value* holder = scope.find(target.name);
    auto* space = holder != nullptr ? dynamic_cast<Namespace*>(holder->object()) : nullptr;
    if (space == nullptr) {
      fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
    }
    space->set(runtime_, target.attribute, value);
    return;
  }
  if (!target.is_tuple) return scope.set(target.name, value);
  const bool unpackable = value.sequence() != nullptr || value.text() != nullptr ||
                          value.dict() != nullptr || value.undefined() != nullptr;
  if (!unpackable)
    fail_type("cannot unpack non-iterable " + std::string(value.type_name()) + " object");
  const std::vector<Value> items = iterate(runtime_, value);
  const std::string wanted = std::to_string(target.items.size());
  if (items.size() < target.items.size()) {
    fail_value("not enough values to unpack (expected " + wanted + ", got " +
               std::to_string(items.size()) + ")");
  }
  if (items.size() > target.items.size())
    fail_value("too many values to unpack (expected " + wanted + ")");
  for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i], scope);
}

Value Interpreter::apply(const std::vector<ExpressionPtr>& filters, Value value,
                         const Scope& scope) {
  for (const ExpressionPtr& filter : filters) {
    value = apply(std::get<Application>(filter->node), value, scope);
  }
  return value;
}

// Expressions
// ---------------------------------------------------------------------------------------------

Value Interpreter::evaluate(const Expression& expression, const Scope& scope) {
  const Budget::Level level(runtime_.budget());
  line_ = expression.line;
  runtime_.budget().charge(Budget::kStep);
  return std::visit([&](const auto& node) { return evaluate(node, scope); }, expression.node);
}

Value Interpreter::evaluate_optional(const ExpressionPtr& expression, const Scope& scope) {
  return expression ? evaluate(*expression, scope) : Value();
}

Value Interpreter::evaluate(const Literal& node, const Scope&) { return node.value; }

Value Interpreter::evaluate(const Name& node, const Scope& scope) {
  if (const Value* value = scope.find(node.name)) return *value;
  if (const Native code = find_global(node.name)) {
    return Value::function(runtime_.budget(), node.name, code, Value());
  }
  return runtime_.undefined("'" + node.name + "' is undefined");
}

Value Interpreter::evaluate(const SequenceLiteral& node, const Scope& scope) {
  std::vector<Value> items;
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item, scope));
  return runtime_.list(std::move(items), node.kind);
}

Value Interpreter::evaluate(const DictLiteral& node, const Scope& scope) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key_node, value_node] : node.entries) {
    Value key = evaluate(*key_node, scope);
    require_hashable(key);
    insert(runtime_.budget(), entries, std::move(key), evaluate(*value_node, scope));
  }
  return runtime_.dict(std::move(entries));
}

Value Interpreter::evaluate(const Attribute& node, const Scope& scope) {
  return attribute(runtime_, evaluate(*node.object, scope), node.name);
}

Value Interpreter::evaluate(const Subscript& node, const Scope& scope) {
  const Value object = evaluate(*node.object, scope);
  return subscript(runtime_, object, evaluate(*node.index, scope));
}

Value Interpreter::evaluate(const Slice& node, const Scope& scope) {
  const Value object = evaluate(*node.object, scope);
  const Value start = evaluate_optional(node.start, scope);
  const Value stop = evaluate_optional(node.stop, scope);
  return slice(runtime_, object, start, stop, evaluate_optional(node.step, scope));
}

Value Interpreter::evaluate(const Call& node, const Scope& scope) {
  const Value callee = evaluate(*node.callee, scope);
  return runtime_.call(callee, evaluate(node.arguments, scope));
}

Value Interpreter::evaluate(const Application& node, const Scope& scope) {
  return apply(node, evaluate(*node.input, scope), scope);
}

Value Interpreter::apply(const Application& node, const Value& input, const Scope& scope) {
  const Arguments arguments = evaluate(node.arguments, scope);
  if (node.code == nullptr) {
    const std::string kind = node.is_test ? "test" : "filter";
    fail("TemplateRuntimeError", "No " + kind + " named '" + node.name + "' found.");
  }
  return node.code(runtime_, input, arguments);
}

Value Interpreter::evaluate(const Unary& node, const Scope& scope) {
  return unary(runtime_, node.op, evaluate(*node.operand, scope));
}

Value Interpreter::evaluate(const Binary& node, const Scope& scope) {
  const Value left = evaluate(*node.left, scope);
  return binary(runtime_, node.op, left, evaluate(*node.right, scope));
}

Value Interpreter::evaluate(const Logic& node, const Scope& scope) {
  Value left = evaluate(*node.left, scope);
  return left.truthy() == node.is_and ? evaluate(*node.right, scope) : left;
}

Value Interpreter::evaluate(const Comparison& node, const Scope& scope) {
  Value left = evaluate(*node.first, scope);
  for (const auto& [op, right_node] : node.rest) {
    Value right = evaluate(*right_node, scope);
    if (!compare(runtime_, op, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate(const Concatenation& node, const Scope& scope) {
  std::string text;
  for (const ExpressionPtr& part : node.parts) {
    append_text(runtime_.budget(), evaluate(*part, scope), text);
  }
  return runtime_.text(std::move(text));
}

Value Interpreter::evaluate(const Conditional& node, const Scope& scope) {
  if (evaluate(*node.test, scope).truthy()) return evaluate(*node.then, scope);
  if (node.otherwise) return evaluate(*node.otherwise, scope);
  return runtime_.undefined("the inline if-expression on line " + std::to_string(node.test->line) +
                            " evaluated to false and no else section was defined.");
}

Arguments Interpreter::evaluate(const CallArguments& nodes, const Scope& scope) {
  Arguments arguments;
  for (const ExpressionPtr& node : nodes.positional)
    arguments.positional.push_back(evaluate(*node, scope));
  if (nodes.spread_positional) {
    for (Value& item : iterate(runtime_, evaluate(*nodes.spread_positional, scope))) {
      arguments.positional.push_back(std::move(item));
    }
  }
  for (const auto& [name, node] : nodes.named)
    arguments.named.emplace_back(name, evaluate(*node, scope));
  if (nodes.spread_named) {
    const Value named = evaluate(*nodes.spread_named, scope);
    if (named.dict() == nullptr) {
      fail_type("argument after ** must be a mapping, not " + std::string(named.type_name()));
    }
    for (const auto& [key, value] : named.dict()->entries) {
      if (key.text() == nullptr) fail_type("keywords must be strings");
      runtime_.budget().charge(Budget::kElement + key.text()->bytes.size());
      arguments.named.emplace_back(key.text()->bytes, value);
    }
  }
  return arguments;
}

}  // namespace phidias::jinja
