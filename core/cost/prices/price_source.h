// Where a price comes from.
#ifndef TESSERA_CORE_COST_PRICES_PRICE_SOURCE_H_
#define TESSERA_CORE_COST_PRICES_PRICE_SOURCE_H_

#include <cstdint>

namespace tessera {

enum class PriceSource : uint8_t {
  kMeasured,      // the same work was measured on this machine
  kInterpolated,  // work of the same kind and other sizes was
  kDescribed,     // only rates are known
};

struct Price {
  double seconds = 0;
  PriceSource source = PriceSource::kDescribed;
};

}  // namespace tessera

#endif  // TESSERA_CORE_COST_PRICES_PRICE_SOURCE_H_
