// Plans that suit any model. The checks exchange checkpoints between them and a strategy.
//
// Thread safety: pure functions.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_PLAIN_PLANS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_PLAIN_PLANS_H_

#include <vector>

#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Returns the Plan in which every rank has all parameters and a shard of the batch.
Plan DataParallelPlan(const std::vector<Graph>& graphs);

// The same, with all trainable parameters stored as one flat array that is split over the ranks.
Plan FullyShardedPlan(const std::vector<Graph>& graphs);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_PLAIN_PLANS_H_
