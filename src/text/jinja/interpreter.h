// Runs the statements of a template.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace phidias::jinja {

// The names set in one block, then those around it. Names are borrowed from the template and the
// context.
class Scope {
 public:
  explicit Scope(const Scope* outer) : outer_(outer) {}

  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);

 private:
  const Scope* outer_;
  std::vector<std::pair<std::string_view, Value>> values_;
};

class Interpreter {
 public:
  explicit Interpreter(Runtime& runtime) : runtime_(runtime) {}

  // The text of the template. Throws Failure.
  std::string run(const Body& body, const std::vector<std::pair<std::string, Value>>& context);
  // Of the template, where the interpreter is.
  int line() const { return line_; }

 private:
  friend class Loop;
  friend class MacroObject;

  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  Scope& new_scope(const Scope& outer);
  void write(std::string_view text);
  void print(const Value& value);
  // What `run` writes, as text.
  template <typename Run>
  Value capture(Run run);

  Flow execute(const Body& body, Scope& scope);
  Flow run(const Output& node, Scope& scope);
  Flow run(const Print& node, Scope& scope);
  Flow run(const If& node, Scope& scope);
  Flow run(const For& node, Scope& scope);
  Flow run(const Set& node, Scope& scope);
  Flow run(const SetBlock& node, Scope& scope);
  Flow run(const Macro& node, Scope& scope);
  Flow run(const CallBlock& node, Scope& scope);
  Flow run(const FilterBlock& node, Scope& scope);
  Flow run(const With& node, Scope& scope);
  Flow run(const Generation& node, Scope& scope);
  Flow run(const Break&, Scope&) { return Flow::kBreak; }
  Flow run(const Continue&, Scope&) { return Flow::kContinue; }

  void run_loop(const For& node, const Scope& scope, std::vector<Value> items, size_t depth);
  Value call_macro(const Macro& macro, const Scope& scope, Arguments arguments);
  void assign(const Target& target, const Value& value, Scope& scope);
  Value apply(const std::vector<ExpressionPtr>& filters, Value value, const Scope& scope);

  Value evaluate(const Expression& expression, const Scope& scope);
  Value evaluate(const Literal& node, const Scope& scope);
  Value evaluate(const Name& node, const Scope& scope);
  Value evaluate(const SequenceLiteral& node, const Scope& scope);
  Value evaluate(const DictLiteral& node, const Scope& scope);
  Value evaluate(const Attribute& node, const Scope& scope);
  Value evaluate(const Subscript& node, const Scope& scope);
  Value evaluate(const Slice& node, const Scope& scope);
  Value evaluate(const Call& node, const Scope& scope);
  Value evaluate(const Application& node, const Scope& scope);
  Value evaluate(const Unary& node, const Scope& scope);
  Value evaluate(const Binary& node, const Scope& scope);
  Value evaluate(const Logic& node, const Scope& scope);
  Value evaluate(const Comparison& node, const Scope& scope);
  Value evaluate(const Concatenation& node, const Scope& scope);
  Value evaluate(const Conditional& node, const Scope& scope);
  // None where there is no expression.
  Value evaluate_optional(const ExpressionPtr& expression, const Scope& scope);
  Arguments evaluate(const CallArguments& arguments, const Scope& scope);
  Value apply(const Application& node, const Value& input, const Scope& scope);

  Runtime& runtime_;
  std::string out_;
  int line_ = 0;
  // Kept to the end, since a macro remembers the scope it was defined in.
  std::vector<std::unique_ptr<Scope>> scopes_;
};

}  // namespace phidias::jinja
