#include "core/kernels/cpu/kernel_list.h"

namespace tessera::cpu {

// void AddGeluKernels(KernelList& list); and so on.
#define TESSERA_KERNELS(name) void Add##name##Kernels(KernelList& list);
#include "core/kernels/cpu/kernel_files.inc"
#undef TESSERA_KERNELS

bool FloatsAreNotF64(const KernelRequest& request) {
  for (const auto* types : {&request.inputs, &request.outputs}) {
    for (const TensorType& type : *types) {
      if (type.dtype == DType::kF64) return false;
    }
  }
  return true;
}

bool IsArithmetic(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  return dtype != DType::kF64 && dtype != DType::kU8;
}

absl::Span<const Kernel* const> Kernels() {
  static const auto* const list = [] {
    auto* all = new KernelList();
#define TESSERA_KERNELS(name) Add##name##Kernels(*all);
#include "core/kernels/cpu/kernel_files.inc"
#undef TESSERA_KERNELS
    return all;
  }();
  return list->kernels();
}

}  // namespace tessera::cpu
