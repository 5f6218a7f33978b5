#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/letter_case.h"
#include "text/jinja/native_table.h"
#include "text/jinja/operators.h"
#include "text/jinja/utf8.h"

namespace phidias::jinja {
namespace {

// What filters sort and compare by: an attribute, or several with commas between them, without
// regard to case unless they ask for it.
class Key {
 public:
  Key(Runtime& runtime, const Value& attribute, bool case_sensitive)
      : runtime_(runtime), case_sensitive_(case_sensitive) {
    const Text* names = attribute.text();
    if (names == nullptr) {
      paths_.push_back(attribute);
      return;
    }
    for (size_t at = 0; at <= names->bytes.size();) {
      const size_t comma = std::min(names->bytes.find(',', at), names->bytes.size());
      paths_.push_back(runtime.text(names->bytes.substr(at, comma - at)));
      at = comma + 1;
    }
  }

  Value of(const Value& item, const Value& fallback = Value()) const {
    if (paths_.size() == 1) return part(item, paths_[0], fallback);
    std::vector<Value> parts;
    for (const Value& path : paths_) parts.push_back(part(item, path, fallback));
    return runtime_.list(std::move(parts), SequenceKind::kTuple);
  }

 private:
  Value part(const Value& item, const Value& path, const Value& fallback) const {
    Value value = nested_attribute(runtime_, item, path);
    if (value.undefined() != nullptr && !fallback.is_none()) value = fallback;
    if (case_sensitive_ || value.text() == nullptr) return value;
    return runtime_.text(lower(value.text()->bytes));
  }

  Runtime& runtime_;
  bool case_sensitive_;
  std::vector<Value> paths_;
};

using Keyed = std::pair<Value, Value>;  // key, item

std::vector<Keyed> sorted_by(Runtime& runtime, const std::vector<Value>& items, const Key& key,
                             bool reverse, const Value& fallback = Value()) {
  std::vector<Keyed> keyed;
  for (const Value& item : items) keyed.emplace_back(key.of(item, fallback), item);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return compare(runtime, ComparisonOperator::kLess, reverse ? b.first : a.first,
                   reverse ? a.first : b.first);
  });
  return keyed;
}

std::vector<Value> items_of(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.second));
  return items;
}

std::vector<Value> pairs_of(Runtime& runtime, const Dict& dict) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict.entries) {
    pairs.push_back(runtime.list({key, value}, SequenceKind::kTuple));
  }
  return pairs;
}

Value first(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("first", arguments, {});
  const std::vector<Value> items = iterate(runtime, self);
  return items.empty() ? runtime.undefined("No first item, sequence was empty.") : items.front();
}

Value last(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("last", arguments, {});
  const bool lazy = self.sequence() != nullptr && self.sequence()->kind == SequenceKind::kGenerator;
  if (lazy || !is_iterable(self)) {
    fail_type("'" + std::string(self.type_name()) + "' object is not reversible");
  }
  const std::vector<Value> items = iterate(runtime, self);
  return items.empty() ? runtime.undefined("No last item, sequence was empty.") : items.back();
}

Value join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  const std::string separator = bound.get(0) != nullptr ? runtime.to_text(bound.value(0)) : "";
  std::string out;
  bool is_first = true;
  for (const Value& item : iterate(runtime, self)) {
    runtime.budget().charge(separator.size() + Budget::kStep);
    if (!is_first) out += separator;
    is_first = false;
    append_text(runtime.budget(), nested_attribute(runtime, item, bound.value(1)), out);
  }
  return runtime.text(std::move(out));
}

Value list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("list", arguments, {});
  return runtime.list(iterate(runtime, self));
}

Value count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("length", arguments, {});
  return Value::from_size(length(runtime, self));
}

Value reverse(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("reverse", arguments, {});
  if (!is_iterable(self)) fail("FilterArgumentError", "argument must be iterable");
  std::vector<Value> items = iterate(runtime, self);
  std::reverse(items.begin(), items.end());
  if (self.text() == nullptr) return runtime.list(std::move(items), SequenceKind::kGenerator);
  std::string out;
  for (const Value& character : items) out += character.text()->bytes;
  return runtime.text(std::move(out));
}

