#include "core/kernels/reference/kernel_list.h"

#include <memory>

namespace tessera::reference {

// void AddGeluKernels(KernelList& list); and so on.
#define TESSERA_KERNELS(name) void Add##name##Kernels(KernelList& list);
#include "core/kernels/reference/kernel_files.inc"
#undef TESSERA_KERNELS

namespace {

// Returns whether every floating tensor of the request is f64, as in all requests for this backend.
bool FloatsAreF64(const KernelRequest& request) {
  for (const auto* types : {&request.inputs, &request.outputs}) {
    for (const TensorType& type : *types) {
      if (IsFloating(type.dtype) && type.dtype != DType::kF64) return false;
    }
  }
  return true;
}

class Loops : public FunctionKernel {
 public:
  Loops(absl::string_view op, Function function, Traits traits)
      : FunctionKernel(op, "loops", function, traits) {}
  // An operator that takes a list has any number of inputs.
  bool StridedInput(int /*i*/) const override { return true; }
};

}  // namespace

void AddLoops(KernelList& list, absl::string_view op, FunctionKernel::Function function,
              int64_t (*workspace_bytes)(const KernelRequest& request,
                                         const Processor& processor)) {
  const FunctionKernel::Traits traits = {
      .accepts = FloatsAreF64, .strided_outputs = ~uint32_t{0}, .workspace_bytes = workspace_bytes};
  list.Add(std::make_unique<Loops>(op, function, traits));
}

absl::Span<const Kernel* const> Kernels() {
  static const auto* const list = [] {
    auto* all = new KernelList();
#define TESSERA_KERNELS(name) Add##name##Kernels(*all);
#include "core/kernels/reference/kernel_files.inc"
#undef TESSERA_KERNELS
    return all;
  }();
  return list->kernels();
}

}  // namespace tessera::reference
