// The values of a template: those of Python that templates meet, immutable and shared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/budget.h"

namespace phidias::jinja {

class Runtime;
class Value;
struct Arguments;

// Python's integers have no bound; arithmetic beyond this one fails.
using Integer = __int128;

// Every filter, test, method and function. `self` is what it is applied to; None for functions.
using Native = Value (*)(Runtime&, const Value& self, const Arguments&);

// Prints as nothing, is false and empty; any other use fails with the words kept here.
struct Undefined {
  std::string message;
  const char* failure = "UndefinedError";
};

struct None {};

struct Text {
  std::string bytes;  // UTF-8
  bool safe = false;  // Python's Markup: what is joined to it with + gets escaped
};

enum class SequenceKind : uint8_t {
  kList,
  kTuple,
  kGroup,      // the pair that `groupby` gives: a tuple with the names `grouper` and `list`
  kGenerator,  // what lazy filters give: to be looped over, without length or index
  kRange,
  kKeys,
  kValues,
  kItems,
};

struct Sequence;
struct Dict;
struct Function;

// What changes or is known by identity: namespaces, macros, loops. The Runtime owns them, so that
// cycles through them need no collector.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual std::string_view qualified_type_name() const { return type_name(); }
  // Nothing where there is no such attribute.
  virtual std::optional<Value> attribute(Runtime& runtime, std::string_view name) = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, const Arguments& arguments);
  virtual void print(Budget& budget, std::string& out) const;
};

class Value {
 public:
  Value() = default;  // None
  explicit Value(bool value) : data_(value) {}
  explicit Value(Integer value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(Object* object) : data_(object) {}
  static Value from_size(size_t size) { return Value(static_cast<Integer>(size)); }
  // Where the budget or the depth of nesting is used up, these fail.
  static Value undefined(Budget& budget, std::string message,
                         const char* failure = "UndefinedError");
  static Value text(Budget& budget, std::string bytes, bool safe = false);
  static Value sequence(Budget& budget, SequenceKind kind, std::vector<Value> items);
  static Value dict(Budget& budget, std::vector<std::pair<Value, Value>> entries);
  static Value function(Budget& budget, std::string_view name, Native code, Value self);

  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  // Python's bool is an int.
  std::optional<Integer> integer() const;
  // An int or a float, as a float.
  std::optional<double> number() const;
  // Each is null for values of another type.
  const Undefined* undefined() const { return pointer<Undefined>(); }
  const Text* text() const { return pointer<Text>(); }
  const Sequence* sequence() const { return pointer<Sequence>(); }
  const Dict* dict() const { return pointer<Dict>(); }
  const Function* function() const { return pointer<Function>(); }
  Object* object() const {
    Object* const* object = std::get_if<Object*>(&data_);
    return object != nullptr ? *object : nullptr;
  }

  bool truthy() const;
  bool callable() const;
  bool same_as(const Value& other) const;   // Python's `is`
  std::string_view type_name() const;       // "str", "NoneType"
  std::string qualified_type_name() const;  // "str object", "None": as Jinja words it
  int depth() const;

 private:
  template <typename T>
  const T* pointer() const {
    const std::shared_ptr<const T>* held = std::get_if<std::shared_ptr<const T>>(&data_);
    return held != nullptr ? held->get() : nullptr;
  }

  std::variant<None, bool, Integer, double, std::shared_ptr<const Undefined>,
               std::shared_ptr<const Text>, std::shared_ptr<const Sequence>,
               std::shared_ptr<const Dict>, std::shared_ptr<const Function>, Object*>
      data_;
};

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int depth = 0;  // of the deepest value inside, plus one

  bool is_tuple() const { return kind == SequenceKind::kTuple || kind == SequenceKind::kGroup; }
  bool is_indexable() const { return kind <= SequenceKind::kGroup || kind == SequenceKind::kRange; }
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in the order they were written
  int depth = 0;
};

// A built-in function, or a method with its object.
struct Function {
  std::string_view name;
  Native code = nullptr;
  Value self;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Value equality as Python has it: 1 == 1.0 == True.
bool equals(Budget& budget, const Value& a, const Value& b);
// The entry of a dict, or null.
const Value* find(Budget& budget, const Dict& dict, const Value& key);
const Value* find(Budget& budget, const Dict& dict, std::string_view key);
// Replaces or adds an entry.
void insert(Budget& budget, std::vector<std::pair<Value, Value>>& entries, Value key, Value value);

}  // namespace phidias::jinja