Value sort(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const Key key(runtime, bound.value(2), bound.truth(1));
  return runtime.list(items_of(sorted_by(runtime, iterate(runtime, self), key, bound.truth(0))));
}

Value dictsort(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.text(1).value_or("key");
  if (by != "key" && by != "value") {
    fail("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
  }
  if (self.undefined() != nullptr) fail_undefined(*self.undefined());
  if (self.dict() == nullptr) {
    fail("AttributeError",
         "'" + std::string(self.type_name()) + "' object has no attribute 'items'");
  }
  const Key key(runtime, Value(Integer{by == "key" ? 0 : 1}), bound.truth(0));
  return runtime.list(
      items_of(sorted_by(runtime, pairs_of(runtime, *self.dict()), key, bound.truth(2))));
}

Value groupby(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const Key key(runtime, bound.value(0), bound.truth(2));
  const Key exact(runtime, bound.value(0), true);
  const std::vector<Keyed> keyed =
      sorted_by(runtime, iterate(runtime, self), key, false, bound.value(1));
  std::vector<Value> groups;
  for (size_t at = 0; at < keyed.size();) {
    const size_t start = at;
    std::vector<Value> members;
    while (at < keyed.size() && equals(runtime.budget(), keyed[start].first, keyed[at].first)) {
      members.push_back(keyed[at++].second);
    }
    if (members.empty()) members.push_back(keyed[at++].second);  // NaN is unequal to itself
    const Value name = exact.of(members[0], bound.value(1));
    groups.push_back(runtime.list({name, runtime.list(std::move(members))}, SequenceKind::kGroup));
  }
  return runtime.list(std::move(groups));
}

Value unique(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  const Key key(runtime, bound.value(1), bound.truth(0));
  std::vector<Value> seen;
  std::vector<Value> items;
  for (const Value& item : iterate(runtime, self)) {
    Value mine = key.of(item);
    require_hashable(mine);
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const Value& other) {
      return equals(runtime.budget(), mine, other);
    });
    if (known) continue;
    seen.push_back(std::move(mine));
    items.push_back(item);
  }
  return runtime.list(std::move(items), SequenceKind::kGenerator);
}

Value extreme(Runtime& runtime, const Value& self, const Arguments& arguments,
              ComparisonOperator op) {
  const Bound bound("min", arguments, {"case_sensitive", "attribute"});
  const Key key(runtime, bound.value(1), bound.truth(0));
  const std::vector<Value> items = iterate(runtime, self);
  if (items.empty()) return runtime.undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = key.of(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value mine = key.of(items[i]);
    if (!compare(runtime, op, mine, best_key)) continue;
    best = i;
    best_key = std::move(mine);
  }
  return items[best];
}

Value smallest(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return extreme(runtime, self, arguments, ComparisonOperator::kLess);
}

Value largest(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return extreme(runtime, self, arguments, ComparisonOperator::kGreater);
}

Value sum(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  Value total = bound.get(1) != nullptr ? bound.value(1) : Value(Integer{0});
  for (const Value& item : iterate(runtime, self)) {
    total = binary(runtime, BinaryOperator::kAdd, total,
                   nested_attribute(runtime, item, bound.value(0)));
  }
  return total;
}

Value map(Runtime& runtime, const Value& self, const Arguments& arguments) {
  std::vector<Value> mapped;
  if (!self.truthy()) return runtime.list({}, SequenceKind::kGenerator);
  if (arguments.positional.empty()) {
    const Bound bound("map", arguments, {"attribute", "default"});
    if (bound.get(0) == nullptr) fail("FilterArgumentError", "map requires a filter argument");
    for (const Value& item : iterate(runtime, self)) {
      Value value = nested_attribute(runtime, item, bound.value(0));
      const bool missing = value.undefined() != nullptr && bound.given(1);
      mapped.push_back(missing ? bound.value(1) : std::move(value));
    }
  } else {
    const Native filter = runtime.filter(runtime.to_text(arguments.positional[0]));
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    for (const Value& item : iterate(runtime, self)) {
      runtime.budget().charge(Budget::kStep);
      mapped.push_back(filter(runtime, item, rest));
    }
  }
  return runtime.list(std::move(mapped), SequenceKind::kGenerator);
}

