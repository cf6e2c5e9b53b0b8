// Whether it is faster to keep the logits of a loss for the backward pass than to compute them
// again.
#ifndef TESSERA_CORE_COST_KEPT_LOGITS_H_
#define TESSERA_CORE_COST_KEPT_LOGITS_H_

#include "core/cost/machine.h"
#include "core/graph/graph.h"

namespace tessera {

// The ratio of the rates of a CPU, about, for planning without a described device: some 200 GFLOP/s
// in products of f32, and 20 to 40 GB/s.
inline constexpr MachineRates kUsualRates = {.flops_per_second = 10, .bytes_per_second = 1};

// Returns whether a Graph has logits that could be kept (core/plan/rewrite/keep_logits.h), and
// writing and reading them takes less time at these rates than the product that computes them. That
// is so if a logit is a sum over enough channels: its 4 bytes are written and read, and 2 FLOPs for
// each channel are saved. Thread safety: a pure function.
bool KeepingLogitsPays(const Graph& graph, const MachineRates& rates);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_KEPT_LOGITS_H_
