// Plans that suit any model, with which a strategy's checkpoints are exchanged.
//
// Thread safety: pure functions.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_PLAIN_PLANS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_PLAIN_PLANS_H_

#include <vector>

#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Every rank has all parameters and a part of the batch's rows.
Plan DataParallelPlan(const std::vector<Graph>& graphs);

// The same, with all trainable parameters stored as one flat array, of which each rank has a part.
Plan FullyShardedPlan(const std::vector<Graph>& graphs);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_PLAIN_PLANS_H_
