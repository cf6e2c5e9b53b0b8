#include "tools/train/report/report.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/cost/limits.h"
#include "core/program/memory/memory_plan.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/programs.h"

namespace tessera {
namespace {

constexpr char kLabelFormat[] = "%-18s";
constexpr char kCellFormat[] = "%12s";

// Returns a row of a table, with right-aligned cells after the label.
std::string Row(absl::string_view label, const std::vector<std::string>& cells) {
  std::string row = absl::StrFormat(kLabelFormat, label);
  for (const std::string& cell : cells) absl::StrAppendFormat(&row, kCellFormat, cell);
  return absl::StrCat(row, "\n");
}

std::string TrainWork(const CompiledRun& run, int ranks) {
  const Program* train = run.FindProgram(kTrain);
  if (train == nullptr) return "";
  const ProgramWork work = WorkOf(*train);
  std::string text =
      absl::StrFormat("a step%s computes %s and moves %s in %d instructions",
                      ranks > 1 ? " of a rank" : "", FormatCount(work.model_flops, "FLOP"),
                      FormatBytes(static_cast<int64_t>(work.bytes)), train->instructions.size());
  // Attention's gradient recomputes its weights in any case, so that is not counted for
  // --recompute.
  double recomputed = 0;
  for (const Instruction& instruction : train->instructions) {
    if (instruction.recomputed) recomputed += instruction.cost.flops;
  }
  if (recomputed > 0) {
    absl::StrAppendFormat(&text, "; recomputing adds %s (%.1f%%)", FormatCount(recomputed, "FLOP"),
                          100 * recomputed / work.model_flops);
  }
  return absl::StrCat(text, "\n");
}

// Returns the rows of the memory that each Program plans on one side.
std::string MemoryRows(const CompiledRun& run, MemorySide side) {
  std::vector<std::string> fullest, planned;
  std::vector<MemoryReport> reports;
  for (const Program& program : run.programs) {
    reports.push_back(ReportMemory(program, side));
    fullest.push_back(FormatBytes(reports.back().live_bytes));
    planned.push_back(FormatBytes(reports.back().arena_bytes));
  }
  std::string table;
  for (Category category : kAllCategories) {
    std::vector<std::string> cells;
    bool any = false;
    for (const MemoryReport& report : reports) {
      const int64_t bytes = report.bytes_at_peak[static_cast<size_t>(category)];
      cells.push_back(bytes == 0 ? "-" : FormatBytes(bytes));
      any = any || bytes != 0;
    }
    if (any) table += Row(CategoryName(category), cells);
  }
  table += Row("live at the peak", fullest);
  return table + Row("planned", planned);
}

std::string StepText(absl::string_view model, const RunConfig& config, const SampleUnit& unit,
                     absl::Span<const Graph> graphs, absl::string_view micro_batches) {
  const bool lowered = !config.dtype().empty() && config.dtype() != "f32";
  return absl::StrCat(model, ": ", FormatCount(static_cast<double>(ParameterCount(graphs))),
                      " parameters, ", unit.BatchText(config.batch()), " a step", micro_batches,
                      ", ", config.optimizer().kind(), lowered ? ", " : "",
                      lowered ? config.dtype() : "");
}

}  // namespace

int64_t ParameterCount(absl::Span<const Graph> graphs) {
  int64_t most = 0;
  for (const Graph& graph : graphs) {
    int64_t count = 0;
    for (const State& state : graph.states()) {
      if (state.role == Role::kParameter) count += NumElements(state.type.shape);
    }
    most = std::max(most, count);
  }
  return most;
}

std::string StepLine(absl::string_view model, const RunConfig& config, const SampleUnit& unit,
                     absl::Span<const Graph> graphs) {
  return StepText(model, config, unit, graphs, "");
}

std::string ModelLine(absl::string_view model, const RunConfig& config, const SampleUnit& unit,
                      const CompiledRun& run, absl::string_view ranks) {
  std::string micro_batches;
  if (config.micro_batches() > 1) {
    micro_batches = absl::StrCat(" in ", config.micro_batches(), " micro-batches");
  }
  return absl::StrCat(StepText(model, config, unit, run.graphs, micro_batches), ", ",
                      Counted(config.steps(), "step"), ranks.empty() ? "" : "; ", ranks);
}

std::string MemoryTable(const CompiledRun& run, int ranks) {
  std::vector<std::string> names;
  for (const Program& program : run.programs) names.push_back(program.name);
  const int64_t offloaded = run.arenas[MemorySpace::kOffloadHost];
  std::string table = Row(offloaded > 0 ? "device memory" : "memory", names);
  table += MemoryRows(run, MemorySide::kDevice);
  std::string on_host;
  if (offloaded > 0) {
    table += Row("host memory", names) + MemoryRows(run, MemorySide::kHost);
    on_host = absl::StrCat(", ", FormatBytes(offloaded), " of it offloaded to the host");
  }
  absl::StrAppendFormat(&table, "peak %s (%d bytes)%s%s, of which %s is kept from step to step\n",
                        FormatBytes(run.arena_bytes()), run.arena_bytes(),
                        ranks > 1 ? absl::StrCat(" on each of ", ranks, " ranks") : "", on_host,
                        FormatBytes(run.state_bytes));
  return table;
}

std::string PlanReport(absl::string_view model, const RunConfig& config, const SampleUnit& unit,
                       const CompiledRun& run, int ranks, int64_t available,
                       absl::string_view place) {
  const std::string all = ranks > 1 ? Counted(ranks, "rank") : "";
  std::string text = absl::StrCat(ModelLine(model, config, unit, run, all), "\n",
                                  TrainWork(run, ranks), "\n", MemoryTable(run, ranks));
  if (available > 0) {
    const bool fits = run.arena_bytes() <= available;
    absl::StrAppend(&text, ranks > 1 ? "one rank " : "", fits ? "fits" : "does not fit", " in ",
                    place, ": ", FormatBytes(available), " are available\n");
  }
  return text;
}

}  // namespace tessera
