#include "tools/train/report/training_summary.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/ids/table.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"

namespace tessera {

std::string LossText(double loss, absl::string_view symbol) {
  if (std::isnan(loss)) return "nan";  // printf may write "-nan"
  if (symbol.empty()) return absl::StrFormat("%.4f", loss);
  return absl::StrFormat("%.4f (%.3f bits per %s)", loss, loss / std::log(2.0), symbol);
}

void TrainingSummary::AddStep(int64_t units, double seconds) {
  ++steps_;
  units_ += units;
  step_seconds_ += seconds;
}

void TrainingSummary::AddEvaluation(int64_t step, double loss) {
  last_ = {step, loss};
  if (!best_.has_value() || loss < best_->loss || std::isnan(best_->loss)) best_ = last_;
}

void TrainingSummary::AddTimes(const Program& program,
                               const Table<InstructionId, TimeSpan>& times) {
  const Overlap overlap = OverlapOf(program, times);
  for (const InstructionId i : times.ids()) {
    const Instruction& instruction = program.instructions[i];
    operator_seconds_[program.OperationOf(instruction)] +=
        program.Communicates(instruction) ? overlap.exposed_seconds[i] : times[i].seconds();
  }
}

std::string TrainingSummary::OperatorLine() const {
  constexpr size_t kShown = 6;
  std::vector<std::pair<double, std::string>> classes;
  double total = 0;
  for (const auto& [name, seconds] : operator_seconds_) {
    classes.emplace_back(seconds, name);
    total += seconds;
  }
  if (total == 0) return "";
  std::sort(classes.rbegin(), classes.rend());
  std::string line = "time by operator:";
  double shown = 0;
  for (size_t i = 0; i < std::min(kShown, classes.size()); ++i) {
    absl::StrAppendFormat(&line, "%s %s %.1f%%", i > 0 ? "," : "", classes[i].second,
                          100.0 * classes[i].first / total);
    shown += classes[i].first;
  }
  if (classes.size() > kShown) {
    absl::StrAppendFormat(&line, ", other %.1f%%", 100.0 * (total - shown) / total);
  }
  return absl::StrCat(line, "\n");
}

std::string TrainingSummary::Text(double seconds) const {
  std::string text =
      absl::StrCat(Counted(steps_, "step"), ", ", FormatCount(static_cast<double>(units_)), " ",
                   unit_, "s in ", FormatSeconds(seconds));
  if (step_seconds_ > 0) {
    absl::StrAppend(&text, "; mean ", FormatCount(static_cast<double>(units_) / step_seconds_), " ",
                    unit_, "s/s in steps");
  }
  text += "\n";
  if (last_.has_value()) {
    absl::StrAppend(&text, "eval_loss ", LossText(last_->loss, symbol_), " at step ", last_->step);
    if (best_->step == last_->step) {
      text += ", the best\n";
    } else {
      absl::StrAppend(&text, "; the best was ", LossText(best_->loss, symbol_), " at step ",
                      best_->step, "\n");
    }
  }
  return text + OperatorLine();
}

}  // namespace tessera