// select, reject, selectattr, rejectattr: the items whose attribute passes a test, or is true.
template <bool kKeepPassing, bool kByAttribute>
Value select(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (!self.truthy()) return runtime.list({}, SequenceKind::kGenerator);
  Arguments rest = arguments;
  const auto take_first = [&rest] {
    Value value = std::move(rest.positional.front());
    rest.positional.erase(rest.positional.begin());
    return value;
  };
  if (kByAttribute && rest.positional.empty()) {
    fail("FilterArgumentError", "Missing parameter for attribute name");
  }
  Value attribute;
  if (kByAttribute) attribute = take_first();
  Native test = nullptr;
  if (!rest.positional.empty()) test = runtime.test(runtime.to_text(take_first()));
  std::vector<Value> selected;
  for (const Value& item : iterate(runtime, self)) {
    runtime.budget().charge(Budget::kStep);
    const Value subject = nested_attribute(runtime, item, attribute);
    const Value verdict = test != nullptr ? test(runtime, subject, rest) : subject;
    if (verdict.truthy() == kKeepPassing) selected.push_back(item);
  }
  return runtime.list(std::move(selected), SequenceKind::kGenerator);
}

Value batch(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const Integer size = bound.integer(0, 1);
  std::vector<Value> batches;
  std::vector<Value> row;
  for (const Value& item : iterate(runtime, self)) {
    if (static_cast<Integer>(row.size()) == size) {
      batches.push_back(runtime.list(std::exchange(row, {})));
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    while (bound.given(1) && static_cast<Integer>(row.size()) < size) {
      runtime.budget().charge(Budget::kElement);
      row.push_back(bound.value(1));
    }
    batches.push_back(runtime.list(std::move(row)));
  }
  return runtime.list(std::move(batches), SequenceKind::kGenerator);
}

Value slice_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  const std::vector<Value> items = iterate(runtime, self);
  const Integer asked = bound.integer(0, 1);
  if (asked == 0) fail("ZeroDivisionError", "integer division or modulo by zero");
  std::vector<Value> slices;
  const auto count = static_cast<size_t>(std::clamp<Integer>(asked, 0, Integer{kMaxOutputBytes}));
  for (size_t i = 0, start = 0; i < count; ++i) {
    const bool longer = i < items.size() % count;
    const size_t end = start + items.size() / count + (longer ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(start),
                            items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound.given(1) && !longer) part.push_back(bound.value(1));
    slices.push_back(runtime.list(std::move(part)));
    start = end;
  }
  return runtime.list(std::move(slices), SequenceKind::kGenerator);
}

Value items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound none("items", arguments, {});
  if (self.undefined() != nullptr) return runtime.list({}, SequenceKind::kGenerator);
  if (self.dict() == nullptr) fail_type("Can only get item pairs from a mapping.");
  return runtime.list(pairs_of(runtime, *self.dict()), SequenceKind::kGenerator);
}

Value default_value(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  if (self.undefined() == nullptr && !(bound.truth(1) && !self.truthy())) return self;
  return bound.get(0) != nullptr ? bound.value(0) : runtime.text("");
}

// Attributes only, where object.name also finds the entries of a dict.
Value attr(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  if (self.undefined() != nullptr) fail_undefined(*self.undefined());
  const std::string name = runtime.to_text(bound.value(0));
  if (auto found = own_attribute(runtime, self, name)) return *std::move(found);
  return runtime.undefined("'" + self.qualified_type_name() + "' has no attribute '" + name + "'");
}

constexpr NamedNative kFilters[] = {
    {"first", first},
    {"last", last},
    {"join", join},
    {"list", list},
    {"length", count},
    {"count", count},
    {"reverse", reverse},
    {"sort", sort},
    {"dictsort", dictsort},
    {"groupby", groupby},
    {"unique", unique},
    {"min", smallest},
    {"max", largest},
    {"sum", sum},
    {"map", map},
    {"select", select<true, false>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<false, true>},
    {"batch", batch},
    {"slice", slice_filter},
    {"items", items},
    {"default", default_value},
    {"d", default_value},
    {"attr", attr},
};

}  // namespace

Native find_sequence_filter(std::string_view name) { return find_native(kFilters, name); }

}  // namespace phidias::jinja
