#include "tools/compare/comparison_table.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/cost/step_cost.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "tools/figures/strategy_table.h"

namespace tessera {
namespace {

// A longer label of a strategy does not fit into that of a row.
constexpr size_t kMostLabelInRow = 18;

// A cell for the estimate, and one for the measurement.
struct Cells {
  std::string estimated = kNoValue;
  std::string measured = kNoValue;
};

// Adds rows to a table with a column for each strategy.
class Rows {
 public:
  Rows(const Comparison& comparison, std::vector<std::string> titles)
      : comparison_(comparison), table_(ColumnsOf(comparison), std::move(titles)) {}

  // A row with two cells for each strategy, or one if nothing is measured.
  void Add(const std::string& label, const std::function<Cells(const StrategyResult&)>& cells_of) {
    std::vector<std::vector<std::string>> cells;
    for (const StrategyResult& result : comparison_.strategies) {
      const Cells both = cells_of(result);
      cells.push_back({both.estimated});
      if (!comparison_.predicted_only) cells.back().push_back(both.measured);
    }
    table_.AddRow(label, std::move(cells));
  }

  // A row with one cell for each strategy.
  void AddOne(const std::string& label,
              const std::function<std::string(const StrategyResult&)>& cell_of) {
    std::vector<std::vector<std::string>> cells;
    for (const StrategyResult& result : comparison_.strategies) cells.push_back({cell_of(result)});
    table_.AddRow(label, std::move(cells));
  }

  std::string ToString() const { return table_.ToString(); }

 private:
  static std::vector<StrategyTable::Column> ColumnsOf(const Comparison& comparison) {
    std::vector<StrategyTable::Column> columns;
    const int64_t common = CommonBatch(comparison);
    for (const StrategyResult& result : comparison.strategies) {
      columns.push_back({result.label, {}});
      if (result.batch != common) {
        columns.back().remarks.push_back(
            absl::StrCat("batch ", result.batch, ": another training"));
      }
      if (!result.remark.empty()) columns.back().remarks.push_back(result.remark);
    }
    return columns;
  }

