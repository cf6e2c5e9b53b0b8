#include "tools/compare/plans.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "tools/compare/comparison.h"
#include "tools/compare/results.h"
#include "tools/plan/cell.h"
#include "tools/plan/derived_limit.h"
#include "tools/plan/progress.h"
#include "tools/report/view_of_run.h"
#include "tools/strategy_entry/strategy_entry.h"
#include "tools/train/rank/interrupt.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/report/report.h"
#include "tools/train/setup/strategy_session.h"

namespace tessera {
namespace {

// Returns what to plan for an entry. An error of the command line names the entry.
absl::StatusOr<CellRequest> RequestOf(const CompareCommandLine& line, const StrategyEntry& entry) {
  ASSIGN_OR_RETURN(CommandLine train, CommandLineOf(entry, line.train));
  CellRequest request = {entry.label, std::move(train), line.planned_ranks, entry.limit_between};
  if (request.line.strategy.empty()) return request;
  Ranks alone;
  RETURN_IF_ERROR(
      NamedStatus(entry.label, CheckStrategyFlags(request.line.strategy, request.line, alone)));
  return request;
}

// Returns the result of a strategy that was planned.
StrategyResult ResultOf(const Cell& cell) {
  const RunConfig& config = cell.configured->config;
  StrategyResult result;
  result.label = cell.request.label;
  result.batch = config.batch();
  result.micro_batches = config.micro_batches();
  result.estimated = cell.prepared.estimated;
  result.explanation = cell.prepared.explanation;
  result.memory_limit_bytes = cell.configured->memory_bound.bytes;
  result.outcome = Outcome::kPlanned;
  if (cell.fits()) return result;
  result.outcome = Outcome::kDoesNotFit;
  result.remark = absl::StrCat("does not fit: ", FormatBytes(cell.peak_bytes()));
  result.fault =
      absl::StrCat(cell.request.label, " does not fit: a rank needs ",
                   FormatBytes(cell.peak_bytes()), ", and may use ", cell.memory.written);
  return result;
}

StrategyResult FailedResult(const CellRequest& request, const absl::Status& status) {
  StrategyResult result;
  result.label = request.label;
  result.outcome = Outcome::kFailed;
  result.remark = "could not be planned";
  result.fault = absl::StrCat(request.label, ": ", status.message());
  return result;
}

// Sets what a comparison says of all strategies, from the first one that was planned.
void Describe(const CompareCommandLine& line, const Cell& cell, Comparison* comparison) {
  const ConfiguredRun& run = *cell.configured;
  comparison->model =
      StepLine(line.model->name, run.config, run.unit(), cell.prepared.compiled.graphs);
  comparison->ranks = Counted(line.planned_ranks, "rank");
  comparison->num_ranks = line.planned_ranks;
  comparison->processor = run.backend->processor().name;
  comparison->threads = run.backend->processor().threads;
  comparison->cluster = run.priced.cluster.name();
  comparison->unit = run.unit();
}

}  // namespace

absl::StatusOr<int> ComparePlans(const CompareCommandLine& line) {
  std::vector<CellRequest> requests;
  for (const StrategyEntry& entry : line.strategies) {
    ASSIGN_OR_RETURN(CellRequest request, RequestOf(line, entry));
    requests.push_back(std::move(request));
  }
  RETURN_IF_ERROR(CheckResultFiles(line));
  StopOnInterrupts();
  Comparison comparison;
  comparison.predicted_only = true;
  Progress progress(static_cast<int>(requests.size()));
  DerivedLimits limits;
  for (const CellRequest& request : requests) {
    if (CaughtSignal() != 0) break;
    std::vector<std::string> notes;
    const absl::StatusOr<Cell> cell = PlanCell(limits.WithLimit(request, &notes), *line.model);
    comparison.strategies.push_back(cell.ok() ? ResultOf(*cell)
                                              : FailedResult(request, cell.status()));
    if (cell.ok() && !line.report.empty()) {
      ASSIGN_OR_RETURN(comparison.strategies.back().view,
                       ViewOfRun(*cell->configured, cell->prepared.compiled));
    }
    progress.Done(request.label);
    if (cell.ok()) {
      limits.Add(*cell);
      if (comparison.model.empty()) Describe(line, *cell, &comparison);
      notes.insert(notes.end(), cell->notes.begin(), cell->notes.end());
    }
    for (const std::string& note : notes) {
      PrintLine(absl::StrCat("note: ", request.label, ": ", note));
    }
  }
  if (!comparison.model.empty()) PrintLine(Title(comparison));
  PrintResults(comparison);
  RETURN_IF_ERROR(WriteResults(line, comparison));
  const int code = ReportFaults(comparison);
  return CaughtSignal() != 0 ? 128 + CaughtSignal() : code;
}

}  // namespace tessera
