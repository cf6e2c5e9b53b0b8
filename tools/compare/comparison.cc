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
#include "core/text/human_units.h"

namespace tessera {
namespace {

constexpr char kNothing[] = "-";
constexpr double kSameLoss = 1e-5;
constexpr double kLoweredLoss = 1e-2;

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
    std::string first(label_width, ' '), second = first;
    std::vector<std::string> lines;
    for (const Row& row : rows_) {
      lines.push_back(absl::StrCat(row.label, std::string(label_width - row.label.size(), ' ')));
    }
    for (size_t s = 0; s < comparison_.strategies.size(); ++s) {
      size_t estimated = 9, measured = 8;  // those of the head
      for (const Row& row : rows_) {
        estimated = std::max(estimated, row.cells[s].estimated.size());
        measured = std::max(measured, row.cells[s].measured.size());
      }
      const std::string& label = comparison_.strategies[s].label;
      if (label.size() > estimated + 2 + measured) measured = label.size() - estimated - 2;
      absl::StrAppendFormat(&first, "   %*s", estimated + 2 + measured, label);
      absl::StrAppendFormat(&second, "   %*s  %*s", estimated, "estimated", measured, "measured");
      for (size_t r = 0; r < rows_.size(); ++r) {
        const Cells& cells = rows_[r].cells[s];
        absl::StrAppendFormat(&lines[r], "   %*s  %*s", estimated, cells.estimated, measured,
                              cells.measured);
      }
    }
    return absl::StrCat(first, "\n", second, "\n", absl::StrJoin(lines, "\n"), "\n");
  }

 private:
  const Comparison& comparison_;
  std::vector<Row> rows_;
};

double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

std::string Seconds(double seconds) { return seconds > 0 ? FormatSeconds(seconds) : "0 s"; }

std::string Rate(const Comparison& comparison, double seconds) {
  return FormatCount(static_cast<double>(comparison.tokens) / seconds);
}

bool IsEstimated(const StrategyResult& result) { return result.estimated.step_seconds() > 0; }

// Returns `text` if the strategy has an estimate, else the text for no value.
std::string Estimated(const StrategyResult& result, const std::string& text) {
  return IsEstimated(result) ? text : kNothing;
}

double CommunicationSeconds(const StepCost& cost) {
  double seconds = 0;
  for (const StepCost::Collective& collective : cost.collectives()) seconds += collective.seconds();
  return seconds;
}

void AddRatios(const StrategyResult& base, Rows* rows) {
  rows->Add(absl::StrCat("  over that of ", base.label), [&base](const StrategyResult& each) {
    const double estimated = each.estimated.step_seconds() / base.estimated.step_seconds();
    return Cells{IsEstimated(base) ? Estimated(each, absl::StrFormat("%.3f", estimated)) : kNothing,
                 absl::StrFormat("%.3f", Median(each.step_seconds) / Median(base.step_seconds))};
  });
}

void AddTimes(const Comparison& comparison, Rows* rows) {
  rows->Add("step time, median", [](const StrategyResult& each) {
    return Cells{Estimated(each, Seconds(each.estimated.step_seconds())),
                 Seconds(Median(each.step_seconds))};
  });
  rows->Add("  from the first quartile", [](const StrategyResult& each) {
    return Cells{kNothing, Seconds(Quantile(each.step_seconds, 0.25))};
  });
  rows->Add("  to the third quartile", [](const StrategyResult& each) {
    return Cells{kNothing, Seconds(Quantile(each.step_seconds, 0.75))};
  });
  const StrategyResult& base = comparison.strategies.front();
  if (comparison.strategies.size() > 1) AddRatios(base, rows);
  rows->Add("tokens/s", [&comparison](const StrategyResult& each) {
    return Cells{Estimated(each, Rate(comparison, each.estimated.step_seconds())),
                 Rate(comparison, Median(each.step_seconds))};
  });
  rows->Add("computation alone", [](const StrategyResult& each) {
    return Cells{Estimated(each, Seconds(each.estimated.computation_seconds())),
                 Seconds(Median(each.computation_seconds))};
  });
  rows->Add("communication alone", [](const StrategyResult& each) {
    return Cells{Estimated(each, Seconds(CommunicationSeconds(each.estimated))),
                 Seconds(Median(each.communication_seconds))};
  });
  rows->Add("exposed communication", [](const StrategyResult& each) {
    return Cells{Estimated(each, Seconds(each.estimated.exposed_seconds())),
                 Seconds(ExposedSeconds(each))};
  });
}

const StepCost::Collective* Find(const StepCost& cost, const std::string& name) {
  for (const StepCost::Collective& collective : cost.collectives()) {
    if (NameOf(collective) == name) return &collective;
  }
  return nullptr;
}

std::string CallsOf(const StepCost& cost, const std::string& name) {
  const StepCost::Collective* const found = Find(cost, name);
  return found == nullptr ? kNothing : absl::StrCat(found->calls());
}

std::string BytesOf(const StepCost& cost, const std::string& name) {
  const StepCost::Collective* const found = Find(cost, name);
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
  const double at = q * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double ExposedSeconds(const StrategyResult& result) {
  return std::max(0.0, Median(result.step_seconds) - Median(result.computation_seconds));
}

absl::Status CheckFirstLoss(const StrategyResult& base, const StrategyResult& other) {
  const double distance = std::abs(other.first_loss - base.first_loss);
  const double allowed = base.lowered || other.lowered ? kLoweredLoss : kSameLoss;
  if (distance <= allowed * std::abs(base.first_loss)) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat(
      "%s: the loss of step 1 is %.7g, and with %s it is %.7g: from the same initial state and "
      "data they must be equal to %g",
      other.label, other.first_loss, base.label, base.first_loss, allowed));
}

std::string ComparisonTable(const Comparison& comparison) {
  Rows rows(comparison);
  AddTimes(comparison, &rows);
  rows.Add("peak memory of a rank", [](const StrategyResult& each) {
    return Cells{Estimated(each, FormatBytes(each.estimated.peak_bytes())),
                 FormatBytes(each.counted.peak_bytes())};
  });
  AddCollectives(comparison, &rows);
  const int64_t last = comparison.strategies.front().last_step;
  rows.Add(absl::StrCat("loss of step ", last), [](const StrategyResult& each) {
    return Cells{kNothing, absl::StrFormat("%.6f", each.last_loss)};
  });
  std::string table = rows.ToString();
  if (!comparison.cluster.empty()) {
    absl::StrAppend(&table, "estimated times are those of ", comparison.cluster, "\n");
  }
  return table;
}

}  // namespace tessera