  const Comparison& comparison_;
  StrategyTable table_;
};

double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

std::string Seconds(double seconds) { return seconds > 0 ? FormatSeconds(seconds) : "0 s"; }

std::string Rate(int64_t count, double seconds) {
  return FormatCount(static_cast<double>(count) / seconds);
}

// Returns whether the strategy's estimated times are those of the same work as the others'.
bool IsEstimated(const StrategyResult& result) {
  return result.estimated.step_seconds() > 0 && result.outcome != Outcome::kDiffers &&
         result.outcome != Outcome::kFailed;
}

bool HasRun(const StrategyResult& result) { return result.outcome == Outcome::kRan; }
bool HasRunOrIsPlanned(const StrategyResult& result) {
  return HasRun(result) || result.outcome == Outcome::kPlanned;
}

// Return `text`, that of a time, if the strategy has one that can be compared, else that for no
// value. Measured calls `text` only then.
std::string Estimated(const StrategyResult& result, const std::string& text) {
  return IsEstimated(result) ? text : kNoValue;
}
std::string Measured(const StrategyResult& result,
                     const std::function<std::string(const StrategyResult&)>& text) {
  return HasRun(result) ? text(result) : kNoValue;
}

double CommunicationSeconds(const StepCost& cost) {
  double seconds = 0;
  for (const StepCost::Collective& collective : cost.collectives()) seconds += collective.seconds();
  return seconds;
}

// Returns the strategy that the others are compared with: the first one with the common batch that
// ran, or was planned and fits; null if there is none.
const StrategyResult* BaseOf(const Comparison& comparison) {
  const int64_t common = CommonBatch(comparison);
  const auto found = absl::c_find_if(comparison.strategies, [common](const StrategyResult& result) {
    return HasRunOrIsPlanned(result) && result.batch == common;
  });
  return found == comparison.strategies.end() ? nullptr : &*found;
}

// Adds a row with each strategy's step time over that of `base`, estimated and measured.
void AddStepTimeRatios(const StrategyResult& base, Rows* rows) {
  const std::string label = base.label.size() <= kMostLabelInRow
                                ? absl::StrCat("  over that of ", base.label)
                                : "  over that of the first one";
  rows->Add(label, [&base](const StrategyResult& each) {
    if (each.batch != base.batch) return Cells();
    const double estimated = each.estimated.step_seconds() / base.estimated.step_seconds();
    return Cells{IsEstimated(base) ? Estimated(each, absl::StrFormat("%.3f", estimated)) : kNoValue,
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
    return Cells{kNoValue,
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

// Adds a row of rates; `count` returns how much a step processes.
void AddRateRow(const std::string& label, std::function<int64_t(const StrategyResult&)> count,
                Rows* rows) {
  rows->Add(label, [count](const StrategyResult& each) {
    return Cells{Estimated(each, Rate(count(each), each.estimated.step_seconds())),
                 Measured(each, [&](const StrategyResult& ran) {
                   return Rate(count(ran), Median(ran.step_seconds));
                 })};
  });
}

void AddTimes(const Comparison& comparison, Rows* rows) {
  AddTimeRow(
      comparison.predicted_only ? "step time" : "step time, median",
      [](const StepCost& cost) { return cost.step_seconds(); },
      [](const StrategyResult& each) { return Median(each.step_seconds); }, rows);
  rows->Add("  by the prices of these rounds", [](const StrategyResult& each) {
    const bool is_calibrated = HasRun(each) && each.calibrated.step_seconds() > 0;
    return Cells{is_calibrated ? Seconds(each.calibrated.step_seconds()) : kNoValue, kNoValue};
  });
  AddMeasuredRow(
      "  from the first quartile",
      [](const StrategyResult& each) { return Quantile(each.step_seconds, 0.25); }, rows);
  AddMeasuredRow(
      "  to the third quartile",
      [](const StrategyResult& each) { return Quantile(each.step_seconds, 0.75); }, rows);
  const StrategyResult* const base = BaseOf(comparison);
  if (base != nullptr && comparison.strategies.size() > 1) AddStepTimeRatios(*base, rows);
  const SampleUnit& unit = comparison.unit;
  AddRateRow(
      unit.Rate(), [&unit](const StrategyResult& each) { return each.batch * unit.per_row; }, rows);
  if (unit.row != unit.unit) {
    AddRateRow(
        "samples/s", [](const StrategyResult& each) { return each.batch; }, rows);
  }
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
  return cost.peak_bytes() > 0 ? FormatBytes(cost.peak_bytes()) : kNoValue;
}

std::string LimitText(const StrategyResult& result) {
  return result.memory_limit_bytes > 0 ? FormatBytes(result.memory_limit_bytes) : kNoValue;
}

std::string CallsOf(const StepCost& cost, const std::string& name) {
  const StepCost::Collective* const found = FindCollective(cost, name);
  return found == nullptr ? kNoValue : absl::StrCat(found->calls());
}

std::string BytesOf(const StepCost& cost, const std::string& name) {
  const StepCost::Collective* const found = FindCollective(cost, name);
  return found == nullptr ? kNoValue : FormatBytes(found->bytes());
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

std::string LossText(double loss) {
  return std::abs(loss) < 1e6 ? absl::StrFormat("%.6f", loss) : absl::StrFormat("%.6g", loss);
}

// Adds the loss of the last step of `base`, for strategies that have trained the same steps.
void AddLosses(const StrategyResult& base, Rows* rows) {
  rows->Add(absl::StrCat("loss of step ", base.last_step), [&base](const StrategyResult& each) {
    const bool has_step = each.batch == base.batch && each.losses.size() >= base.losses.size();
    return Cells{kNoValue, has_step ? LossText(each.losses[base.losses.size() - 1]) : kNoValue};
  });
}

std::string Note(const std::string& text) {
  return absl::StrCat(absl::StrJoin(Wrap(text, kTableWidth), "\n"), "\n");
}

}  // namespace

std::string PredictionTable(const Comparison& comparison) {
  Rows rows(comparison, {""});
  const auto add = [&rows](const std::string& label,
                           const std::function<std::string(const StrategyResult&)>& text) {
    rows.AddOne(label, [&text](const StrategyResult& each) -> std::string {
      const bool has_times = each.outcome == Outcome::kPriced && each.calibrated.step_seconds() > 0;
      return has_times ? text(each) : kNoValue;
    });
  };
  const auto add_seconds = [&add](const std::string& label,
                                  const std::function<double(const StepCost&)>& seconds) {
    add(label, [&](const StrategyResult& each) { return Seconds(seconds(each.calibrated)); });
  };
  add_seconds("step time", [](const StepCost& cost) { return cost.step_seconds(); });
  add("  spread", [](const StrategyResult& each) {
    const std::vector<double>& rounds = each.calibrated_rounds;
    return absl::StrFormat("%.1f%%", 100 * HalfInterquartileRange(rounds) / Median(rounds));
  });
  const SampleUnit& unit = comparison.unit;
  add(unit.Rate(), [&unit](const StrategyResult& each) {
    return Rate(each.batch * unit.per_row, each.calibrated.step_seconds());
  });
  if (unit.row != unit.unit) {
    add("samples/s", [](const StrategyResult& each) {
      return Rate(each.batch, each.calibrated.step_seconds());
    });
  }
  add_seconds("computation", [](const StepCost& cost) { return cost.computation_seconds(); });
  add_seconds("communication", CommunicationSeconds);
  add_seconds("  exposed", [](const StepCost& cost) { return cost.exposed_seconds(); });
  rows.AddOne("peak memory", [](const StrategyResult& each) { return MemoryText(each.estimated); });
  rows.AddOne("  limit", LimitText);
  return absl::StrCat(
      rows.ToString(),
      Note(absl::StrCat("predicted by the prices that ", Counted(comparison.rounds, "round"),
                        " have measured; spread: half the interquartile range of rounds")));
}

std::string ComparisonTable(const Comparison& comparison) {
  std::vector<std::string> titles = {""};
  if (!comparison.predicted_only) {
    titles = {"estimated", comparison.on_loopback ? "measured*" : "measured"};
  }
  Rows rows(comparison, std::move(titles));
  AddTimes(comparison, &rows);
  rows.Add("peak memory of a rank", [](const StrategyResult& each) {
    return Cells{MemoryText(each.estimated), MemoryText(each.counted)};
  });
  rows.Add("  memory limit", [](const StrategyResult& each) {
    return Cells{LimitText(each), kNoValue};
  });
  AddCollectives(comparison, &rows);
  const StrategyResult* const base = BaseOf(comparison);
  if (base != nullptr && HasRun(*base)) AddLosses(*base, &rows);
  std::string table = rows.ToString();
  if (!comparison.cluster.empty()) {
    absl::StrAppend(&table,
                    Note(absl::StrCat("estimated times are those of ", comparison.cluster)));
  }
  if (comparison.on_loopback) {
    absl::StrAppend(
        &table,
        Note("* all ranks ran on this host, so measured times are those of its loopback; estimated "
             "times are those of links between the hosts of --hosts"));
  }
  return table;
}

}  // namespace tessera
