// The prices by which lowering chooses redistributions.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_CHOICE_PRICES_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_CHOICE_PRICES_H_

#include "core/layout/traffic/collective_call.h"

namespace tessera {

// Returns the prices of a ring with 5 us a step and 10 GB/s. They are the same for all clusters, so
// that a Program is a function of its Plan alone; whoever prices a redistribution for a cluster
// prices the steps that these prices choose. Thread safety: it never changes.
inline const CollectivePrices& ChoicePrices() {
  static const RingPrices prices(/*seconds_per_step=*/5e-6, /*seconds_per_byte=*/1e-10);
  return prices;
}

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_CHOICE_PRICES_H_
