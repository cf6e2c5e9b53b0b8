#include "strategies/api/collective_prices.h"

#include <algorithm>
#include <cstddef>

namespace tessera::strategy {

CollectivePrices::CollectivePrices(const std::string& axis, int64_t ranks, int64_t groups)
    : axis_(axis) {
  if (groups > 1) {
    MeshAxis& outer = *request_.add_mesh();
    outer.set_name("outer");
    outer.set_size(groups);
  }
  MeshAxis& added = *request_.add_mesh();
  added.set_name(axis);
  added.set_size(ranks);
}

int CollectivePrices::Add(ProgramProto::Collective::Operation operation, TypeProto::DType dtype,
                          int64_t elements) {
  PriceCollectives::Call& call = *request_.add_calls();
  call.set_operation(operation);
  call.set_dtype(dtype);
  call.set_elements(elements);
  call.add_mesh_axes(axis_);
  return request_.calls_size() - 1;
}

absl::Status CollectivePrices::Ask(const Host& host) {
  ASSIGN_OR_RETURN(prices_, host.Price(request_));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GroupTimes>> PriceGroups(const Request& request, const std::string& axis,
                                                    absl::Span<const StoredGroup> groups,
                                                    int64_t node_ranks, const Host& host) {
  using Collective = ProgramProto::Collective;
  const PrecisionChoice& precision = request.message().precision();
  struct Calls {
    std::vector<int> gathers, node_gathers, reductions;
  };
  CollectivePrices prices(axis, request.ranks());
  const int64_t in_node = std::max<int64_t>(1, node_ranks);
  CollectivePrices node_prices("node", in_node, request.ranks() / in_node);
  std::vector<Calls> calls;
  int64_t replicated = 0;  // elements
  for (const StoredGroup& group : groups) {
    Calls& of_group = calls.emplace_back();
    for (const int64_t elements : group.elements) {
      if (!group.replicated) {
        of_group.gathers.push_back(
            prices.Add(Collective::ALL_GATHER, precision.parameters(), elements));
        of_group.node_gathers.push_back(
            node_prices.Add(Collective::ALL_GATHER, precision.parameters(), elements));
      }
      of_group.reductions.push_back(
          prices.Add(group.replicated ? Collective::ALL_REDUCE : Collective::REDUCE_SCATTER,
                     precision.reduction(), elements));
      if (group.replicated) replicated += elements;
    }
  }
  const int all = prices.Add(Collective::ALL_REDUCE, precision.reduction(), replicated);
  RETURN_IF_ERROR(prices.Ask(host));
  RETURN_IF_ERROR(node_prices.Ask(host));
  std::vector<GroupTimes> times;
  for (size_t i = 0; i < groups.size(); ++i) {
    GroupTimes& of_group = times.emplace_back();
    for (const int call : calls[i].gathers) of_group.gather += prices[call];
    for (const int call : calls[i].node_gathers) of_group.gather_in_node += node_prices[call];
    for (const int call : calls[i].reductions) of_group.reduction += prices[call];
    if (!groups[i].replicated || replicated == 0) continue;
    int64_t elements = 0;
    for (const int64_t each : groups[i].elements) elements += each;
    const double share = static_cast<double>(elements) / static_cast<double>(replicated);
    of_group.reduction = std::min(of_group.reduction, share * prices[all]);
  }
  return times;
}

}  // namespace tessera::strategy
