#include "core/kernels/reference/backend.h"

#include "core/kernels/host/host_backend.h"
#include "core/kernels/reference/kernel_list.h"

namespace tessera {
namespace {

class ReferenceBackend : public HostBackend {
 public:
  absl::string_view name() const override { return "reference"; }
  absl::Span<const Kernel* const> kernels() const override { return reference::Kernels(); }
  Processor processor() const override { return {.name = "reference", .threads = 1}; }

  DType Realize(DType dtype) const override { return IsFloating(dtype) ? DType::kF64 : dtype; }
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace tessera
