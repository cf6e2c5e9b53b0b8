// Interpolates a value between points at which it is known.
#ifndef TESSERA_CORE_COST_PRICES_LOCAL_REGRESSION_H_
#define TESSERA_CORE_COST_PRICES_LOCAL_REGRESSION_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace tessera {

struct KnownValue {
  std::vector<double> position;
  double value = 0;
};

// Returns the value at `position` of a linear function of the coordinates, fitted to the known
// values with weights that fall with the square of their distance (locally weighted regression,
// Cleveland and Devlin 1988). The squares of its slopes are penalised (ridge regression), so that a
// few points give about their mean: coordinates are best logarithms, or of that magnitude. Nothing
// if there is no value. The result is at most 0.3 lower than the lowest value, or higher than the
// highest. All positions must have equally many coordinates. Thread safety: a pure function.
std::optional<double> InterpolateLocally(absl::Span<const KnownValue> known,
                                         absl::Span<const double> position);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_PRICES_LOCAL_REGRESSION_H_
