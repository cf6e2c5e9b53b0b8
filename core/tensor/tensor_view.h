// A tensor in memory: its type, its strides, and its address.
//
// Does not own its memory. `data` may be an address on a device: only the kernels of the backend
// that owns the memory dereference it.
#ifndef TESSERA_CORE_TENSOR_TENSOR_VIEW_H_
#define TESSERA_CORE_TENSOR_TENSOR_VIEW_H_

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

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_TENSOR_VIEW_H_
