// Checks that a checkpoint of one Plan can be continued under another Plan.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_CHECK_CHECKPOINTS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_CHECK_CHECKPOINTS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/proto/plan.pb.h"
#include "strategies/conformance/rank_training.h"

namespace tessera {

struct ContinuedRun {
  int ranks = 1;
  Plan plan;
};

// Trains with `first`, saves, and continues from the checkpoint with each of `others`. Returns for
// each whether its losses equal those of the uninterrupted run with `first`, to a relative
// `tolerance`; Internal if not. An error of `first` is that of all.
std::vector<absl::Status> CheckContinued(const TrainingRun& run, const ContinuedRun& first,
                                         absl::Span<const ContinuedRun> others, double tolerance);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_CHECK_CHECKPOINTS_H_
