// Any text as a chat template: parsing and rendering end, with a text or a failure, and twice with
// the same.
#include <cstdlib>
#include <string_view>

#include "text/jinja/template.h"

namespace {

const phidias::Json& variables() {
  static const phidias::Json kVariables = {
      {"messages",
       {{{"role", "system"}, {"content", " Be terse. "}},
        {{"role", "user"}, {"content", "Grüße, 世界 \U0001F5FC"}},
        {{"role", "assistant"},
         {"content", nullptr},
         {"tool_calls",
          {{{"name", "f"},
            {"arguments", {{"b", 1}, {"a", {1, 2.5, nullptr, true, "<&>'\""}}}}}}}}}},
      {"tools",
       {{{"type", "function"},
         {"function", {{"name", "add"}, {"parameters", phidias::Json::object()}}}}}},
      {"add_generation_prompt", true},
      {"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"n", 7},
      {"f", 2.5}};
  return kVariables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = phidias::jinja::Template::parse(source);
  if (parsed.index() != 0) return 0;
  const auto first = std::get<0>(parsed)->render(variables());
  if (source.find("strftime_now") != source.npos) return 0;
  const auto second = std::get<0>(parsed)->render(variables());
  if (first.index() != second.index()) std::abort();
  if (first.index() == 0 && std::get<0>(first) != std::get<0>(second)) std::abort();
  return 0;
}
