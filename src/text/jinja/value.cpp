#include "text/jinja/value.h"

#include <algorithm>

namespace phidias::jinja {
namespace {

int checked_depth(int deepest) {
  if (deepest >= kMaxValueDepth) fail("RecursionError", "values are nested too deeply");
  return deepest + 1;
}

}  // namespace

Value Object::call(Runtime&, const Arguments&) {
  fail_type("'" + std::string(type_name()) + "' object is not callable");
}

void Object::print(Budget&, std::string& out) const {
  out += '<';
  out += qualified_type_name();
  out += " object>";
}

Value Value::undefined(Budget& budget, std::string message, const char* failure) {
  budget.charge(Budget::kElement + message.size());
  Value value;
  value.data_ = std::make_shared<const Undefined>(Undefined{std::move(message), failure});
  return value;
}

Value Value::text(Budget& budget, std::string bytes, bool safe) {
  budget.charge(Budget::kElement + bytes.size());
  Value value;
  value.data_ = std::make_shared<const Text>(Text{std::move(bytes), safe});
  return value;
}

Value Value::sequence(Budget& budget, SequenceKind kind, std::vector<Value> items) {
  budget.charge(items.size() + 1, Budget::kElement);
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  Value value;
  value.data_ =
      std::make_shared<const Sequence>(Sequence{kind, std::move(items), checked_depth(deepest)});
  return value;
}

Value Value::dict(Budget& budget, std::vector<std::pair<Value, Value>> entries) {
  budget.charge(entries.size() + 1, 2 * Budget::kElement);
  int deepest = 0;
  for (const auto& [key, entry] : entries) {
    deepest = std::max({deepest, key.depth(), entry.depth()});
  }
  Value value;
  value.data_ = std::make_shared<const Dict>(Dict{std::move(entries), checked_depth(deepest)});
  return value;
}

Value Value::function(Budget& budget, std::string_view name, Native code, Value self) {
  budget.charge(Budget::kElement);
  checked_depth(self.depth());
  Value value;
  value.data_ = std::make_shared<const Function>(Function{name, code, std::move(self)});
  return value;
}

std::optional<Integer> Value::integer() const {
  if (const Integer* integer = std::get_if<Integer>(&data_)) return *integer;
  if (const bool* boolean = std::get_if<bool>(&data_)) return Integer{*boolean ? 1 : 0};
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double* number = std::get_if<double>(&data_)) return *number;
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

bool Value::truthy() const {
  if (is_none() || undefined() != nullptr) return false;
  if (const auto x = number()) return *x != 0;
  if (const Text* string = text()) return !string->bytes.empty();
  if (const Sequence* list = sequence()) {
    return list->kind == SequenceKind::kGenerator || !list->items.empty();
  }
  if (const Dict* map = dict()) return !map->entries.empty();
  return true;
}

bool Value::callable() const {
  return function() != nullptr || undefined() != nullptr ||
         (object() != nullptr && object()->callable());
}

bool Value::same_as(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  return std::visit(
      [&other](const auto& mine) {
        using T = std::decay_t<decltype(mine)>;
        const T& theirs = std::get<T>(other.data_);
        if constexpr (std::is_same_v<T, None>) {
          return true;
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Text>>) {
          // Python interns short strings; by value is the answer that templates see most.
          return mine->bytes == theirs->bytes;
        } else {
          return mine == theirs;
        }
      },
      data_);
}

std::string_view Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_float()) return "float";
  if (integer()) return "int";
  if (undefined() != nullptr) return "Undefined";
  if (const Text* string = text()) return string->safe ? "Markup" : "str";
  if (dict() != nullptr) return "dict";
  if (function() != nullptr)
    return function()->self.is_none() ? "function" : "builtin_function_or_method";
  if (object() != nullptr) return object()->type_name();
  switch (sequence()->kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kGroup:
      return "_GroupTuple";
    case SequenceKind::kGenerator:
      return "generator";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kKeys:
      return "dict_keys";
    case SequenceKind::kValues:
      return "dict_values";
    case SequenceKind::kItems:
      return "dict_items";
  }
  return "object";
}

std::string Value::qualified_type_name() const {
  if (is_none()) return "None";
  std::string name(object() != nullptr ? object()->qualified_type_name() : type_name());
  if (name == "Markup") name = "markupsafe.Markup";
  return name + " object";
}

int Value::depth() const {
  if (const Sequence* list = sequence()) return list->depth;
  if (const Dict* map = dict()) return map->depth;
  if (const Function* bound = function()) return bound->self.depth() + 1;
  return 0;
}

bool equals(Budget& budget, const Value& a, const Value& b) {
  budget.charge(Budget::kStep);
  if (const auto x = a.integer(), y = b.integer(); x && y) return *x == *y;
  if (const auto x = a.number(), y = b.number(); x && y) return *x == *y;
  if (a.text() != nullptr && b.text() != nullptr) {
    const std::string& x = a.text()->bytes;
    const std::string& y = b.text()->bytes;
    if (x.size() != y.size()) return false;
    budget.charge(x.size());
    return x == y;
  }
  if (a.undefined() != nullptr && b.undefined() != nullptr) return true;
  if (const Sequence* x = a.sequence(), *y = b.sequence(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    if (x->kind != y->kind && !(x->is_tuple() && y->is_tuple())) return false;
    if (x->kind == SequenceKind::kGenerator || x->items.size() != y->items.size()) return false;
    const Budget::Level level(budget);
    for (size_t i = 0; i < x->items.size(); ++i) {
      if (!equals(budget, x->items[i], y->items[i])) return false;
    }
    return true;
  }
  if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    if (x->entries.size() != y->entries.size()) return false;
    const Budget::Level level(budget);
    for (const auto& [key, value] : x->entries) {
      const Value* other = find(budget, *y, key);
      if (other == nullptr || !equals(budget, value, *other)) return false;
    }
    return true;
  }
  return a.same_as(b);
}

const Value* find(Budget& budget, const Dict& dict, const Value& key) {
  for (const auto& [name, value] : dict.entries) {
    if (equals(budget, name, key)) return &value;
  }
  return nullptr;
}

const Value* find(Budget& budget, const Dict& dict, std::string_view key) {
  for (const auto& [name, value] : dict.entries) {
    budget.charge(Budget::kStep);
    if (name.text() != nullptr && name.text()->bytes == key) return &value;
  }
  return nullptr;
}

void insert(Budget& budget, std::vector<std::pair<Value, Value>>& entries, Value key, Value value) {
  for (auto& [name, old] : entries) {
    if (!equals(budget, name, key)) continue;
    old = std::move(value);
    return;
  }
  budget.charge(2 * Budget::kElement);
  entries.emplace_back(std::move(key), std::move(value));
}

}  // namespace phidias::jinja
