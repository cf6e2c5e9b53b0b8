#include "tools/plan/plan.h"

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/posix/output_file.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/counted.h"
#include "core/text/text_stream.h"
#include "core/train/measure/trace.h"
#include "google/protobuf/text_format.h"
#include "tools/plan/cell.h"
#include "tools/plan/changes.h"
#include "tools/plan/explanation.h"
#include "tools/plan/figures.h"
#include "tools/plan/fit.h"
#include "tools/plan/plan_diff.h"
#include "tools/plan/progress.h"
#include "tools/plan/step_profile.h"
#include "tools/plan/table.h"
#include "tools/strategy_entry/strategy_entry.h"
#include "tools/train/rank/interrupt.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/setup/strategy_session.h"

namespace tessera {
namespace {

constexpr int kSomeFailed = 2;

bool IsStopped() { return CaughtSignal() != 0; }

// Returns an error of the strategies or files that the command line names, before anything is
// planned.
absl::Status CheckStrategies(const PlanCommandLine& line) {
  Ranks alone;
  for (const CellRequest& request : line.requests) {
    if (request.line.strategy.empty()) continue;
    RETURN_IF_ERROR(
        NamedStatus(request.label, CheckStrategyFlags(request.line.strategy, request.line, alone)));
  }
  return absl::OkStatus();
}

absl::Status CheckOutputFiles(const PlanCommandLine& line) {
  for (const auto& [flag, file] :
       {std::pair("--json", line.json), {"--save", line.save}, {"--trace", line.trace}}) {
    if (file.empty()) continue;
    const absl::Status status = CheckOutputFile(UserPath(file));
    RETURN_IF_ERROR(WithMessage(status, absl::StrCat(flag, ": ", status.message())));
  }
  return absl::OkStatus();
}

// Plans one request as the command line says.
absl::StatusOr<Cell> PlanRequest(const PlanCommandLine& line, const CellRequest& request) {
  return line.fit ? PlanFastestFit(request, *line.model, IsStopped)
                  : PlanCell(request, *line.model);
}

// Prints notes, each once.
void PrintNotes(const std::vector<Figures>& all) {
  std::vector<std::pair<std::string, std::string>> notes;  // text, and what it is of
  for (const Figures& each : all) {
    for (const std::string& note : each.notes) {
      const std::string of = absl::StrCat(each.label, " on ", Counted(each.ranks, "rank"));
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
int ReportFaults(const std::vector<Figures>& all) {
  std::fflush(stdout);
  int code = 0;
  for (const Figures& each : all) {
    if (each.planned()) continue;
    absl::FPrintF(stderr, "error: %s on %s: %s\n", Printable(each.label),
                  Counted(each.ranks, "rank"),
                  Printable(absl::StrReplaceAll(each.fault, {{"\n", " "}})));
    code = kSomeFailed;
  }
  return code;
}

// Shows one planned step as the command says.
absl::Status Show(const PlanCommandLine& line, const Cell& cell) {
  const Figures figures = FiguresOf(cell);
  const StepProfile profile = ProfileOf(cell);
  if (line.command == PlanCommand::kCosts) {
    PrintText(PriceTable(figures, profile));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<Change> changes, FindChanges(cell, *line.model, IsStopped));
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

}  // namespace

absl::StatusOr<int> RunPlanCommand(const PlanCommandLine& line) {
  RETURN_IF_ERROR(CheckStrategies(line));
  RETURN_IF_ERROR(CheckOutputFiles(line));
  StopOnInterrupts();
  Progress progress(static_cast<int>(line.requests.size()));
  std::vector<Figures> all;
  std::string cluster;
  std::optional<Cell> before;
  for (const CellRequest& request : line.requests) {
    if (IsStopped()) break;
    absl::StatusOr<Cell> cell = PlanRequest(line, request);
    all.push_back(cell.ok() ? FiguresOf(*cell) : FailedFigures(request, cell.status()));
    progress.Done(absl::StrCat(request.label, " on ", Counted(request.ranks, "rank")));
    if (!cell.ok()) continue;
    cluster = cell->configured->priced.cluster.name();
    RETURN_IF_ERROR(WriteFiles(line, *cell));
    if (line.command == PlanCommand::kExplain || line.command == PlanCommand::kCosts) {
      if (all.size() > 1) PrintText("\n");
      RETURN_IF_ERROR(Show(line, *cell));
    }
    if (line.command != PlanCommand::kDiff) continue;
    if (before.has_value()) PrintText(DiffText(*before, *cell));
    before = *std::move(cell);
  }
  PrintNotes(all);
  if (const std::string table = FiguresTable(all, line.tokens);
      line.command == PlanCommand::kTable && !table.empty()) {
    PrintText(absl::StrCat(PlanTitle(line.model->name, cluster, all), "\n", table));
  }
  const int code = ReportFaults(all);
  return IsStopped() ? 128 + CaughtSignal() : code;
}

}  // namespace tessera
