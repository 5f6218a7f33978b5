// How a template fails: the name and words of the exception that Jinja or Python would raise.
//
// Inside this folder a failure is thrown, since any expression may fail at any depth, as in the
// language itself. Template::parse() and Template::render() catch it: nothing is thrown to their
// callers.
#pragma once

#include <string>
#include <utility>

namespace phidias::jinja {

struct Failure {
  std::string type;          // "TypeError", "UndefinedError", "TemplateSyntaxError", ...
  std::string message;       // as Python words it
  bool by_template = false;  // the template itself refused, with raise_exception()
  int line = 0;              // of the template, counted from 1; 0 where unknown
};

[[noreturn]] inline void fail(std::string type, std::string message) {
  throw Failure{std::move(type), std::move(message)};
}

[[noreturn]] inline void fail_type(std::string message) { fail("TypeError", std::move(message)); }
[[noreturn]] inline void fail_value(std::string message) { fail("ValueError", std::move(message)); }

}  // namespace phidias::jinja
