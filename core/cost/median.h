// The median of measurements.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_MEDIAN_H_
#define TESSERA_CORE_COST_MEDIAN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tessera {

// Returns the median, of an even number the larger of the two in the middle; 0 if there are none.
inline double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tessera

#endif  // TESSERA_CORE_COST_MEDIAN_H_
