// A tensor that lies somewhere: type, strides, and an address in some memory.
//
// Owns nothing. Whether `data` may be dereferenced depends on whose memory it is: only a backend's
// own kernels look behind it.
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
