// The cost of a planned step: a row of the tables of tools/plan.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_PLAN_FIGURES_H_
#define TESSERA_TOOLS_PLAN_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/model/sample_unit.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/strategy.pb.h"
#include "tools/plan/cell.h"

namespace tessera {

struct Figures {
  std::string label;
  int ranks = 1;
  std::string fault;  // one sentence without its end if it could not be planned; else ""
  std::vector<std::string> notes;
  // The fields below are those of a step that was planned.
  int64_t batch = 0;  // rows of a step
  SampleUnit unit;    // of a row
  int64_t micro_batches = 1;
  std::string recompute;  // as in the configuration
  StepCost cost;          // predicted
  double units_per_second = 0;
  // The FLOPs of the model, without recomputation, per second of all ranks, over those of which
  // their devices are capable in the dtype of the matmuls: model FLOPs utilization, in [0, 1].
  double mfu = 0;
  int64_t peak_bytes = 0;             // of a rank
  int64_t limit_bytes = 0;            // 0: not known
  bool limit_is_set = false;          // in the configuration, or by --cluster; else of this machine
  std::optional<LeastMemory> least;   // if it does not fit and less was searched for
  int64_t sent_bytes = 0;             // of all collectives, each by the rank that sends most
  strategy::Explanation explanation;  // of the strategy; empty if it gave none

  bool planned() const { return fault.empty(); }
  bool fits() const { return limit_bytes <= 0 || peak_bytes <= limit_bytes; }
  // Returns the days that training on so many units (tokens, pictures) takes.
  double DaysFor(double units) const;
};

// Returns the figures of a planned step.
Figures FiguresOf(const Cell& cell);
// Returns those of a request that could not be planned.
Figures FailedFigures(const CellRequest& request, const absl::Status& status);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_FIGURES_H_
