// Dispatches from a dtype, which is a run-time value, to the C++ type of its elements.
#ifndef TESSERA_CORE_TENSOR_ELEMENT_TYPE_H_
#define TESSERA_CORE_TENSOR_ELEMENT_TYPE_H_

#include <cstdint>

#include "core/tensor/dtype.h"
#include "core/tensor/half.h"

namespace tessera {

// Calls body(T{}) with the type T of a dtype's elements.
template <typename Body>
auto WithElementType(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF64:
      return body(double{});
    case DType::kBF16:
      return body(BFloat16{});
    case DType::kF16:
      return body(Float16{});
    case DType::kI32:
      return body(int32_t{});
    case DType::kI64:
      return body(int64_t{});
    case DType::kU8:
      return body(uint8_t{});
    case DType::kF32:
      break;
  }
  return body(float{});
}

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_ELEMENT_TYPE_H_
