#include "strategies/api/collective_prices.h"

#include <algorithm>
#include <cstddef>

namespace tessera::strategy {

CollectivePrices::CollectivePrices(const std::string& axis, int ranks) : axis_(axis) {
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
                                                    const Host& host) {
  using Collective = ProgramProto::Collective;
  const PrecisionChoice& precision = request.message().precision();
  struct Calls {
    std::vector<int> gathers, reductions;
  };
  CollectivePrices prices(axis, request.ranks());
  std::vector<Calls> calls;
  int64_t replicated = 0;  // elements
  for (const StoredGroup& group : groups) {
    Calls& of_group = calls.emplace_back();
    for (const int64_t elements : group.elements) {
      if (!group.replicated) {
        of_group.gathers.push_back(
            prices.Add(Collective::ALL_GATHER, precision.parameters(), elements));
      }
      of_group.reductions.push_back(
          prices.Add(group.replicated ? Collective::ALL_REDUCE : Collective::REDUCE_SCATTER,
                     precision.reduction(), elements));
      if (group.replicated) replicated += elements;
    }
  }
  const int all = prices.Add(Collective::ALL_REDUCE, precision.reduction(), replicated);
  RETURN_IF_ERROR(prices.Ask(host));
  std::vector<GroupTimes> times;
  for (size_t i = 0; i < groups.size(); ++i) {
    GroupTimes& of_group = times.emplace_back();
    for (const int call : calls[i].gathers) of_group.gather += prices[call];
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
