#include "terminal/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "terminal/text.h"

namespace phidias::cli {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr double kMemory = 3.0;  // seconds over which the rate is averaged

std::string amount(uint64_t value, ProgressBar::Unit unit) {
  return unit == ProgressBar::Unit::kBytes ? format_bytes(value) : fmt::format("{}", value);
}

std::string drawn_bar(double share, size_t width) {
  const auto filled = static_cast<size_t>(share * static_cast<double>(width));
  std::string out;
  for (size_t i = 0; i < width; ++i) out += i < filled ? "━" : "╌";
  return out;
}

}  // namespace

ProgressBar::ProgressBar(const Terminal& terminal, Unit unit)
    : ProgressBar(terminal, unit,
                  {[](std::string_view text) {
                     std::fwrite(text.data(), 1, text.size(), stderr);
                     std::fflush(stderr);
                   },
                   [] { return Clock::now(); }}) {}

ProgressBar::ProgressBar(const Terminal& terminal, Unit unit, Seams seams)
    : terminal_(terminal), unit_(unit), seams_(std::move(seams)) {}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::update(std::string_view label, uint64_t done, uint64_t total) {
  if (!terminal_.interactive) return;
  const Clock::time_point now = seams_.now();
  if (started_ && now - last_draw_ < kInterval && !(total > 0 && done >= total)) return;
  const double per_second = rate(done, now);
  // One column stays free: a full line would wrap on some terminals.
  const std::string text =
      line(label, done, total, per_second, unit_, std::max<size_t>(terminal_.width, 2) - 1);
  seams_.write("\r\x1b[2K" + text);
  drawn_ = true;
}

double ProgressBar::rate(uint64_t done, Clock::time_point now) {
  if (started_) {
    const double seconds = std::chrono::duration<double>(now - last_draw_).count();
    if (seconds > 0 && done >= last_done_) {
      const double current = static_cast<double>(done - last_done_) / seconds;
      const double weight = rate_ == 0 ? 1 : 1 - std::exp(-seconds / kMemory);
      rate_ += weight * (current - rate_);
    }
  }
  started_ = true;
  last_draw_ = now;
  last_done_ = done;
  return rate_;
}

void ProgressBar::finish() {
  if (drawn_) seams_.write("\r\x1b[2K");
  drawn_ = false;
}

std::string ProgressBar::line(std::string_view label, uint64_t done, uint64_t total, double rate,
                              Unit unit, size_t width) {
  done = total > 0 ? std::min(done, total) : done;
  std::string numbers;
  if (total > 0) {
    const double share = static_cast<double>(done) / static_cast<double>(total);
    numbers = fmt::format("{:3.0f} %  {} of {}", std::floor(100 * share), amount(done, unit),
                          amount(total, unit));
  } else {
    numbers = amount(done, unit);
  }
  if (rate > 0) {
    const double shown = rate < 1e18 ? rate : 1e18;
    numbers += unit == Unit::kBytes
                   ? fmt::format("  {}/s", format_bytes(static_cast<uint64_t>(shown)))
                   : fmt::format("  {:.1f}/s", shown);
    if (total > done)
      numbers += "  " + format_duration(static_cast<double>(total - done) / rate) + " left";
  }

  // The numbers come first, then the label, then the bar: what there is room for.
  constexpr size_t kMinLabel = 8;
  constexpr size_t kMinBar = 8;
  constexpr size_t kMaxBar = 30;
  const size_t number_width = display_width(numbers);
  if (number_width + 2 + kMinLabel > width) return fit_width(numbers, width);
  size_t room = width - number_width - 2;
  const size_t label_width = std::min(display_width(label), room);
  room -= label_width;
  const bool bar = total > 0 && room >= kMinBar + 2;
  std::string out = pad_width(fit_width(label, label_width), label_width) + "  ";
  if (bar) {
    const double share = static_cast<double>(done) / static_cast<double>(total);
    out += drawn_bar(share, std::min(room - 2, kMaxBar)) + "  ";
  }
  return out + numbers;
}

}  // namespace phidias::cli
