// convolution and its gradients, by oneDNN's convolutions, or as products of matrices.
#include "core/ops/convolution.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "core/kernels/cpu/epilogues.h"
#include "core/kernels/cpu/im2col_convolution.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/onednn_convolution.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/cpu/via_f32.h"
#include "core/kernels/cpu/zero_output.h"
#include "core/status/status_macros.h"

namespace tessera::cpu {
namespace {

class BoundConvolution : public BoundKernel {
 public:
  explicit BoundConvolution(OnednnConvolution convolution) : convolution_(std::move(convolution)) {}

  absl::Status Run(const KernelCall& call) override {
    const bool has_bias = call.inputs.size() > ConvolutionInput::kCount;
    return convolution_.Run(call.inputs[0].data, call.inputs[1].data,
                            has_bias ? call.inputs[ConvolutionInput::kCount].data : nullptr,
                            call.outputs[0].data, call.workspace);
  }

 private:
  OnednnConvolution convolution_;
};

class OnednnConvolutionKernel : public Kernel {
 public:
  // All tensors have this dtype, f32 or bf16; the result may be stored in f32 (StoresInF32), and
  // then its bias may be f32.
  OnednnConvolutionKernel(absl::string_view op, ConvolutionResult result, absl::string_view name,
                          DType dtype)
      : op_(op), result_(result), name_(name), dtype_(dtype) {}

  absl::string_view op() const override { return op_; }
  absl::string_view name() const override { return name_; }

  bool Accepts(const KernelRequest& request) const override {
    if (dtype_ == DType::kBF16 && !StaysInPixels(request)) return false;
    Epilogues epilogues;
    if (!ReadEpilogues(request, ConvolutionInput::kCount, &epilogues)) return false;
    if (!epilogues.activation.empty() || !AddsAtMostABias(epilogues.additions)) return false;
    if (!epilogues.additions.empty() && SizesOf(request).empty()) return false;
    const bool casts = request.epilogues.size() > epilogues.additions.size();
    const DType stored = casts ? DType::kF32 : dtype_;
    return request.inputs[0].dtype == dtype_ && request.inputs[1].dtype == dtype_ &&
           request.outputs[0].dtype == stored;
  }

  bool LibraryWorkspace() const override { return true; }
  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    if (SizesOf(request).empty()) return 0;
    const absl::StatusOr<OnednnConvolution> convolution = MakeConvolution(request);
    return convolution.ok() ? convolution->scratch_bytes() : 0;  // Bind returns the error.
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    if (SizesOf(request).empty()) return std::make_unique<BoundZero>();
    ASSIGN_OR_RETURN(OnednnConvolution convolution, MakeConvolution(request));
    return std::make_unique<BoundConvolution>(std::move(convolution));
  }

 private:
  // Returns whether a convolution of bf16 multiplies the channels of its own pixels only. If there
  // are few or an odd number of them, oneDNN reads the next pixels too, also those of the next
  // picture, and multiplies them by 0: a NaN among them would become a NaN of this result. (Seen
  // with AVX-512 BF16 and with AMX, in oneDNN 2.6.3; its gradients do not do it.)
  bool StaysInPixels(const KernelRequest& request) const {
    constexpr int64_t kFew = 16;
    const ConvolutionSizes sizes = SizesOf(request);
    const bool is_depthwise = sizes.groups > 1 && sizes.group_in() == 1 && sizes.group_out() == 1;
    return result_ != ConvolutionResult::kY || sizes.empty() || is_depthwise ||
           (sizes.group_in() >= kFew && sizes.group_in() % 2 == 0);
  }

  bool AddsAtMostABias(absl::Span<const ProductEpilogue> additions) const {
    return additions.empty() || (result_ == ConvolutionResult::kY && additions.size() == 1 &&
                                 additions[0].kind == ProductEpilogue::kAddRow);
  }

  ConvolutionSizes SizesOf(const KernelRequest& request) const {
    return ConvolutionSizes::Of(result_, request.inputs, request.outputs, request.attributes);
  }
  absl::StatusOr<OnednnConvolution> MakeConvolution(const KernelRequest& request) const {
    Epilogues epilogues;
    ReadEpilogues(request, ConvolutionInput::kCount, &epilogues);
    OnednnConvolution::DTypes dtypes = {dtype_, request.outputs[0].dtype, std::nullopt};
    if (!epilogues.additions.empty()) dtypes.bias = epilogues.additions[0].dtype;
    return OnednnConvolution::Make(result_, SizesOf(request), dtypes, request.threads);
  }

  absl::string_view op_;
  ConvolutionResult result_;
  absl::string_view name_;
  DType dtype_;
};

}  // namespace

void AddConvolutionKernels(KernelList& list) {
  for (const auto& [op, result] :
       {std::pair{"convolution", ConvolutionResult::kY},
        std::pair{"convolution_grad_data", ConvolutionResult::kDx},
        std::pair{"convolution_grad_weight", ConvolutionResult::kDweight}}) {
    // All kernels of the forward pass take a bias and an activation.
    const auto fusing = [&, result = result](std::unique_ptr<const Kernel> kernel) {
      if (result != ConvolutionResult::kY) return kernel;
      return WithStoredEpilogues(ConvolutionInput::kCount, std::move(kernel));
    };
    const auto onednn = [&, op = op, result = result](absl::string_view name, DType dtype) {
      return fusing(std::make_unique<OnednnConvolutionKernel>(op, result, name, dtype));
    };
    const auto im2col = [&, op = op, result = result](DType dtype) {
      return fusing(Im2colConvolutionKernel(op, result, dtype));
    };
    if (MultipliesBFloat16()) {
      // Windows of a whole picture have a large weight, which a product does not copy.
      if (result != ConvolutionResult::kY) list.Add(im2col(DType::kBF16));
      list.Add(onednn("onednn_bf16", DType::kBF16));
    }
    list.Add(onednn("onednn", DType::kF32));
    list.Add(im2col(DType::kF32));
    list.Add(ViaF32("onednn_via_f32", onednn("onednn", DType::kF32)));
    list.Add(ViaF32("onednn_im2col_via_f32", im2col(DType::kF32)));
  }
}

}  // namespace tessera::cpu
