#include "phidias/options.h"

#include <array>
#include <utility>

namespace phidias {
namespace {

constexpr std::array<std::pair<std::string_view, Numerics>, 2> kNumerics{
    {{"exact", Numerics::kExact}, {"fast", Numerics::kFast}}};
constexpr std::array<std::pair<std::string_view, RopeSwitch>, 4> kRopeSwitches{
    {{"reprefill", RopeSwitch::kReprefill},
     {"keep", RopeSwitch::kKeep},
     {"short", RopeSwitch::kShort},
     {"long", RopeSwitch::kLong}}};

template <typename T, size_t N>
Result<T> by_name(const std::array<std::pair<std::string_view, T>, N>& names, std::string_view name,
                  const char* option) {
  std::string known;
  for (const auto& [candidate, value] : names) {
    if (candidate == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(candidate);
  }
  return Error{Code::kInvalidArgument,
               "\"" + std::string(name) + "\" is not known; choose one of " + known,
               {{}, {}, option}};
}

template <typename T, size_t N>
std::string_view name_in(const std::array<std::pair<std::string_view, T>, N>& names, T value) {
  for (const auto& [name, candidate] : names) {
    if (candidate == value) return name;
  }
  return {};
}

}  // namespace

Result<Numerics> numerics_from_name(std::string_view name) {
  return by_name(kNumerics, name, "numerics");
}
Result<RopeSwitch> rope_switch_from_name(std::string_view name) {
  return by_name(kRopeSwitches, name, "rope-switch");
}
std::string_view name_of(Numerics numerics) { return name_in(kNumerics, numerics); }
std::string_view name_of(RopeSwitch policy) { return name_in(kRopeSwitches, policy); }

}  // namespace phidias
