// Formulas for groups of several ranks on each of several hosts.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_LAYOUT_HIERARCHICAL_TRAFFIC_H_
#define TESSERA_CORE_LAYOUT_HIERARCHICAL_TRAFFIC_H_

#include <vector>

#include "absl/types/span.h"
#include "core/layout/collective_traffic.h"

namespace tessera {

// The structure of a group that follows from where its ranks are. It is that of
// collectives/hierarchical/placement.h.
struct HostPlacement {
  struct Place {
    int host = 0;   // an index of `hosts`
    int local = 0;  // among the ranks of the host
  };
  std::vector<std::vector<int>> hosts;  // the ranks of each, in the order of their first ranks
  std::vector<Place> places;            // by rank
  int rails = 0;            // groups of one rank of each host, which communicate between hosts
  bool is_regular = false;  // each host has the same number of consecutive ranks
};

HostPlacement PlaceOnHosts(absl::Span<const int> host_of);

// For a group on more than one host, with more than one rank on one of them.
CollectiveTraffic HierarchicalTraffic(const CollectiveCall& call, const HostPlacement& placement,
                                      int rank);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_HIERARCHICAL_TRAFFIC_H_
