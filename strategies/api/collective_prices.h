// Prices of collectives among all ranks, asked for in one call.
#ifndef TESSERA_STRATEGIES_API_COLLECTIVE_PRICES_H_
#define TESSERA_STRATEGIES_API_COLLECTIVE_PRICES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {

// Thread safety: none.
class CollectivePrices {
 public:
  // The axis is as the Plans name it.
  CollectivePrices(const std::string& axis, int ranks);

  // Returns the index of a collective over arrays of so many elements on each rank: the whole array
  // of an all-reduce, the gathered array of an all-gather, and the array that a reduce-scatter
  // divides.
  int Add(ProgramProto::Collective::Operation operation, TypeProto::DType dtype, int64_t elements);
  // Asks for all of them.
  absl::Status Ask(const Host& host);
  // Returns the seconds of a collective.
  double operator[](int index) const { return prices_.seconds(index); }

 private:
  std::string axis_;
  PriceCollectives request_;
  Prices prices_;
};

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_COLLECTIVE_PRICES_H_
