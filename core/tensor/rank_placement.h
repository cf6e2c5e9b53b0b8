// The hosts of the ranks of a group, and the structure of its collectives that follows from them.
// The communicators and planning both use it.
//
// Thread safety: immutable after PlaceRanks.
#ifndef TESSERA_CORE_TENSOR_RANK_PLACEMENT_H_
#define TESSERA_CORE_TENSOR_RANK_PLACEMENT_H_

#include <vector>

#include "absl/types/span.h"

namespace tessera {

struct RankPlacement {
  struct Place {
    int host = 0;   // an index of `hosts`
    int local = 0;  // among the ranks of the host
  };
  std::vector<std::vector<int>> hosts;  // the ranks of each; in the order of their first ranks
  std::vector<Place> places;            // by rank

  // The number of rails. A rail is the ranks with the same local index, one of each host, which
  // communicate between hosts. There is a rail for each local index that all hosts have, up to the
  // first one whose ranks are not in the order of the hosts.
  int rails = 0;
  // Whether each host has the same number of consecutive ranks.
  bool is_regular = false;
  // Whether reducing within hosts first keeps the order of additions of
  // collectives/reduce/reduce.h.
  bool keeps_order = false;

  int size() const { return static_cast<int>(places.size()); }
  int host_count() const { return static_cast<int>(hosts.size()); }
};

// host_of[r] is the number of the host of rank r. There must be at least one rank.
RankPlacement PlaceRanks(absl::Span<const int> host_of);

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_RANK_PLACEMENT_H_
