// The last lines of a training run that need the measurements of all its ranks.
#ifndef TESSERA_TOOLS_TRAIN_FINAL_REPORT_H_
#define TESSERA_TOOLS_TRAIN_FINAL_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/estimate.pb.h"
#include "core/runtime/engine.h"
#include "core/train/measure/measured_steps.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

struct ComparedCost {
  std::string table;  // "" if nothing was measured, and for one rank
  // An agreed error if the communication differs from the estimate.
  absl::Status as_estimated;
};

// Returns the cost of a step beside its estimate. `plugin` names the strategy's plugin; "": none.
// Collective.
absl::StatusOr<ComparedCost> CompareCost(const StepCost& estimated, const MeasuredSteps& measured,
                                         const std::string& plugin, Ranks& ranks);

// Returns the resident memory of the rank that has most, as a line. `earlier_peak` is that of this
// rank before its peak was last reset. Only the named rank reads its mappings: each has those of
// all ranks of its host. Collective.
absl::StatusOr<std::string> MemoryLine(const Engine& engine, int64_t earlier_peak, Ranks& ranks);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FINAL_REPORT_H_
