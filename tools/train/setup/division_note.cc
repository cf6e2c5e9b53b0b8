#include "tools/train/setup/division_note.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/counted.h"
#include "core/train/programs.h"

namespace tessera {
namespace {

// The share of the ranks that has to be of use, so that nothing is said. Work that no strategy
// divides, such as the statistics of a norm under tensor parallelism, is far below the rest.
constexpr double kLeastUse = 0.75;

// Why ranks divide their work badly, and the remedy.
struct Fault {
  std::string reason, remedy;
};

Fault FaultOfEmptyParts(const WorkDivision& division, const RunConfig& config) {
  const int64_t micro_batches = config.micro_batches();
  const bool fewer = micro_batches > 1 && config.batch() % division.parts == 0;
  const std::string flag = fewer ? absl::StrCat("--micro_batches=", config.batch() / division.parts)
                                 : absl::StrCat("--batch=", division.parts * micro_batches);
  return {
      absl::StrCat(micro_batches > 1 ? "a micro-batch" : "the batch", " has ",
                   Counted(division.rows, "row"), " for ", Counted(division.parts, "rank"),
                   ", and ", division.parts - division.rows, " of them have nothing to compute"),
      absl::StrCat(flag, " gives each a row")};
}

Fault FaultOf(const WorkDivision& division, const Mesh& mesh, const RunConfig& config) {
  if (division.rows > 0) return FaultOfEmptyParts(division, config);
  const auto most = absl::c_max_element(division.repeated);
  if (most != division.repeated.end() && *most > (1 - kLeastUse) / 2) {
    const Mesh::Axis& axis = mesh.axis(static_cast<int>(most - division.repeated.begin()));
    return {absl::StrFormat("the %d ranks along '%s' repeat %.0f%% of each other's work", axis.size,
                            axis.name, 100 * *most),
            "split the batch or operators along it (docs/plans.md)"};
  }
  return {"the batch, or another dimension that is split, does not divide evenly among the ranks",
          "choose sizes that do"};
}

}  // namespace

std::string DivisionNote(const WorkDivision& division, const Mesh& mesh, const RunConfig& config) {
  if (mesh.size() == 1 || division.speedup >= kLeastUse * mesh.size()) return "";
  const Fault fault = FaultOf(division, mesh, config);
  const double speedup = std::max(1.0, std::round(10 * division.speedup) / 10);
  return absl::StrCat(fault.reason, ": a step on ", Counted(mesh.size(), "rank"),
                      " is no faster than on ", speedup, "; ", fault.remedy);
}

WorkDivision DivisionOfStep(absl::Span<const Graph> recorded, const CompiledRun& run) {
  for (size_t i = 0; i < run.programs.size(); ++i) {
    const Program& program = run.programs[i];
    if (program.name != kTrain) continue;
    const PlanPart& part = run.plan.stages(0).parts(static_cast<int>(i));
    return DivisionOf(recorded[i], run.graphs[i], part, program);
  }
  WorkDivision none;
  none.speedup = run.programs.front().mesh.size();
  return none;
}

}  // namespace tessera
