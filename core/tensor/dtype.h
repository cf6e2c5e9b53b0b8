// The element types of tensors.
//
// Thread safety: everything here is a pure function.
#ifndef TESSERA_CORE_TENSOR_DTYPE_H_
#define TESSERA_CORE_TENSOR_DTYPE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

enum class DType : uint8_t { kF32, kF64, kBF16, kF16, kI32, kI64, kU8 };

// Every DType, in the order of the enum. Tests iterate over it.
inline constexpr DType kAllDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                                       DType::kI32, DType::kI64, DType::kU8};

// Bytes of one element.
int64_t SizeOf(DType dtype);

// "f32", "bf16", "i64", ...: the spelling of every text form and of flags.
absl::string_view DTypeName(DType dtype);

// The inverse of DTypeName. The message of InvalidArgument lists the valid spellings.
absl::StatusOr<DType> ParseDType(absl::string_view name);

bool IsFloating(DType dtype);

// bf16 or f16.
bool IsHalf(DType dtype);

// Returns the dtype of statistics of values of `dtype` (sums over many elements, a row's mean),
// which must not be rounded to 16 bits: f64 for f64, else f32.
DType StatisticDType(DType dtype);

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_DTYPE_H_
