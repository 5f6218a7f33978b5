#include "conversion.h"

#include <nlohmann/json.hpp>

#include "command.h"
#include "interrupt.h"
#include "output.h"
#include "terminal/progress_bar.h"

namespace phidias::cli {
namespace {

std::string amount(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

std::string to_text(const std::string& target, const ConversionReport& report) {
  char line[300];
  std::snprintf(line, sizeof line, "%s: %s from %s, %.2f bits a weight, %.1f s\n", target.c_str(),
                amount(report.bytes_after).c_str(), amount(report.bytes_before).c_str(),
                report.bits_per_weight, report.seconds);
  std::string text = line;
  for (const auto& [type, bytes] : report.types) text += "  " + type + " " + amount(bytes) + "\n";
  return text;
}

nlohmann::ordered_json to_json(const std::string& target, const ConversionReport& report) {
  nlohmann::ordered_json types = nlohmann::ordered_json::object();
  for (const auto& [type, bytes] : report.types) types[type] = bytes;
  return {{"file", target},
          {"bytes_before", report.bytes_before},
          {"bytes_after", report.bytes_after},
          {"parameters", report.parameters},
          {"bits_per_weight", report.bits_per_weight},
          {"types", types},
          {"seconds", report.seconds},
          {"notices", report.notices}};
}

}  // namespace

Result<int> run_conversion(const std::string& target, bool json,
                           const std::function<Result<ConversionReport>(
                               std::function<bool(const ConversionProgress&)> progress)>& convert) {
  install_interrupt_handler();
  ProgressBar bar(Terminal::of(2), ProgressBar::Unit::kBytes);
  const auto report = convert([&bar](const ConversionProgress& at) {
    bar.update(at.tensor, at.done, at.total);
    return !interrupted();
  });
  bar.finish();
  if (!report.ok()) {
    if (report.error().code == Code::kCancelled) return kExitInterrupted;
    return report.error();
  }
  for (const std::string& notice : report->notices)
    std::fprintf(stderr, "note: %s\n", notice.c_str());
  print(json ? to_json(target, *report).dump(2) + "\n" : to_text(target, *report));
  return kExitOk;
}

}  // namespace phidias::cli
