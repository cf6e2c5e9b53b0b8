// Splits the dimensions of a reduction's input into reduced and kept ones.
#ifndef TESSERA_CORE_KERNELS_REFERENCE_REDUCTION_H_
#define TESSERA_CORE_KERNELS_REFERENCE_REDUCTION_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/graph/attributes.h"
#include "core/tensor/shape.h"

namespace tessera::reference {

// The axes of a reduction. Its methods pick the reduced or the kept dimensions of an operand.
struct Reduction {
  std::vector<int64_t> axes;
  bool keep_dims;

  explicit Reduction(const Attributes& attributes)
      : axes(attributes.GetInts("axes")), keep_dims(attributes.GetBool("keep_dims")) {}

  // Return the sizes (or strides) of the input's dimensions that are reduced, or that are kept.
  template <typename Dims>
  Dims Reduced(const Dims& dims) const {
    return Pick(dims, true);
  }
  template <typename Dims>
  Dims Kept(const Dims& dims) const {
    return Pick(dims, false);
  }
  // Returns those of the output, without the dimensions of size 1 that keep_dims adds.
  template <typename Dims>
  Dims KeptOfOutput(const Dims& dims) const {
    return keep_dims ? Kept(dims) : dims;
  }

 private:
  template <typename Dims>
  Dims Pick(const Dims& dims, bool reduced) const {
    Dims picked;
    for (size_t d = 0; d < dims.size(); ++d) {
      const bool is_axis = std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) > 0;
      if (is_axis == reduced) picked.push_back(dims[d]);
    }
    return picked;
  }
};

}  // namespace tessera::reference

#endif  // TESSERA_CORE_KERNELS_REFERENCE_REDUCTION_H_
