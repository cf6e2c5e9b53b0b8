#include "tools/plan/plan.h"

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/posix/output_file.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/counted.h"
#include "core/text/text_stream.h"
#include "core/train/measure/trace.h"
#include "google/protobuf/text_format.h"
#include "tools/figures/strategy_table.h"
#include "tools/plan/cell.h"
#include "tools/plan/changes.h"
#include "tools/plan/derived_limit.h"
#include "tools/plan/explanation.h"
#include "tools/plan/figures.h"
#include "tools/plan/fit.h"
#include "tools/plan/holds.h"
#include "tools/plan/plan_diff.h"
#include "tools/plan/plan_report.h"
#include "tools/plan/progress.h"
#include "tools/plan/step_profile.h"
#include "tools/plan/table.h"
#include "tools/report/report.h"
#include "tools/report/view_of_run.h"
#include "tools/strategy_entry/strategy_entry.h"
#include "tools/train/rank/interrupt.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/report/report.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/strategy_session.h"

namespace tessera {
namespace {

// Exit codes.
constexpr int kSomeFailed = 2;
constexpr int kDoesNotHold = 2;

bool IsStopped() { return CaughtSignal() != 0; }

// "fsdp on 64 ranks".
std::string NameOf(const std::string& label, int ranks) {
  return absl::StrCat(label, " on ",
                      ranks == kFewestRanks ? "the fewest ranks" : Counted(ranks, "rank"));
}

// Returns an error of the configuration, the strategies or the files that the command line names,
// before anything is planned.
absl::Status CheckRequests(const PlanCommandLine& line) {
  Ranks alone;
  std::string
      checked;  // requests of one strategy differ only in their ranks, and follow each other
  for (const CellRequest& request : line.requests) {
    if (request.label == checked) continue;
    checked = request.label;
    CommandLine without_plan = request.line;
    without_plan.plan.clear();
    RETURN_IF_ERROR(EffectiveConfigText(without_plan, *line.model).status());
    RETURN_IF_ERROR(
        NamedStatus(request.label, EffectiveConfigText(request.line, *line.model).status()));
    if (request.line.strategy.empty()) continue;
    RETURN_IF_ERROR(
        NamedStatus(request.label, CheckStrategyFlags(request.line.strategy, request.line, alone)));
  }
  return absl::OkStatus();
}

absl::Status CheckOutputFiles(const PlanCommandLine& line) {
  for (const auto& [flag, file] : {std::pair("--json", line.json),
                                   {"--report", line.report},
                                   {"--save", line.save},
                                   {"--trace", line.trace}}) {
    if (file.empty()) continue;
    const absl::Status status = CheckOutputFile(UserPath(file));
    RETURN_IF_ERROR(WithMessage(status, absl::StrCat(flag, ": ", status.message())));
  }
  return absl::OkStatus();
}

// Plans one request as the command line says.
absl::StatusOr<Cell> PlanRequest(const PlanCommandLine& line, const CellRequest& request) {
  if (request.ranks == kFewestRanks) return PlanFewestRanks(request, *line.model, IsStopped);
  return line.fit ? PlanFastestFit(request, *line.model, IsStopped)
                  : PlanCell(request, *line.model);
}

// Prints notes, each once.
void PrintNotes(const std::vector<ShownStep>& steps) {
  std::vector<std::pair<std::string, std::string>> notes;  // text, and what it is of
  for (const ShownStep& step : steps) {
    for (const std::string& note : step.figures.notes) {
      const std::string of = NameOf(step.figures.label, step.figures.ranks);
      const auto known =
          absl::c_find_if(notes, [&](const auto& pair) { return pair.first == note; });
      if (known == notes.end()) {
        notes.emplace_back(note, of);
      } else {
        absl::StrAppend(&known->second, ", ", of);
      }
    }
  }
  for (const auto& [note, of] : notes) PrintLine(absl::StrCat("note: ", of, ": ", note));
}

// Reports what could not be planned, and returns the exit code.
int ReportFaults(const std::vector<ShownStep>& steps) {
  std::fflush(stdout);
  int code = 0;
  for (const auto& [figures, view] : steps) {
    if (figures.planned()) continue;
    absl::FPrintF(stderr, "error: %s: %s\n", Printable(NameOf(figures.label, figures.ranks)),
                  Printable(absl::StrReplaceAll(figures.fault, {{"\n", " "}})));
    code = kSomeFailed;
  }
  return code;
}

// Shows one planned step, which has these figures, as the command says.
absl::Status Show(const PlanCommandLine& line, const Cell& cell, const Figures& figures) {
  const StepProfile profile = ProfileOf(cell);
  if (line.command == PlanCommand::kCosts) {
    PrintText(PriceTable(figures, profile));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::optional<std::vector<Change>> changes,
                   FindChanges(cell, *line.model, IsStopped));
  PrintText(Explanation(figures, profile, changes));
  return absl::OkStatus();
}

// Writes the Plan and the trace of a planned step to the files that the command line names.
absl::Status WriteFiles(const PlanCommandLine& line, const Cell& cell) {
  if (!line.save.empty()) {
    std::string text;
    google::protobuf::TextFormat::PrintToString(cell.prepared.compiled.plan, &text);
    RETURN_IF_ERROR(WriteOutputFile(UserPath(line.save), text));
  }
  if (line.trace.empty()) return absl::OkStatus();
  return WriteOutputFile(UserPath(line.trace),
                         PredictedTraceToJson(cell.step(), cell.Predict().times));
}

// Prints the table of all steps and the recommendation, and writes the files about all of them.
absl::Status Finish(const PlanCommandLine& line, const ShownCommand& command,
                    const std::vector<ShownStep>& steps) {
  PrintNotes(steps);
  std::vector<Figures> figures;
  for (const ShownStep& step : steps) figures.push_back(step.figures);
  if (const std::string table = FiguresTable(figures, line.tokens);
      line.command == PlanCommand::kTable && !table.empty()) {
    PrintText(absl::StrCat(PlanTitle(command.step, command.cluster, figures), "\n", table));
    const std::string recommendation = PlanRecommendation(steps);
    if (!recommendation.empty()) {
      PrintText(absl::StrCat("\n", absl::StrJoin(Wrap(recommendation, kTableWidth), "\n"), "\n"));
    }
  }
  if (!line.json.empty()) {
    RETURN_IF_ERROR(WriteOutputFile(UserPath(line.json), PlanJson(command, steps)));
  }
  if (line.report.empty() || steps.empty()) return absl::OkStatus();
  return WriteOutputFile(UserPath(line.report), ReportHtml(PlanReportData(command, steps)));
}

// Plans a request, shows it as the command says, and adds it to `steps`. `before` is the last one
// that was planned before.
absl::Status PlanAndShow(const PlanCommandLine& line, const CellRequest& request,
                         ShownCommand* command, std::vector<ShownStep>* steps,
                         DerivedLimits* limits, std::optional<Cell>* before) {
  std::vector<std::string> notes;
  absl::StatusOr<Cell> cell = PlanRequest(line, limits->WithLimit(request, &notes));
  if (!cell.ok()) {
    steps->push_back({FailedFigures(request, cell.status()), std::nullopt});
    steps->back().figures.notes = std::move(notes);
    return absl::OkStatus();
  }
  limits->Add(*cell);
  cell->notes.insert(cell->notes.begin(), notes.begin(), notes.end());
  steps->push_back({FiguresOf(*cell), std::nullopt});
  if (!line.report.empty()) {
    ASSIGN_OR_RETURN(steps->back().view, ViewOfRun(*cell->configured, cell->prepared.compiled));
  }
  if (command->step.empty()) {
    command->step = StepLine(line.model->name, cell->configured->config, cell->configured->unit(),
                             cell->prepared.compiled.graphs);
    command->cluster = cell->configured->priced.cluster.name();
  }
  RETURN_IF_ERROR(WriteFiles(line, *cell));
  if (line.command == PlanCommand::kTable) return absl::OkStatus();
  if (line.command != PlanCommand::kDiff) {
    if (before->has_value()) PrintText("\n");
    RETURN_IF_ERROR(Show(line, *cell, steps->back().figures));
  } else if (before->has_value()) {
    PrintText(DiffText(**before, *cell));
  }
  *before = *std::move(cell);
  return absl::OkStatus();
}

// Prints whether the saved Plan holds. Returns the exit code.
absl::StatusOr<int> RunHolds(const PlanCommandLine& line) {
  const absl::StatusOr<PlanCheck> check =
      CheckSavedPlan(UserPath(line.plan), line.requests.front(), *line.model);
  if (IsStopped()) {  // the strategy may have searched less than it needs to
    absl::FPrintF(stderr, "error: stopped before it was known whether %s holds\n",
                  Printable(line.plan));
    return 128 + CaughtSignal();
  }
  RETURN_IF_ERROR(check.status());
  PrintLine(check->line);
  return check->holds ? 0 : kDoesNotHold;
}

}  // namespace

absl::StatusOr<int> RunPlanCommand(const PlanCommandLine& line, const std::string& typed) {
  RETURN_IF_ERROR(CheckRequests(line));
  RETURN_IF_ERROR(CheckOutputFiles(line));
  StopOnInterrupts();
  if (line.command == PlanCommand::kHolds) return RunHolds(line);
  Progress progress(static_cast<int>(line.requests.size()));
  ShownCommand command;
  command.typed = typed;
  command.model = line.model->name;
  command.tokens = line.tokens;
  std::vector<ShownStep> steps;
  DerivedLimits limits;
  std::optional<Cell> before;
  for (const CellRequest& request : line.requests) {
    if (IsStopped()) break;
    RETURN_IF_ERROR(PlanAndShow(line, request, &command, &steps, &limits, &before));
    progress.Done(NameOf(request.label, request.ranks));
  }
  RETURN_IF_ERROR(Finish(line, command, steps));
  const int code = ReportFaults(steps);
  return IsStopped() ? 128 + CaughtSignal() : code;
}

}  // namespace tessera
