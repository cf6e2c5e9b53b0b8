// reduce_max, in which a NaN gives NaN, and its gradient. Plain loops are enough: no model spends
// time here.
#include "core/ops/reduce_max.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/reduction.h"

namespace tessera::cpu {
namespace {

// Returns the larger number; NaN if either is NaN.
double Larger(double a, double b) { return a > b || a != a ? a : b; }

double MaxOfRow(const float* x, int64_t count) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) max = Larger(max, x[i]);
  return max;
}

void MaxOfColumns(const float* x, int64_t rows, int64_t stride, int64_t width, double* result) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c) result[c] = Larger(result[c], x[r * stride + c]);
  }
}

void CombineMax(const double* from, int64_t count, double* result) {
  for (int64_t i = 0; i < count; ++i) result[i] = Larger(result[i], from[i]);
}

// Calls body(offset) for every element of a tensor of these sizes and strides, in row-major order.
template <typename Body>
void ForEachOffset(const Shape& sizes, const Strides& strides, const Body& body) {
  const int64_t count = NumElements(sizes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0, rest = i;
    for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
      offset += rest % sizes[d] * strides[d];
      rest /= sizes[d];
    }
    body(offset);
  }
}

int64_t ReduceMaxWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  return ReductionWorkspace(request);
}

absl::Status ReduceMax(const KernelCall& call) {
  Reduce(call, {.identity = -std::numeric_limits<double>::infinity(),
                .row = MaxOfRow,
                .columns = MaxOfColumns,
                .combine = CombineMax});
  return absl::OkStatus();
}

// The kept and the reduced dimensions of a row-major tensor.
struct Dimensions {
  Shape kept, reduced;
  Strides kept_strides, reduced_strides;

  Dimensions(const Shape& shape, const std::vector<int64_t>& axes) {
    const Strides strides = RowMajorStrides(shape);
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool is_reduced =
          std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
      (is_reduced ? reduced : kept).push_back(shape[d]);
      (is_reduced ? reduced_strides : kept_strides).push_back(strides[d]);
    }
  }
  // Returns the offset of the first of the elements whose maximum is output `i`.
  int64_t FirstOffset(int64_t i) const {
    int64_t first = 0;
    for (int d = static_cast<int>(kept.size()) - 1; d >= 0; --d) {
      first += i % kept[d] * kept_strides[d];
      i /= kept[d];
    }
    return first;
  }
};

// Sets dx: each dy is divided equally among the elements that equal the maximum, the others get 0.
template <typename T>
void ShareAmongLargest(const KernelCall& call) {
  const TensorView &dy = call.inputs[ReduceMaxGradInput::kDy],
                   &x = call.inputs[ReduceMaxGradInput::kX],
                   &y = call.inputs[ReduceMaxGradInput::kY];
  const TensorView& dx = call.outputs[0];
  const Dimensions dims(x.shape, call.request.attributes.GetInts("axes"));
  const int64_t grain = std::max<int64_t>(16, 4096 / NumElements(dims.reduced));
  ParallelFor(call.request.threads, NumElements(dims.kept), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = dims.FirstOffset(i);
      const T* const from = x.As<T>() + first;
      T* const to = dx.As<T>() + first;
      const float max = static_cast<float>(y.As<T>()[i]);
      int64_t equal = 0;
      ForEachOffset(dims.reduced, dims.reduced_strides, [&](int64_t offset) {
        equal += static_cast<float>(from[offset]) == max ? 1 : 0;
      });
      const T share(static_cast<float>(dy.As<T>()[i]) / static_cast<float>(equal));
      ForEachOffset(dims.reduced, dims.reduced_strides, [&](int64_t offset) {
        to[offset] = static_cast<float>(from[offset]) == max ? share : T(0.0f);
      });
    }
  });
}

absl::Status ReduceMaxGrad(const KernelCall& call) {
  if (call.inputs[ReduceMaxGradInput::kX].elements() == 0) return absl::OkStatus();
  WithFloatType(call.outputs[0].dtype, [&](auto type) { ShareAmongLargest<decltype(type)>(call); });
  return absl::OkStatus();
}

}  // namespace

void AddReduceMaxKernels(KernelList& list) {
  list.Add("reduce_max", "loops", ReduceMax, WithWorkspace(ReduceMaxWorkspace));
  list.Add("reduce_max_grad", "loops", ReduceMaxGrad, kRowMajor);
}

}  // namespace tessera::cpu
