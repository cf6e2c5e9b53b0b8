#include "core/cost/request_traffic.h"

#include <cstdint>

#include "absl/algorithm/container.h"
#include "core/tensor/collective.h"

namespace tessera {

using Operation = CollectiveOperation;

bool IsMessage(const CollectiveRequest& request) {
  switch (request.operation) {
    case Operation::kAllReduce:
    case Operation::kReduceScatter:
    case Operation::kAllGather:
    case Operation::kAllToAll:
      return false;
    default:
      return true;
  }
}

CollectiveTraffic MessageTraffic(const CollectiveRequest& request, const GroupSite& site,
                                 int position) {
  const int ranks = site.size();
  const int64_t bytes = request.elements * SizeOf(request.dtype);
  CollectiveTraffic traffic;
  traffic.steps = 1;
  int to = position;
  if (request.operation == Operation::kSend) {
    to = (position + request.shift) % ranks;
    traffic.bytes_sent = bytes;
  } else if (request.operation == Operation::kBroadcast) {
    to = ranks - 1;
    traffic.bytes_sent = position == 0 ? (ranks - 1) * bytes : 0;
  }
  const bool network =
      site.backend == CollectiveBackend::kTcp || site.host_of[position] != site.host_of[to];
  traffic.bytes_network = network ? traffic.bytes_sent : 0;
  return traffic;
}

CollectiveCall CallOf(const CollectiveRequest& request, int ranks) {
  CollectiveCall call;
  call.operation = request.operation;
  call.dtype = request.dtype;
  call.reduction = request.reduction;
  call.count = request.elements;
  call.part = request.elements / ranks;
  return call;
}

std::vector<int> AxesOf(const CollectiveRequest& request, const Mesh& mesh) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (absl::c_linear_search(request.mesh_axes, mesh.axis(axis).name)) axes.push_back(axis);
  }
  return axes;
}

}  // namespace tessera
