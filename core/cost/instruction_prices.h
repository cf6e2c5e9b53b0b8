// The price of every instruction of a Program.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_INSTRUCTION_PRICES_H_
#define TESSERA_CORE_COST_INSTRUCTION_PRICES_H_

#include <cstdint>
#include <optional>

#include "core/cost/cluster_prices.h"
#include "core/cost/prices/measured_prices.h"
#include "core/cost/prices/price_source.h"
#include "core/cost/simulate_step.h"
#include "core/ids/table.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/program/program.h"
#include "core/proto/cluster.pb.h"

namespace tessera {

struct PricedInstructions {
  Table<InstructionId, Work> works;
  Table<InstructionId, PriceSource> sources;
  IssueOrder order = IssueOrder::kThread;  // of the ranks of the cluster
};

// Returns the prices for a job on a cluster. `collectives` has those of its collectives; kernels
// have those of `measured`, if it is not null and has some.
PricedInstructions PriceInstructions(const Program& program, const ClusterPrices& collectives,
                                     const Cluster& cluster, const GroupSite& job,
                                     const MeasuredPrices* measured);

// Returns the space to which an instruction copies, if it copies between the device and offload
// memory.
std::optional<MemorySpace> HostCopyTo(const Program& program, const Instruction& instruction);
// Returns the bytes that a copy copies.
int64_t CopiedBytes(const Program& program, const Instruction& instruction);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_INSTRUCTION_PRICES_H_
