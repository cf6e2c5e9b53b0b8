// The traffic of collectives in groups with several ranks on each of several hosts.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_LAYOUT_TRAFFIC_HIERARCHICAL_TRAFFIC_H_
#define TESSERA_CORE_LAYOUT_TRAFFIC_HIERARCHICAL_TRAFFIC_H_

#include <cstdint>

#include "core/layout/traffic/collective_traffic.h"
#include "core/tensor/rank_placement.h"

namespace tessera {

// Buffers of more than this are sent in chunks, so that one chunk can be on its way within the
// hosts while another is on its way between them.
inline int64_t ChunkElements(const CollectiveCall& call) {
  return (int64_t{4} << 20) / SizeOf(call.dtype);
}

// Returns the traffic of one rank. The group must be on more than one host, with more than one rank
// on at least one of them.
CollectiveTraffic HierarchicalTraffic(const CollectiveCall& call, const RankPlacement& placement,
                                      int rank);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_TRAFFIC_HIERARCHICAL_TRAFFIC_H_
