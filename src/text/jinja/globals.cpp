// The functions that a template may call.
#include <ctime>

#include "text/jinja/arguments.h"
#include "text/jinja/namespace.h"
#include "text/jinja/native_table.h"
#include "text/jinja/natives.h"
#include "text/jinja/operators.h"

namespace phidias::jinja {
namespace {

// cycler('a', 'b'): next() goes round its values.
class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}

  std::string_view type_name() const override { return "Cycler"; }
  std::string_view qualified_type_name() const override { return "jinja2.utils.Cycler"; }

  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    if (name == "current") return items_[at_];
    if (name == "next") return Value::function(runtime.budget(), "next", next, Value(this));
    if (name == "reset") return Value::function(runtime.budget(), "reset", reset, Value(this));
    return std::nullopt;
  }

 private:
  static Value next(Runtime&, const Value& self, const Arguments& arguments) {
    const Bound none("next", arguments, {});
    auto& cycler = static_cast<Cycler&>(*self.object());
    Value current = cycler.items_[cycler.at_];
    cycler.at_ = (cycler.at_ + 1) % cycler.items_.size();
    return current;
  }

  static Value reset(Runtime&, const Value& self, const Arguments& arguments) {
    const Bound none("reset", arguments, {});
    static_cast<Cycler&>(*self.object()).at_ = 0;
    return Value();
  }

  std::vector<Value> items_;
  size_t at_ = 0;
};

// joiner(', '): gives nothing when first called, then always its separator.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}

  std::string_view type_name() const override { return "Joiner"; }
  std::string_view qualified_type_name() const override { return "jinja2.utils.Joiner"; }
  std::optional<Value> attribute(Runtime&, std::string_view) override { return std::nullopt; }
  bool callable() const override { return true; }

  Value call(Runtime& runtime, const Arguments& arguments) override {
    const Bound none("joiner", arguments, {});
    return std::exchange(used_, true) ? separator_ : runtime.text("");
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value cycler(Runtime& runtime, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("RuntimeError", "at least one item has to be provided");
  return Value(runtime.create<Cycler>(arguments.positional));
}

Value joiner(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  return Value(
      runtime.create<Joiner>(bound.get(0) != nullptr ? bound.value(0) : runtime.text(", ")));
}

Value range(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
  const bool only_stop = bound.get(1) == nullptr;
  const Integer start = only_stop ? 0 : bound.integer(0, 0);
  const Integer stop = bound.integer(only_stop ? 0 : 1, 0);
  const Integer step = bound.integer(2, 1);
  if (step == 0) fail_value("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (Integer at = start; step > 0 ? at < stop : at > stop;) {
    if (items.size() == kMaxRange) {
      fail("OverflowError",
           "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    }
    runtime.budget().charge(Budget::kElement);
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return runtime.list(std::move(items), SequenceKind::kRange);
}

// dict(mapping or pairs, name=value, ...).
std::vector<std::pair<Value, Value>> dict_entries(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    fail_type("dict expected at most 1 argument, got " +
              std::to_string(arguments.positional.size()));
  }
  std::vector<std::pair<Value, Value>> entries;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (const Dict* dict = from.dict()) {
      runtime.budget().charge(dict->entries.size(), 2 * Budget::kElement);
      entries = dict->entries;
    } else {
      for (const Value& item : iterate(runtime, from)) {
        std::vector<Value> pair = iterate(runtime, item);
        if (pair.size() != 2) {
          fail_value("dictionary update sequence element has length " +
                     std::to_string(pair.size()) + "; 2 is required");
        }
        insert(runtime.budget(), entries, pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    insert(runtime.budget(), entries, runtime.text(name), value);
  }
  return entries;
}

Value dict(Runtime& runtime, const Value&, const Arguments& arguments) {
  return runtime.dict(dict_entries(runtime, arguments));
}

Value make_namespace(Runtime& runtime, const Value&, const Arguments& arguments) {
  return Value(runtime.create<Namespace>(dict_entries(runtime, arguments)));
}

Value raise_exception(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw Failure{"TemplateError", runtime.to_text(bound.value(0)), true};
}

Value strftime_now(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string format = bound.text(0).value_or("");
  if (format.empty()) return runtime.text("");
  constexpr size_t kLongest = 4096;
  if (format.size() > kLongest) fail_value("the format of a date is too long");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::string out(kLongest, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &local));
  return runtime.text(std::move(out));
}

constexpr NamedNative kGlobals[] = {
    {"range", range},
    {"dict", dict},
    {"namespace", make_namespace},
    {"cycler", cycler},
    {"joiner", joiner},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

Native find_global(std::string_view name) { return find_native(kGlobals, name); }

}  // namespace phidias::jinja
