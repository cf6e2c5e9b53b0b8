#include "tools/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/cost/step_cost.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"

namespace tessera {
namespace {

constexpr char kNothing[] = "-";

// A cell for the estimate, and one for the measurement.
struct Cells {
  std::string estimated = kNothing;
  std::string measured = kNothing;
};

struct Row {
  std::string label;
  std::vector<Cells> cells;  // by strategy
};

using CellsOf = std::function<Cells(const StrategyResult& result)>;

class Rows {
 public:
  explicit Rows(const Comparison& comparison) : comparison_(comparison) {}

  void Add(const std::string& label, const CellsOf& cells_of) {
    Row row = {label, {}};
    for (const StrategyResult& result : comparison_.strategies) {
      row.cells.push_back(cells_of(result));
    }
    rows_.push_back(std::move(row));
  }

  // Returns the table; each column is as wide as its widest cell.
  std::string ToString() const {
    size_t label_width = 0;
    for (const Row& row : rows_) label_width = std::max(label_width, row.label.size());
    // The head has the labels, the remarks if there are any, and the titles of the two columns.
    std::vector<std::string> lines(3, std::string(label_width, ' '));
    for (const Row& row : rows_) {
      lines.push_back(absl::StrCat(row.label, std::string(label_width - row.label.size(), ' ')));
    }
    const std::string measured_title = comparison_.on_loopback ? "measured*" : "measured";
    bool has_remarks = false;
    for (size_t s = 0; s < comparison_.strategies.size(); ++s) {
      size_t estimated = 9, measured = measured_title.size();
      for (const Row& row : rows_) {
        estimated = std::max(estimated, row.cells[s].estimated.size());
        measured = std::max(measured, row.cells[s].measured.size());
      }
      const StrategyResult& result = comparison_.strategies[s];
      const size_t widest = std::max(result.label.size(), result.remark.size());
      if (widest > estimated + 2 + measured) measured = widest - estimated - 2;
      const int width = static_cast<int>(estimated + 2 + measured);
      absl::StrAppendFormat(&lines[0], "   %*s", width, result.label);
      absl::StrAppendFormat(&lines[1], "   %*s", width, result.remark);
      has_remarks = has_remarks || !result.remark.empty();
      absl::StrAppendFormat(&lines[2], "   %*s  %*s", estimated, "estimated", measured,
                            measured_title);
      for (size_t r = 0; r < rows_.size(); ++r) {
        const Cells& cells = rows_[r].cells[s];
        absl::StrAppendFormat(&lines[3 + r], "   %*s  %*s", estimated, cells.estimated, measured,
                              cells.measured);
      }
    }
    if (!has_remarks) lines.erase(lines.begin() + 1);
    return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
  }

