#include "tools/compare/comparison_report.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/text/version.h"
#include "tools/train/flags/shell_word.h"

namespace tessera {
namespace {

ReportedOutcome OutcomeOf(const StrategyResult& result) {
  switch (result.outcome) {
    case Outcome::kRan:
      return ReportedOutcome::kRan;
    case Outcome::kDoesNotFit:
      return ReportedOutcome::kDoesNotFit;
    case Outcome::kFailed:
      return ReportedOutcome::kFailed;
    case Outcome::kDiffers:
      return ReportedOutcome::kDiffers;
    case Outcome::kPriced:
    case Outcome::kPlanned:
      return ReportedOutcome::kPlanned;
    case Outcome::kNotRun:
      break;
  }
  return ReportedOutcome::kNotRun;
}

MeasuredStep MeasuredOf(const StrategyResult& result) {
  return {.steps = static_cast<int64_t>(result.step_seconds.size()),
          .median_seconds = Quantile(result.step_seconds, 0.5),
          .first_quartile_seconds = Quantile(result.step_seconds, 0.25),
          .third_quartile_seconds = Quantile(result.step_seconds, 0.75),
          .computation_seconds = Quantile(result.computation_seconds, 0.5),
          .exposed_seconds = ExposedSeconds(result),
          .peak_bytes = result.counted.peak_bytes()};
}

ReportedStrategy ReportedOf(const StrategyResult& result, const Comparison& comparison) {
  ReportedStrategy reported;
  reported.label = result.label;
  reported.outcome = OutcomeOf(result);
  reported.remark = result.remark;
  if (reported.remark.empty() && result.batch != CommonBatch(comparison)) {
    reported.remark = absl::StrCat("batch ", result.batch, ": another training");
  }
  reported.fault = result.fault;
  reported.ranks = comparison.num_ranks;
  // The times of a strategy that trains differently are not those of the same work.
  const bool comparable = result.outcome != Outcome::kDiffers && result.outcome != Outcome::kFailed;
  if (comparable && result.estimated.step_seconds() > 0) reported.estimated = result.estimated;
  if (comparable && result.calibrated.step_seconds() > 0) reported.calibrated = result.calibrated;
  if (result.outcome == Outcome::kRan) {
    reported.measured = MeasuredOf(result);
    reported.losses = result.losses;
    reported.first_step = result.last_step - static_cast<int64_t>(result.losses.size()) + 1;
  }
  reported.units = result.batch * comparison.unit.per_row;
  reported.memory_limit_bytes = result.memory_limit_bytes;
  reported.view = result.view;
  reported.explanation = result.explanation;
  return reported;
}

// Returns what was checked to be equal, among the strategies of each batch.
std::vector<std::string> ChecksOf(const Comparison& comparison) {
  std::map<int64_t, std::vector<std::string>> labels;
  for (const StrategyResult& result : comparison.strategies) {
    if (result.outcome == Outcome::kRan) labels[result.batch].push_back(result.label);
  }
  std::vector<std::string> checks;
  for (const auto& [batch, group] : labels) {
    if (group.size() == 1) {
      checks.push_back(absl::StrCat(group[0], " is alone with a batch of ", batch,
                                    ": there is no other to compare its training with"));
      continue;
    }
    checks.push_back(absl::StrCat(
        absl::StrJoin(group, ", "),
        " trained the same: from one initial state, three steps of plain gradient descent had the "
        "same losses, norms, gradients and updates of every parameter, and all timed steps the "
        "same losses and norms"));
  }
  return checks;
}

}  // namespace

ReportData ComparisonReport(const CompareCommandLine& line, const Comparison& comparison) {
  ReportData data;
  data.title =
      absl::StrCat(comparison.strategies.size(),
                   comparison.strategies.size() == 1 ? " strategy of " : " strategies compared on ",
                   line.model->name);
  data.written_by = absl::StrCat("tessera compare ", kVersion);
  data.model = comparison.model;
  data.rate = comparison.unit.Rate();
  if (!comparison.predicted_only) data.machine = comparison.processor;
  data.ranks = comparison.ranks;
  data.threads = comparison.predicted_only ? 0 : comparison.threads;
  data.cluster = comparison.cluster;
  data.recommendation = RecommendationOf(comparison);
  if (comparison.on_loopback) {
    data.notes.push_back(
        "all ranks ran on this host, so measured times are those of its loopback; predicted times "
        "are those of links between the hosts of --hosts");
  }
  if (!comparison.alternated && comparison.strategies.size() > 1 && !comparison.predicted_only) {
    data.notes.push_back("the strategies ran one after the other, not in alternation");
  }
  data.checks = ChecksOf(comparison);
  std::vector<std::string> arguments = line.launch.arguments;
  if (comparison.num_ranks > 1 && !comparison.predicted_only) {
    arguments.push_back(absl::StrCat("--nproc=", comparison.num_ranks));
  }
  data.commands = {WithArguments("./bazelw run //tools/compare --", arguments)};
  for (const StrategyResult& result : comparison.strategies) {
    data.strategies.push_back(ReportedOf(result, comparison));
  }
  return data;
}

}  // namespace tessera
