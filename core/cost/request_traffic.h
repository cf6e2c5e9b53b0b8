// The requests of a Program as calls of a group, and the traffic of those that are messages.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_REQUEST_TRAFFIC_H_
#define TESSERA_CORE_COST_REQUEST_TRAFFIC_H_

#include <vector>

#include "core/layout/mesh.h"
#include "core/layout/traffic/collective_call.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/program/collective_request.h"

namespace tessera {

// Returns whether a request is a send, a receive or a broadcast, which GroupTraffic does not cover.
bool IsMessage(const CollectiveRequest& request);

// Returns the traffic of a message, for the rank at this position of the group.
CollectiveTraffic MessageTraffic(const CollectiveRequest& request, const GroupSite& site,
                                 int position);

// Returns the call of a request that is no message, in a group of `ranks`.
CollectiveCall CallOf(const CollectiveRequest& request, int ranks);

// Returns the axes of a request that the mesh has.
std::vector<int> AxesOf(const CollectiveRequest& request, const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_REQUEST_TRAFFIC_H_
