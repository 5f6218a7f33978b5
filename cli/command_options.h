// The options that a command declares. A thin face of CLI11, whose headers are many times as long
// as any command: they are read by this one's source and by main.cpp alone.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace phidias::cli {

// One declared option; copies speak of the same one. Each of the setters returns the option.
class Option {
 public:
  Option() = default;  // none: never given
  explicit Option(CLI::Option* option) : option_(option) {}

  bool declared() const { return option_ != nullptr; }
  // Whether it stood on the command line or in its environment variable. After parsing.
  bool given() const;

  Option required() const;
  // Help shows the target's value at the time of this call.
  Option show_default() const;
  // Also assigns it.
  Option default_value(const std::string& value) const;
  Option environment(const std::string& variable) const;
  Option one_of(const std::vector<std::string>& values) const;
  Option positive() const;
  // Both ends are allowed. Number: int, unsigned, uint64_t, double; the option's own kind.
  template <class Number>
  Option in_range(Number lowest, Number highest) const;
  // For lists: each time it is given it takes one value; what follows is not taken for more.
  Option one_at_a_time() const;
  Option separated_by(char delimiter) const;
  // Wrong usage: this one together with the other, or without it. No effect where there is no
  // other.
  Option excludes(Option other) const;
  Option needs(Option other) const;

 private:
  CLI::Option* option_ = nullptr;
};

// Where a command declares its options, or one group of them. The targets are written by parsing
// and must live until then.
class CommandOptions {
 public:
  explicit CommandOptions(CLI::App& app) : app_(&app) {}

  // `names`: "-m,--model", or without dashes a positional argument. Target: a type of the list at
  // the end of command_options.cpp.
  template <class Target>
  Option add_option(const std::string& names, Target& target, const std::string& help);
  Option add_flag(const std::string& names, bool& target, const std::string& help);
  CommandOptions add_group(const std::string& name, const std::string& help);
  // Of a group: how many of its options must be given.
  void require(size_t fewest, size_t most);
  // Below the options in help.
  void footer(const std::string& text);

 private:
  CLI::App* app_;
};

}  // namespace phidias::cli
