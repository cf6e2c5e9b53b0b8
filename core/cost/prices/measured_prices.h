// The prices that were measured on this machine, for Programs that run on it.
#ifndef TESSERA_CORE_COST_PRICES_MEASURED_PRICES_H_
#define TESSERA_CORE_COST_PRICES_MEASURED_PRICES_H_

#include "core/cost/prices/collective_curves.h"
#include "core/cost/prices/kernel_prices.h"

namespace tessera {

// Not thread-safe, except that const methods may run concurrently.
struct MeasuredPrices {
  KernelPrices kernels;
  CollectiveCurves collectives;

  bool empty() const { return kernels.empty() && collectives.empty(); }
  // Adds the measurements of `other`, as newer ones.
  void AddAll(const MeasuredPrices& other) {
    kernels.AddAll(other.kernels);
    collectives.AddAll(other.collectives);
  }
};

}  // namespace tessera

#endif  // TESSERA_CORE_COST_PRICES_MEASURED_PRICES_H_
