#include "phidias/build.h"

#include <algorithm>

#include "base/cpu.h"
#include "base/thread_pool.h"
#include "kernels/table.h"
#include "model/registry.h"
#include "quant/format.h"

namespace phidias {

BuildInfo build_info() {
  BuildInfo info;
#if defined(__clang__)
  info.compiler = "clang " __clang_version__;
#elif defined(__GNUC__)
  info.compiler = "g++ " __VERSION__;
#endif
#ifdef NDEBUG
  info.build_type = "optimised";
#else
  info.build_type = "with checks";
#endif
  info.cpu = cpu_name();
  info.usable_cores = usable_cores();
  const auto available = available_tables();
  for (const KernelTable* table : compiled_tables()) {
    info.kernels.emplace_back(
        table->name, std::find(available.begin(), available.end(), table) != available.end());
  }
  for (const Variant& variant : variants())
    info.model_types.emplace_back(variant.name, variant.description);
  for (const FormatRow& format : format_rows()) info.formats.emplace_back(format.name);
  return info;
}

}  // namespace phidias
