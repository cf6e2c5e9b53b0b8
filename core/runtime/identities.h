// The instruction that replaces a kernel on a rank that holds nothing of one of its inputs.
#ifndef TESSERA_CORE_RUNTIME_IDENTITIES_H_
#define TESSERA_CORE_RUNTIME_IDENTITIES_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/layout.h"
#include "core/tensor/tensor_view.h"

namespace tessera {

// Fills partial outputs with the identity of their reduction (0 for a sum). Does nothing if it has
// no outputs. Not thread-safe.
class Identities : public BoundKernel {
 public:
  // Adds an output, which is partial over some axis with this reduction. Returns Unimplemented if
  // it is strided and the backend's fill writes no strided output.
  absl::Status Add(const Backend& backend, TensorView output, AxisLayout::Reduction reduction);
  absl::Status Run(const KernelCall& call) override;

 private:
  struct Fill {
    KernelRequest request;
    std::unique_ptr<BoundKernel> kernel;
    TensorView output;
  };
  std::vector<Fill> fills_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_IDENTITIES_H_
