// Compares a strategy's estimate of a training step with the compiled run.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_CHECK_ESTIMATE_H_
#define TESSERA_STRATEGIES_CONFORMANCE_CHECK_ESTIMATE_H_

#include "absl/status/status.h"
#include "core/proto/estimate.pb.h"

namespace tessera {

// Compares an estimate with the host's estimate of the same Programs. Calls, bytes and memory, by
// category and mesh axes, are exact and must be equal. A step may not be shorter than its
// computation at the host's prices. Internal names the first difference.
absl::Status CheckEstimate(const StepCost& estimate, const StepCost& of_host);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_CHECK_ESTIMATE_H_
