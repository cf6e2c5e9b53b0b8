// Checks that a checkpoint of one Plan can be continued under another Plan.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_CHECK_CHECKPOINTS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_CHECK_CHECKPOINTS_H_

#include "absl/status/status.h"
#include "core/proto/plan.pb.h"
#include "strategies/conformance/rank_training.h"

namespace tessera {

struct ContinuedRun {
  int ranks = 1;
  Plan plan;
};

// Trains with `first`, saves, and continues with `second`. Internal unless the losses equal those
// of an uninterrupted run with `first`, to a relative `tolerance`.
absl::Status CheckContinued(const TrainingRun& run, const ContinuedRun& first,
                            const ContinuedRun& second, double tolerance);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_CHECK_CHECKPOINTS_H_
