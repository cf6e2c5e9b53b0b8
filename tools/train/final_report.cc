#include "tools/train/final_report.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/cost/step_cost.h"
#include "core/cost/step_cost_sums.h"
#include "core/status/status_macros.h"
#include "tools/train/report/cost_report.h"
#include "tools/train/report/process_memory.h"

namespace tessera {

absl::StatusOr<ComparedCost> CompareCost(const StepCost& estimated, const MeasuredSteps& measured,
                                         const std::string& plugin, Ranks& ranks) {
  if (ranks.size() == 1 || measured.steps() == 0) return ComparedCost();
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   ranks.AllGather(measured.sums().SerializeAsString()));
  std::vector<StepCost> sums(texts.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!sums[rank].ParseFromString(texts[rank])) {
      return absl::InternalError(absl::StrCat("rank ", rank, " has sent malformed measurements"));
    }
  }
  const StepCost all = MergeRanks(sums);
  const int64_t steps = measured.steps();
  ComparedCost compared = {CostTable(estimated, PerStep(all, steps), steps), absl::OkStatus()};
  // All ranks have the sums of all.
  const absl::Status same = CompareCollectives(estimated, all, steps);
  if (same.ok()) return compared;
  const std::string strategy = plugin.empty() ? "" : absl::StrCat("strategy ", plugin, ": ");
  compared.as_estimated =
      AgreedError(absl::Status(same.code(), absl::StrCat(strategy, same.message())));
  return compared;
}

absl::StatusOr<std::string> MemoryLine(const Engine& engine, int64_t earlier_peak, Ranks& ranks) {
  const int64_t peak = std::max(PeakMemory(), earlier_peak);
  ASSIGN_OR_RETURN(const std::vector<std::string> peaks,
                   ranks.AllGather(absl::StrFormat("%020d", peak)));
  const auto largest = std::max_element(peaks.begin(), peaks.end()) - peaks.begin();
  std::string mine;
  if (ranks.rank() == largest) {
    ResidentMemory resident = ReadResidentMemory();
    resident.peak = std::max(resident.peak, earlier_peak);
    mine = ResidentMemoryLine(resident, engine.ResidentArenaBytes());
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ranks.AllGather(mine));
  const std::string rank = lines.size() == 1 ? "" : absl::StrCat("rank ", largest, ": ");
  return absl::StrCat(rank, lines[largest], "\n");
}

}  // namespace tessera
