#include "strategies/api/collective_prices.h"

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

}  // namespace tessera::strategy
