// A list of the kernels of a backend, to which each of its files adds.
#ifndef TESSERA_CORE_KERNELS_INTERFACE_KERNEL_LIST_H_
#define TESSERA_CORE_KERNELS_INTERFACE_KERNEL_LIST_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/interface/kernel.h"

namespace tessera {

// Owns the kernels. Each file of kernels defines a function that adds its own:
//
//   void AddGeluKernels(KernelList& list) {
//     list.Add("gelu", "highway", Gelu, kElementwise);
//   }
//
// Thread safety: const methods may run concurrently.
class KernelList {
 public:
  // If an operator has several kernels, the default one is added first.
  void Add(std::unique_ptr<const Kernel> kernel) {
    kernels_.push_back(kernel.get());
    owned_.push_back(std::move(kernel));
  }
  // `op` and `name` must outlive the list.
  void Add(absl::string_view op, absl::string_view name, FunctionKernel::Function function,
           const FunctionKernel::Traits& traits) {
    Add(std::make_unique<FunctionKernel>(op, name, function, traits));
  }

  absl::Span<const Kernel* const> kernels() const { return kernels_; }

 private:
  std::vector<std::unique_ptr<const Kernel>> owned_;
  std::vector<const Kernel*> kernels_;  // the kernels of `owned_`
};

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_KERNEL_LIST_H_
