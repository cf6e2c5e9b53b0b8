// The times for which units occupy the link.
#ifndef TESSERA_STRATEGIES_OSDP_LINK_TIMES_H_
#define TESSERA_STRATEGIES_OSDP_LINK_TIMES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "strategies/osdp/units.h"

namespace tessera::strategy::osdp {

struct LinkTimes {
  double gather = 0;           // of all parameters, once; seconds
  double reduction = 0;        // of all gradients, once
  double least_reduction = 0;  // if gradients of other units are reduced in the same collectives
};

// Returns the times of each unit, by Storage.
absl::StatusOr<std::vector<std::vector<LinkTimes>>> LinkTimesOf(const Request& request,
                                                                const std::vector<Unit>& units,
                                                                Host& host);

}  // namespace tessera::strategy::osdp

#endif  // TESSERA_STRATEGIES_OSDP_LINK_TIMES_H_
