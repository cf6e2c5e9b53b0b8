#include "tools/train/run_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/computing_times.h"

namespace tessera {

std::string LossText(double loss, absl::string_view unit) {
  if (std::isnan(loss)) return "nan";  // printf may write "-nan"
  return absl::StrFormat("%.4f (%.3f bits per %s)", loss, loss / std::log(2.0), unit);
}

void RunSummary::AddStep(int64_t tokens, double seconds) {
  ++steps_;
  tokens_ += tokens;
  step_seconds_ += seconds;
}

void RunSummary::AddEvaluation(int64_t step, double loss) {
  last_ = {step, loss};
  if (!best_.has_value() || loss < best_->loss || std::isnan(best_->loss)) best_ = last_;
}

void RunSummary::AddTimes(const Program& program, absl::Span<const InstructionTime> times) {
  std::vector<size_t> order(times.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return times[a].begin_ns < times[b].begin_ns; });
  for (const size_t i : order) {
    if (program.Communicates(program.instructions[i])) continue;
    operator_ns_[program.OperationOf(program.instructions[i])] +=
        times[i].end_ns - times[i].begin_ns;
  }
  const std::vector<InstructionTime> computing = ComputingTimes(program, times);
  auto busy = computing.begin();
  int64_t counted = std::numeric_limits<int64_t>::min();  // all time before this
  for (const size_t i : order) {
    if (!program.Communicates(program.instructions[i])) continue;
    int64_t from = std::max(times[i].begin_ns, counted), idle = 0;
    while (from < times[i].end_ns) {
      while (busy != computing.end() && busy->end_ns <= from) ++busy;
      const int64_t next = busy == computing.end() ? times[i].end_ns : busy->begin_ns;
      idle += std::max<int64_t>(std::min(next, times[i].end_ns) - from, 0);
      if (next >= times[i].end_ns) break;
      from = std::max(from, busy->end_ns);
    }
    counted = std::max(counted, times[i].end_ns);
    operator_ns_[program.OperationOf(program.instructions[i])] += idle;
  }
}

std::string RunSummary::OperatorLine() const {
  constexpr size_t kShown = 6;
  std::vector<std::pair<int64_t, std::string>> classes;
  int64_t total = 0;
  for (const auto& [name, nanoseconds] : operator_ns_) {
    classes.emplace_back(nanoseconds, name);
    total += nanoseconds;
  }
  if (total == 0) return "";
  std::sort(classes.rbegin(), classes.rend());
  std::string line = "time by operator:";
  int64_t shown = 0;
  for (size_t i = 0; i < std::min(kShown, classes.size()); ++i) {
    absl::StrAppendFormat(
        &line, "%s %s %.1f%%", i > 0 ? "," : "", classes[i].second,
        100.0 * static_cast<double>(classes[i].first) / static_cast<double>(total));
    shown += classes[i].first;
  }
  if (classes.size() > kShown) {
    absl::StrAppendFormat(&line, ", other %.1f%%",
                          100.0 * static_cast<double>(total - shown) / static_cast<double>(total));
  }
  return absl::StrCat(line, "\n");
}

std::string RunSummary::Text(double seconds) const {
  std::string text =
      absl::StrCat(Counted(steps_, "step"), ", ", FormatCount(static_cast<double>(tokens_)),
                   " tokens in ", FormatSeconds(seconds));
  if (step_seconds_ > 0) {
    absl::StrAppend(&text, "; mean ", FormatCount(static_cast<double>(tokens_) / step_seconds_),
                    " tokens/s");
  }
  text += "\n";
  if (last_.has_value()) {
    absl::StrAppend(&text, "eval_loss ", LossText(last_->loss, unit_), " at step ", last_->step);
    if (best_->step == last_->step) {
      text += ", the best\n";
    } else {
      absl::StrAppend(&text, "; the best was ", LossText(best_->loss, unit_), " at step ",
                      best_->step, "\n");
    }
  }
  return text + OperatorLine();
}

}  // namespace tessera
