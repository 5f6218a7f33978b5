#include "phidias/options.h"

#include "api/names.h"

namespace phidias {
namespace {

constexpr NameTable<Numerics, 2> kNumerics{
    {{"exact", Numerics::kExact}, {"fast", Numerics::kFast}}};
constexpr NameTable<RopeSwitch, 4> kRopeSwitches{{{"reprefill", RopeSwitch::kReprefill},
                                                  {"keep", RopeSwitch::kKeep},
                                                  {"short", RopeSwitch::kShort},
                                                  {"long", RopeSwitch::kLong}}};

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