 private:
  const Comparison& comparison_;
  std::vector<Row> rows_;
};

double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

std::string Seconds(double seconds) { return seconds > 0 ? FormatSeconds(seconds) : "0 s"; }

std::string TokenRate(const Comparison& comparison, double seconds) {
  return FormatCount(static_cast<double>(comparison.tokens) / seconds);
}

// Returns whether the strategy's estimated times are those of the same work as the others'.
bool IsEstimated(const StrategyResult& result) {
  return result.estimated.step_seconds() > 0 && result.outcome != Outcome::kDiffers &&
         result.outcome != Outcome::kFailed;
}

bool HasRun(const StrategyResult& result) { return result.outcome == Outcome::kRan; }

// Return `text`, that of a time, if the strategy has one that can be compared, else that for no
// value. Measured calls `text` only then.
std::string Estimated(const StrategyResult& result, const std::string& text) {
  return IsEstimated(result) ? text : kNothing;
}
std::string Measured(const StrategyResult& result,
                     const std::function<std::string(const StrategyResult&)>& text) {
  return HasRun(result) ? text(result) : kNothing;
}

double CommunicationSeconds(const StepCost& cost) {
  double seconds = 0;
  for (const StepCost::Collective& collective : cost.collectives()) seconds += collective.seconds();
  return seconds;
}

// Adds a row with each strategy's step time over that of `base`, estimated and measured.
void AddStepTimeRatios(const StrategyResult& base, Rows* rows) {
  rows->Add(absl::StrCat("  over that of ", base.label), [&base](const StrategyResult& each) {
    const double estimated = each.estimated.step_seconds() / base.estimated.step_seconds();
    return Cells{IsEstimated(base) ? Estimated(each, absl::StrFormat("%.3f", estimated)) : kNothing,
                 Measured(each, [&base](const StrategyResult& ran) {
                   return absl::StrFormat("%.3f",
                                          Median(ran.step_seconds) / Median(base.step_seconds));
                 })};
  });
}

// Adds a row of measured times.
void AddMeasuredRow(const std::string& label, std::function<double(const StrategyResult&)> seconds,
                    Rows* rows) {
  rows->Add(label, [seconds](const StrategyResult& each) {
    return Cells{kNothing,
                 Measured(each, [&](const StrategyResult& ran) { return Seconds(seconds(ran)); })};
  });
}

// Adds a row of times, each estimated and measured.
void AddTimeRow(const std::string& label, const std::function<double(const StepCost&)>& estimated,
                std::function<double(const StrategyResult&)> measured, Rows* rows) {
  rows->Add(label, [estimated, measured](const StrategyResult& each) {
    return Cells{Estimated(each, Seconds(estimated(each.estimated))),
                 Measured(each, [&](const StrategyResult& ran) { return Seconds(measured(ran)); })};
  });
}

// Returns the strategy that the others are compared with: the first one that ran.
const StrategyResult* BaseOf(const Comparison& comparison) {
  const auto found = absl::c_find_if(comparison.strategies, HasRun);
  return found == comparison.strategies.end() ? nullptr : &*found;
}

void AddTimes(const Comparison& comparison, Rows* rows) {
  AddTimeRow(
      "step time, median", [](const StepCost& cost) { return cost.step_seconds(); },
      [](const StrategyResult& each) { return Median(each.step_seconds); }, rows);
  const auto is_calibrated = [](const StrategyResult& each) {
    return HasRun(each) && each.calibrated.step_seconds() > 0;
  };
  if (absl::c_any_of(comparison.strategies, is_calibrated)) {
    rows->Add("  by the prices of these rounds", [&](const StrategyResult& each) {
      return Cells{is_calibrated(each) ? Seconds(each.calibrated.step_seconds()) : kNothing,
                   kNothing};
    });
  }
  AddMeasuredRow(
      "  from the first quartile",
      [](const StrategyResult& each) { return Quantile(each.step_seconds, 0.25); }, rows);
  AddMeasuredRow(
      "  to the third quartile",
      [](const StrategyResult& each) { return Quantile(each.step_seconds, 0.75); }, rows);
  const StrategyResult* const base = BaseOf(comparison);
  if (base != nullptr && comparison.strategies.size() > 1) AddStepTimeRatios(*base, rows);
  rows->Add("tokens/s", [&comparison](const StrategyResult& each) {
    return Cells{Estimated(each, TokenRate(comparison, each.estimated.step_seconds())),
                 Measured(each, [&comparison](const StrategyResult& ran) {
                   return TokenRate(comparison, Median(ran.step_seconds));
                 })};
  });
  AddTimeRow(
      "computation alone", [](const StepCost& cost) { return cost.computation_seconds(); },
      [](const StrategyResult& each) { return Median(each.computation_seconds); }, rows);
  AddTimeRow(
      "communication alone", CommunicationSeconds,
      [](const StrategyResult& each) { return Median(each.communication_seconds); }, rows);
  AddTimeRow(
      "exposed communication", [](const StepCost& cost) { return cost.exposed_seconds(); },
      ExposedSeconds, rows);
}

// Returns the text for bytes of memory, of which every run has some.
std::string MemoryText(const StepCost& cost) {
  return cost.peak_bytes() > 0 ? FormatBytes(cost.peak_bytes()) : kNothing;
}

std::string CallsOf(const StepCost& cost, const std::string& name) {
  const StepCost::Collective* const found = FindCollective(cost, name);
  return found == nullptr ? kNothing : absl::StrCat(found->calls());
}

std::string BytesOf(const StepCost& cost, const std::string& name) {
  const StepCost::Collective* const found = FindCollective(cost, name);
  return found == nullptr ? kNothing : FormatBytes(found->bytes());
}

void AddCollectives(const Comparison& comparison, Rows* rows) {
  std::vector<std::string> names;
  for (const StrategyResult& each : comparison.strategies) {
    for (const StepCost* cost : {&each.estimated, &each.counted}) {
      for (const StepCost::Collective& collective : cost->collectives()) {
        const std::string name = NameOf(collective);
        if (!absl::c_linear_search(names, name)) names.push_back(name);
      }
    }
  }
  for (const std::string& name : names) {
    rows->Add(absl::StrCat(name, ", calls"), [&name](const StrategyResult& each) {
      return Cells{CallsOf(each.estimated, name), CallsOf(each.counted, name)};
    });
    rows->Add("  bytes sent", [&name](const StrategyResult& each) {
      return Cells{BytesOf(each.estimated, name), BytesOf(each.counted, name)};
    });
  }
}

}  // namespace

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

double ExposedSeconds(const StrategyResult& result) {
  return std::max(0.0, Median(result.step_seconds) - Median(result.computation_seconds));
}

std::string PredictionTable(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows = {
      {"", "step", "spread", "computation", "exposed", "communication", "tokens/s"}};
  for (const StrategyResult& each : comparison.strategies) {
    if (each.outcome != Outcome::kPriced || !(each.calibrated.step_seconds() > 0)) {
      rows.push_back({each.label, each.remark});
      continue;
    }
    const StepCost& cost = each.calibrated;
    const std::vector<double>& rounds = each.calibrated_rounds;
    const double range = Quantile(rounds, 0.75) - Quantile(rounds, 0.25);
    rows.push_back({each.label, Seconds(cost.step_seconds()),
                    absl::StrFormat("%.1f%%", 50 * range / Median(rounds)),
                    Seconds(cost.computation_seconds()), Seconds(cost.exposed_seconds()),
                    Seconds(CommunicationSeconds(cost)),
                    TokenRate(comparison, cost.step_seconds())});
  }
  size_t label_width = 0;
  for (const auto& row : rows) label_width = std::max(label_width, row[0].size());
  std::string table;
  for (const auto& row : rows) {
    absl::StrAppendFormat(&table, "%-*s", static_cast<int>(label_width), row[0]);
    for (size_t i = 1; i < row.size(); ++i) absl::StrAppendFormat(&table, "  %13s", row[i]);
    absl::StrAppend(&table, "\n");
  }
  absl::StrAppend(&table, "predicted by the prices that ", Counted(comparison.rounds, "round"),
                  " have measured; spread: half the interquartile range of rounds\n");
  return table;
}

std::string ComparisonTable(const Comparison& comparison) {
  Rows rows(comparison);
  AddTimes(comparison, &rows);
  rows.Add("peak memory of a rank", [](const StrategyResult& each) {
    return Cells{MemoryText(each.estimated), MemoryText(each.counted)};
  });
  AddCollectives(comparison, &rows);
  if (const StrategyResult* const base = BaseOf(comparison)) {
    rows.Add(absl::StrCat("loss of step ", base->last_step), [base](const StrategyResult& each) {
      const bool has_step = each.losses.size() >= base->losses.size();
      return Cells{kNothing, has_step
                                 ? absl::StrFormat("%.6f", each.losses[base->losses.size() - 1])
                                 : kNothing};
    });
  }
  std::string table = rows.ToString();
  if (!comparison.cluster.empty()) {
    absl::StrAppend(&table, "estimated times are those of ", comparison.cluster, "\n");
  }
  if (comparison.on_loopback) {
    absl::StrAppend(&table,
                    "* all ranks ran on this host, so measured times are those of its loopback; "
                    "estimated times are those of links between the hosts of --hosts\n");
  }
  return table;
}

}  // namespace tessera
