// Loops over a batch [rows, ..., channels] whose rows belong to groups.
#ifndef TESSERA_CORE_KERNELS_REFERENCE_BATCH_H_
#define TESSERA_CORE_KERNELS_REFERENCE_BATCH_H_

#include <array>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "core/kernels/interface/kernel.h"
#include "core/kernels/reference/strided.h"
#include "core/ops/batch_norm.h"

namespace tessera::reference {

// Returns element (i, j) of a matrix.
inline double& At(const TensorView& matrix, int64_t i, int64_t j) {
  return matrix.As<double>()[i * matrix.strides[0] + j * matrix.strides[1]];
}

// Returns whether a row counts in statistics. Without an input `valid`, all do.
inline bool IsValid(const KernelCall& call, int valid, int64_t row) {
  if (static_cast<int>(call.inputs.size()) <= valid) return true;
  const TensorView& view = call.inputs[valid];
  return view.As<double>()[row * view.strides[0]] != 0;
}

// Calls body(row, group, lines) for the channels of each position of tensors of one shape; `lines`
// are theirs. The groups are those of `statistic`, in which they must be.
template <size_t N, typename Body>
absl::Status ForEachPosition(const BatchGroups& groups, const TensorView& statistic,
                             const std::array<const TensorView*, N>& tensors, Body body) {
  const Shape& shape = tensors[0]->shape;
  if (!groups.Contain(shape[0], statistic.shape[0])) {
    return absl::InvalidArgumentError("rows and statistics are of different groups");
  }
  const auto between = [](const auto& dims) {
    return std::decay_t<decltype(dims)>(dims.begin() + 1, dims.end() - 1);
  };
  std::array<Strides, N> strides;
  for (size_t k = 0; k < N; ++k) strides[k] = between(tensors[k]->strides);
  for (int64_t row = 0; row < shape[0]; ++row) {
    ForEachIndex<N>(between(shape), strides, [&](auto... offsets) {
      std::array<int64_t, N> starts = {offsets...};
      std::array<Line, N> lines;
      for (size_t k = 0; k < N; ++k) {
        lines[k] = LastLine(*tensors[k], row * tensors[k]->strides[0] + starts[k]);
      }
      body(row, groups.Of(row), lines);
    });
  }
  return absl::OkStatus();
}

}  // namespace tessera::reference

#endif  // TESSERA_CORE_KERNELS_REFERENCE_BATCH_H_
