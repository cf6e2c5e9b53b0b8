// A tensor in memory: its type, its strides, and its address.
//
// Does not own its memory. `data` may be an address on a device: only the kernels of the backend
// that owns the memory dereference it.
#ifndef TESSERA_CORE_TENSOR_TENSOR_VIEW_H_
#define TESSERA_CORE_TENSOR_TENSOR_VIEW_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/tensor/shape.h"

namespace tessera {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  Strides strides;  // in elements

  template <typename T>
  T* As() const {
    return static_cast<T*>(data);
  }
  int64_t elements() const { return NumElements(shape); }
  bool row_major() const { return IsRowMajor(shape, strides); }
};

// Returns the strides of `view` when it is broadcast to `shape` by numpy's rule.
inline Strides BroadcastStrides(const TensorView& view, absl::Span<const int64_t> shape) {
  Strides strides(shape.size(), 0);
  const size_t missing = shape.size() - view.shape.size();
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] != 1) strides[missing + d] = view.strides[d];
  }
  return strides;
}

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_TENSOR_VIEW_H_
