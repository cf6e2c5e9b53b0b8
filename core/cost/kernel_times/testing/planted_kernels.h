// A backend with more kernels for one operator than the reference backend has: a fast one, a slow
// one, and one whose results are wrong.
#ifndef TESSERA_CORE_COST_KERNEL_TIMES_TESTING_PLANTED_KERNELS_H_
#define TESSERA_CORE_COST_KERNEL_TIMES_TESTING_PLANTED_KERNELS_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/kernels/host/host_backend.h"
#include "core/kernels/reference/backend.h"

namespace tessera {

// Runs another kernel, waits, and adds to the first element of the output.
class PlantedKernel : public Kernel {
 public:
  struct Traits {
    std::string name;
    std::chrono::microseconds wait{0};
    double error = 0;             // added to the first element of output 0
    int64_t workspace_bytes = 0;  // claimed, not used
  };
  PlantedKernel(const Kernel* kernel, Traits traits)
      : kernel_(kernel), traits_(std::move(traits)) {}

  absl::string_view op() const override { return kernel_->op(); }
  absl::string_view name() const override { return traits_.name; }
  bool Accepts(const KernelRequest& request) const override { return kernel_->Accepts(request); }
  bool StridedInput(int i) const override { return kernel_->StridedInput(i); }
  bool StridedOutput(int i) const override { return kernel_->StridedOutput(i); }
  int64_t WorkspaceBytes(const KernelRequest& /*request*/,
                         const Processor& /*processor*/) const override {
    return traits_.workspace_bytes;
  }
  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    auto bound = kernel_->Bind(request);
    if (!bound.ok()) return bound.status();
    return std::make_unique<Bound>(*std::move(bound), traits_);
  }

 private:
  class Bound : public BoundKernel {
   public:
    Bound(std::unique_ptr<BoundKernel> kernel, const Traits& traits)
        : kernel_(std::move(kernel)), traits_(traits) {}
    absl::Status Run(const KernelCall& call) override {
      absl::Status status = kernel_->Run(call);
      std::this_thread::sleep_for(traits_.wait);
      if (call.outputs[0].elements() > 0) call.outputs[0].As<double>()[0] += traits_.error;
      return status;
    }

   private:
    std::unique_ptr<BoundKernel> kernel_;
    const Traits& traits_;
  };

  const Kernel* kernel_;
  const Traits traits_;
};

class PlantedBackend : public HostBackend {
 public:
  // The kernels of `op` are these, in this order.
  PlantedBackend(absl::string_view op, const std::vector<PlantedKernel::Traits>& planted) {
    for (const Kernel* kernel : reference_->kernels()) {
      if (kernel->op() != op) {
        kernels_.push_back(kernel);
        continue;
      }
      for (const PlantedKernel::Traits& traits : planted) {
        planted_.push_back(std::make_unique<PlantedKernel>(kernel, traits));
        kernels_.push_back(planted_.back().get());
      }
    }
  }

  absl::string_view name() const override { return "planted"; }
  absl::Span<const Kernel* const> kernels() const override { return kernels_; }
  Processor processor() const override { return reference_->processor(); }
  DType Realize(DType dtype) const override { return reference_->Realize(dtype); }
  std::string Hardware() const override { return hardware; }
  std::string Libraries() const override { return libraries; }

  std::string hardware = "model 1", libraries = "library 1.0";

 private:
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
  std::vector<std::unique_ptr<Kernel>> planted_;
  std::vector<const Kernel*> kernels_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_COST_KERNEL_TIMES_TESTING_PLANTED_KERNELS_H_
