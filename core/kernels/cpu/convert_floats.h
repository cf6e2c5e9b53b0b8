// Converts between f32, in which every kernel of this backend computes, and the 16-bit floating
// dtypes, in which tensors may be stored.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_KERNELS_CPU_CONVERT_FLOATS_H_
#define TESSERA_CORE_KERNELS_CPU_CONVERT_FLOATS_H_

#include <cstdint>

#include "core/tensor/dtype.h"
#include "core/tensor/half.h"

namespace tessera::cpu {

// Converts `count` consecutive elements of a dtype, f32, bf16 or f16, to floats.
void ToFloats(DType dtype, const void* from, int64_t count, float* to);
// The inverse: rounds to nearest, ties to even.
void FromFloats(DType dtype, const float* from, int64_t count, void* to);

// Returns the address of element `i` of an array of this dtype.
inline const void* ElementAt(DType dtype, const void* data, int64_t i) {
  return static_cast<const char*>(data) + i * SizeOf(dtype);
}
inline void* ElementAt(DType dtype, void* data, int64_t i) {
  return static_cast<char*>(data) + i * SizeOf(dtype);
}

// Calls body(T{}) with the type T of a dtype's elements: float, BFloat16 or Float16.
template <typename Body>
auto WithFloatType(DType dtype, const Body& body) {
  if (dtype == DType::kBF16) return body(BFloat16());
  if (dtype == DType::kF16) return body(Float16());
  return body(float());
}

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_CONVERT_FLOATS_H_
