// What the parser makes of a template.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/value.h"

namespace phidias::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Body = std::vector<std::unique_ptr<const Statement>>;

// Expressions
// ---------------------------------------------------------------------------------------------

struct Literal {
  Value value;
};

struct Name {
  std::string name;
};

struct SequenceLiteral {
  SequenceKind kind = SequenceKind::kList;
  std::vector<ExpressionPtr> items;
};

struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};

struct Attribute {  // object.name
  ExpressionPtr object;
  std::string name;
};

struct Subscript {  // object[index]
  ExpressionPtr object;
  ExpressionPtr index;
};

struct Slice {  // object[start:stop:step]; each part may be null
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread_positional;  // *list, or null
  ExpressionPtr spread_named;       // **dict, or null
};

struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};

// input | name(arguments), or input is name(arguments). `code` is null for an unknown name in a
// place that may never be reached; elsewhere an unknown name is an error of syntax.
struct Application {
  ExpressionPtr input;  // null in a filter block, whose input is its text
  std::string name;
  Native code = nullptr;
  bool is_test = false;
  CallArguments arguments;
};

enum class UnaryOperator : uint8_t { kNot, kMinus, kPlus };
enum class BinaryOperator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};
enum class ComparisonOperator : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};

struct Binary {
  BinaryOperator op;
  ExpressionPtr left;
  ExpressionPtr right;
};

struct Logic {  // and, or: the value of the operand that decides
  bool is_and;
  ExpressionPtr left;
  ExpressionPtr right;
};

struct Comparison {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> rest;
};

struct Concatenation {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};

struct Conditional {  // then if test else otherwise
  ExpressionPtr test;
  ExpressionPtr then;
  ExpressionPtr otherwise;  // null gives undefined
};

struct Expression {
  int line = 0;
  int depth = 1;  // of the deepest expression inside, plus one
  std::variant<Literal, Name, SequenceLiteral, DictLiteral, Attribute, Subscript, Slice, Call,
               Application, Unary, Binary, Logic, Comparison, Concatenation, Conditional>
      node;
};

// Statements
// ----------------------------------------------------------------------------------------------

// Where a value goes: a name, an attribute of a namespace, or several targets that it is unpacked
// into.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> items;
  bool is_tuple = false;

  bool mentions(std::string_view wanted) const {
    const auto inside = [wanted](const Target& item) { return item.mentions(wanted); };
    return name == wanted || std::any_of(items.begin(), items.end(), inside);
  }
};

struct Output {
  std::string text;
};

struct Print {
  ExpressionPtr value;
};

struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};

struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr filter;  // may be null
  bool recursive = false;
  Body body;
  Body otherwise;  // when no round reached its end
};

struct Set {
  Target target;
  ExpressionPtr value;
};

struct SetBlock {
  Target target;
  std::vector<ExpressionPtr> filters;  // Applications without input, the first applied first
  Body body;
};

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // may be null
};

struct Macro {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  bool takes_rest = false;    // the body mentions varargs
  bool takes_named = false;   // the body mentions kwargs
  bool takes_caller = false;  // the body mentions caller
};

struct CallBlock {
  ExpressionPtr call;  // a Call
  Macro caller;
};

struct FilterBlock {
  std::vector<ExpressionPtr> filters;
  Body body;
};

struct With {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Body body;
};

// {% generation %}: marks what the model is to produce; for the text it is only a scope.
struct Generation {
  Body body;
};

struct Break {};
struct Continue {};

struct Statement {
  int line = 0;
  std::variant<Output, Print, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With,
               Generation, Break, Continue>
      node;
};

}  // namespace phidias::jinja
