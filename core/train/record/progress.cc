#include "core/train/record/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/text/human_units.h"

namespace tessera {
namespace {

constexpr double kSecondsBetweenLines = 0.4;
constexpr double kSecondsBetweenBars = 0.1;
constexpr int kLeastBarWidth = 10;

// Formats a number of any size in a few digits.
std::string Number(double value) {
  if (std::isnan(value)) return absl::StrFormat("%9s", "nan");  // printf may write "-nan"
  const double magnitude = std::fabs(value);
  if (magnitude != 0 && (magnitude < 1e-3 || magnitude >= 1e5)) {
    return absl::StrFormat("%9.3e", value);
  }
  return absl::StrFormat("%9.4f", value);
}

// Returns amount / seconds, or 0 if the time is not known.
double RatioOrZero(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

}  // namespace

std::string StepLine(const StepReport& report, const StepScale& scale, int width) {
  const int digits = static_cast<int>(absl::StrCat(scale.total_steps).size());
  const double milliseconds = report.seconds * 1e3;
  const double rate = RatioOrZero(static_cast<double>(scale.units), report.seconds);
  struct Column {
    std::string text;
    int dispensability;  // the column with the highest is left out first
  };
  std::vector<Column> columns = {
      {absl::StrFormat("step %*d/%d", digits, report.step, scale.total_steps), 0},
      {absl::StrCat("loss ", Number(report.loss)), 1},
      {absl::StrCat("grad_norm ", Number(report.grad_norm)), 5},
      {absl::StrFormat("lr %.2e", report.lr), 6},
      {absl::StrFormat("%8.*f ms", milliseconds < 100 ? 2 : 0, milliseconds), 3},
      {absl::StrFormat("%6s %ss/s", FormatCount(rate), scale.unit), 2},
      {absl::StrFormat("MFU %5.1f%%", 100 * RatioOrZero(scale.best_seconds, report.seconds)), 4},
      {absl::StrFormat("%5.1f%% of limit", 100 * RatioOrZero(scale.limit_seconds, report.seconds)),
       7},
      {FormatBytes(scale.memory_bytes), 8},
  };
  const auto joined = [&columns] {
    return absl::StrJoin(columns, " | ", [](std::string* out, const Column& column) {
      absl::StrAppend(out, column.text);
    });
  };
  std::string line = joined();
  while (width > 0 && static_cast<int>(line.size()) > width && columns.size() > 1) {
    columns.erase(std::max_element(
        columns.begin(), columns.end(),
        [](const Column& a, const Column& b) { return a.dispensability < b.dispensability; }));
    line = joined();
  }
  return line;
}

std::string ProgressBar(const StepReport& report, const StepScale& scale, double seconds_left,
                        int width) {
  const double share = std::clamp(
      static_cast<double>(report.step) / static_cast<double>(scale.total_steps), 0.0, 1.0);
  const std::string left =
      seconds_left < 59.5 ? absl::StrFormat("%.0f s", seconds_left) : FormatSeconds(seconds_left);
  const std::string text = absl::StrFormat(" %3.0f%%  step %d/%d  loss %s  %s left",
                                           std::floor(100 * share), report.step, scale.total_steps,
                                           absl::StripAsciiWhitespace(Number(report.loss)), left);
  const int bar_width = std::max(kLeastBarWidth, width - static_cast<int>(text.size()) - 2);
  const int filled = static_cast<int>(share * bar_width);
  std::string bar(filled, '=');
  if (filled < bar_width) bar += '>';
  bar.resize(bar_width, ' ');
  return absl::StrCat("[", bar, "]", text);
}

Progress::Progress(std::FILE* out, ProgressOptions options, StepScale scale, Clock clock)
    : out_(out),
      options_(std::move(options)),
      scale_(std::move(scale)),
      clock_(std::move(clock)),
      start_(clock_()) {}

Progress::~Progress() { ClearBar(); }

// The interval depends on the mean time from one step to the next.
int64_t Progress::Interval() const {
  const double mean = (clock_() - start_) / static_cast<double>(std::max<int64_t>(1, reported_));
  for (int64_t power = 1; power < int64_t{1'000'000'000'000}; power *= 10) {
    for (int64_t factor : {1, 2, 5}) {
      if (static_cast<double>(power * factor) * mean >= kSecondsBetweenLines) return power * factor;
    }
  }
  return 1;
}

bool Progress::IsLineDue(int64_t step, double now) const {
  if (step == options_.first_step || step == scale_.total_steps) return true;
  if (options_.log_every > 0) return step % options_.log_every == 0;
  return step % Interval() == 0 && now - last_line_ >= kSecondsBetweenLines / 2;
}

void Progress::Step(const StepReport& report) {
  ++reported_;
  ++steps_since_line_;
  seconds_since_line_ += report.seconds;
  const double now = clock_();
  if (IsLineDue(report.step, now)) {
    StepReport shown = report;
    shown.seconds = seconds_since_line_ / static_cast<double>(steps_since_line_);
    Line(StepLine(shown, scale_, options_.terminal ? options_.width() : 0));
    last_line_ = now;
    seconds_since_line_ = 0;
    steps_since_line_ = 0;
  }
  DrawBar(now, report);
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

void Progress::DrawBar(double now, const StepReport& report) {
  if (!options_.terminal || report.step >= scale_.total_steps) return;
  if (bar_shown_ && now - last_bar_ < kSecondsBetweenBars) return;
  const double seconds_each = (now - start_) / static_cast<double>(reported_);
  const double left = seconds_each * static_cast<double>(scale_.total_steps - report.step);
  // The bar leaves the last column free: writing there would move the cursor to the next line.
  absl::FPrintF(out_, "\r\x1b[K%s", ProgressBar(report, scale_, left, options_.width() - 1));
  std::fflush(out_);
  last_bar_ = now;
  bar_shown_ = true;
}

}  // namespace tessera
