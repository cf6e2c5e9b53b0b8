// Prices of collectives, asked for in one call; and the times of groups of parameters.
#ifndef TESSERA_STRATEGIES_API_COLLECTIVE_PRICES_H_
#define TESSERA_STRATEGIES_API_COLLECTIVE_PRICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {

// Thread safety: none.
class CollectivePrices {
 public:
  // The collectives are over an axis, which is as the Plans name it: over all ranks; or over so
  // many groups of consecutive `ranks`.
  CollectivePrices(const std::string& axis, int64_t ranks, int64_t groups = 1);

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

// How parameters are stored: whole on each rank, or in parts that are gathered, in so many arrays.
struct StoredGroup {
  bool replicated = false;
  std::vector<int64_t> elements;  // of each array that is gathered, and whose gradients are reduced
};

// Seconds of the link.
struct GroupTimes {
  double gather = 0;          // of all arrays, once; 0: replicated
  double gather_in_node = 0;  // of all arrays, among the ranks of a node
  double reduction = 0;       // of all gradients, once
};

// Returns the times of each group, in the dtypes of the run. The gradients of replicated groups are
// reduced together, in buckets: each takes its share of that. A node has so many consecutive ranks;
// 0: there are no nodes. Errors are those of the host.
absl::StatusOr<std::vector<GroupTimes>> PriceGroups(const Request& request, const std::string& axis,
                                                    absl::Span<const StoredGroup> groups,
                                                    int64_t node_ranks, const Host& host);

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_COLLECTIVE_PRICES_H_
