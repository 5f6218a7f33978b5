#include "command_options.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace phidias::cli {

bool Option::given() const { return option_ != nullptr && option_->count() > 0; }

Option Option::required() const {
  option_->required();
  return *this;
}

Option Option::show_default() const {
  option_->capture_default_str();
  return *this;
}

Option Option::default_value(const std::string& value) const {
  option_->default_val(value);
  return *this;
}

Option Option::environment(const std::string& variable) const {
  option_->envname(variable);
  return *this;
}

Option Option::one_of(const std::vector<std::string>& values) const {
  option_->check(CLI::IsMember(values));
  return *this;
}

Option Option::positive() const {
  option_->check(CLI::Validator(
      [](const std::string& value) {
        double number = 0;
        const bool above = CLI::detail::lexical_cast(value, number) && number > 0;
        return above ? std::string() : value + " is not above 0";
      },
      "POSITIVE"));
  return *this;
}

template <class Number>
Option Option::in_range(Number lowest, Number highest) const {
  option_->check(CLI::Range(lowest, highest));
  return *this;
}

Option Option::one_at_a_time() const {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::separated_by(char delimiter) const {
  option_->delimiter(delimiter);
  return *this;
}

Option Option::excludes(Option other) const {
  if (other.option_ != nullptr) option_->excludes(other.option_);
  return *this;
}

Option Option::needs(Option other) const {
  if (other.option_ != nullptr) option_->needs(other.option_);
  return *this;
}

template <class Target>
Option CommandOptions::add_option(const std::string& names, Target& target,
                                  const std::string& help) {
  return Option(app_->add_option(names, target, help));
}

Option CommandOptions::add_flag(const std::string& names, bool& target, const std::string& help) {
  return Option(app_->add_flag(names, target, help));
}

CommandOptions CommandOptions::add_group(const std::string& name, const std::string& help) {
  return CommandOptions(*app_->add_option_group(name, help));
}

void CommandOptions::require(size_t fewest, size_t most) { app_->require_option(fewest, most); }

void CommandOptions::footer(const std::string& text) { app_->footer(text); }

template Option Option::in_range(int, int) const;
template Option Option::in_range(unsigned, unsigned) const;
template Option Option::in_range(uint64_t, uint64_t) const;
template Option Option::in_range(double, double) const;

#define PHIDIAS_TARGET(...)                                                          \
  template Option CommandOptions::add_option(const std::string& names, __VA_ARGS__&, \
                                             const std::string& help)
PHIDIAS_TARGET(std::string);
PHIDIAS_TARGET(std::vector<std::string>);
PHIDIAS_TARGET(uint32_t);
PHIDIAS_TARGET(uint64_t);
PHIDIAS_TARGET(double);
PHIDIAS_TARGET(std::filesystem::path);
PHIDIAS_TARGET(std::optional<int>);
PHIDIAS_TARGET(std::optional<uint32_t>);
PHIDIAS_TARGET(std::optional<double>);
PHIDIAS_TARGET(std::vector<uint32_t>);
#undef PHIDIAS_TARGET

}  // namespace phidias::cli
