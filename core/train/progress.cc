#include "core/train/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/human_units.h"

namespace tessera {
namespace {

constexpr double kSecondsBetweenLines = 0.4;
constexpr double kSecondsBetweenBars = 0.1;
constexpr int kBarWidth = 30;

// A few digits, whatever the size.
std::string Number(double value) {
  const double magnitude = std::fabs(value);
  if (magnitude != 0 && (magnitude < 1e-3 || magnitude >= 1e5)) {
    return absl::StrFormat("%9.3e", value);
  }
  return absl::StrFormat("%9.4f", value);
}

double Share(double seconds_at_best, double seconds) {
  return seconds > 0 ? seconds_at_best / seconds : 0;
}

}  // namespace

std::string StepLine(const StepReport& report, const StepScale& scale) {
  const int digits = static_cast<int>(absl::StrCat(scale.total_steps).size());
  const double milliseconds = report.seconds * 1e3;
  const double tokens_per_second = Share(static_cast<double>(scale.tokens), report.seconds);
  return absl::StrFormat(
      "step %*d/%d | loss %s | grad_norm %s | lr %.2e | %8.*f ms | %6s tokens/s | MFU %5.1f%% | "
      "%5.1f%% of limit | %s",
      digits, report.step, scale.total_steps, Number(report.loss), Number(report.grad_norm),
      report.lr, milliseconds < 100 ? 2 : 0, milliseconds, FormatCount(tokens_per_second),
      100 * Share(scale.best_seconds, report.seconds),
      100 * Share(scale.limit_seconds, report.seconds), FormatBytes(scale.memory_bytes));
}

std::string ProgressBar(double share, double seconds_left) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth, ' ');
  const std::string left =
      seconds_left < 59.5 ? absl::StrFormat("%.0f s", seconds_left) : FormatSeconds(seconds_left);
  return absl::StrFormat("[%s] %3.0f%%  %s left", bar, std::floor(100 * share), left);
}

Progress::Progress(std::FILE* out, bool terminal, int64_t first_step, StepScale scale, Clock clock)
    : out_(out),
      terminal_(terminal),
      first_step_(first_step),
      scale_(scale),
      clock_(std::move(clock)),
      start_(clock_()) {}

Progress::~Progress() { ClearBar(); }

// The interval depends on the time that steps have taken so far, all that lies between them
// included.
int64_t Progress::Interval() const {
  const double mean = (clock_() - start_) / static_cast<double>(std::max<int64_t>(1, reported_));
  for (int64_t power = 1; power < int64_t{1'000'000'000'000}; power *= 10) {
    for (int64_t factor : {1, 2, 5}) {
      if (static_cast<double>(power * factor) * mean >= kSecondsBetweenLines) return power * factor;
    }
  }
  return 1;
}

void Progress::Step(const StepReport& report) {
  ++reported_;
  ++steps_since_line_;
  seconds_since_line_ += report.seconds;
  const double now = clock_();
  const bool must = report.step == first_step_ || report.step == scale_.total_steps;
  if (must || (report.step % Interval() == 0 && now - last_line_ >= kSecondsBetweenLines / 2)) {
    StepReport shown = report;
    shown.seconds = seconds_since_line_ / static_cast<double>(steps_since_line_);
    Line(StepLine(shown, scale_));
    last_line_ = now;
    seconds_since_line_ = 0;
    steps_since_line_ = 0;
  }
  DrawBar(now, report.step);
}

void Progress::Line(absl::string_view text) {
  ClearBar();
  absl::FPrintF(out_, "%s\n", text);
  std::fflush(out_);
}

void Progress::ClearBar() {
  if (!bar_shown_) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  bar_shown_ = false;
}

void Progress::DrawBar(double now, int64_t step) {
  if (!terminal_ || step >= scale_.total_steps) return;
  if (bar_shown_ && now - last_bar_ < kSecondsBetweenBars) return;
  const double seconds_each = (now - start_) / static_cast<double>(reported_);
  absl::FPrintF(out_, "\r\x1b[K%s",
                ProgressBar(static_cast<double>(step) / static_cast<double>(scale_.total_steps),
                            seconds_each * static_cast<double>(scale_.total_steps - step)));
  std::fflush(out_);
  last_bar_ = now;
  bar_shown_ = true;
}

}  // namespace tessera
