#include "core/kernels/interface/backend.h"

#include "absl/strings/str_cat.h"

namespace tessera {

std::vector<const Kernel*> CandidateKernels(const KernelCatalogue& catalogue,
                                            const KernelRequest& request) {
  std::vector<const Kernel*> candidates;
  for (const Kernel* kernel : catalogue.kernels()) {
    if (kernel->op() == request.op && kernel->Accepts(request)) candidates.push_back(kernel);
  }
  return candidates;
}

absl::StatusOr<const Kernel*> DefaultKernel(const KernelCatalogue& catalogue,
                                            const KernelRequest& request) {
  for (const Kernel* kernel : catalogue.kernels()) {
    if (kernel->op() == request.op && kernel->Accepts(request)) return kernel;
  }
  return absl::NotFoundError(
      absl::StrCat("backend '", catalogue.name(), "' has no kernel for ", request.Key()));
}

}  // namespace tessera
