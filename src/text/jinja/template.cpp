#include "text/jinja/template.h"

#include "base/utf8.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"

namespace phidias::jinja {
namespace {

Value from_json(Runtime& runtime, const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(Integer{json.get<int64_t>()});
    case Json::value_t::number_unsigned:
      return Value(Integer{json.get<uint64_t>()});
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return runtime.text(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(from_json(runtime, item));
      return runtime.list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [key, value] : json.items()) {
        entries.emplace_back(runtime.text(key), from_json(runtime, value));
      }
      return runtime.dict(std::move(entries));
    }
    default:
      return Value();
  }
}

}  // namespace

std::variant<std::unique_ptr<const Template>, Failure> Template::parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return Failure{"TemplateSyntaxError",
                   "the template is longer than " + std::to_string(kMaxSourceBytes) + " bytes",
                   false, 1};
  }
  if (!is_valid_utf8(source))
    return Failure{"TemplateSyntaxError", "the template is not UTF-8", false, 1};
  try {
    return std::unique_ptr<const Template>(
        new Template(parse_template(normalize_newlines(source))));
  } catch (Failure& failure) {
    return std::move(failure);
  }
}

std::variant<std::string, Failure> Template::render(const Json& variables) const {
  Runtime runtime;
  Interpreter interpreter(runtime);
  try {
    std::vector<std::pair<std::string, Value>> context;
    for (const auto& [name, value] : variables.items()) {
      context.emplace_back(name, from_json(runtime, value));
    }
    return interpreter.run(body_, context);
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = interpreter.line();
    return std::move(failure);
  }
}

}  // namespace phidias::jinja
