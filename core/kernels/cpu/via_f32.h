// Makes kernels that take only f32 accept bf16 and f16: operands are converted to f32, and results
// back, unless they are stored in f32 (StoresInF32). It is meant for products, whose arithmetic
// costs much more than the conversion.
#ifndef TESSERA_CORE_KERNELS_CPU_VIA_F32_H_
#define TESSERA_CORE_KERNELS_CPU_VIA_F32_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

// Returns a kernel that runs `inner`, which takes row-major f32 tensors, on requests with tensors
// of bf16 or f16. Its workspace holds the f32 copies of these tensors, followed by the workspace of
// `inner`. `name` must outlive it.
std::unique_ptr<const Kernel> ViaF32(absl::string_view name, std::unique_ptr<const Kernel> inner);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_VIA_F32_H_
