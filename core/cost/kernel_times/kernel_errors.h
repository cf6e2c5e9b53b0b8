// How far kernels are from the reference.
#ifndef TESSERA_CORE_COST_KERNEL_TIMES_KERNEL_ERRORS_H_
#define TESSERA_CORE_COST_KERNEL_TIMES_KERNEL_ERRORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"

namespace tessera {

// Returns the largest error of an element of any output, as a share of the largest element of that
// output of `exact`. Infinite if an element is not finite.
double LargestError(const std::vector<std::vector<double>>& outputs,
                    const std::vector<std::vector<double>>& exact);

// Returns the request, without epilogues other than casts to f32, for a part of its work that the
// reference does in some milliseconds: what one of many devices would do if its operator were split
// over them by its signatures. Sums stay as long as they are if splitting the outputs suffices.
// `least_extent`: dimensions are not split into less, but for the batch, if that is not enough.
KernelRequest SmallPart(const KernelRequest& request, int64_t least_extent = 16);

// Returns for each of `kernels`, candidates for `request`, the largest error of an element of an
// output, as a share of that output's largest element: of its results for random operands of the
// request's small part, compared with those of the reference in double. Infinite for a kernel that
// does not accept that part, and for results that are not finite.
absl::StatusOr<std::vector<double>> ErrorsOf(const std::vector<const Kernel*>& kernels,
                                             const KernelRequest& request, Backend& backend);

// Returns whether a kernel with this error may replace the default kernel, which has `by_rule`: it
// is no further from the reference than twice that, or than the rounding of its results.
bool IsAccurateEnough(double error, double by_rule, DType dtype);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_KERNEL_TIMES_KERNEL_ERRORS_H_
