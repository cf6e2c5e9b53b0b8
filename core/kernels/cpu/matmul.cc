// matmul, by one of two functions of oneDNN, or by a loop of our own if the product is so small
// that calling the library costs more than the product.
#include "core/ops/matmul.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/kernels/cpu/epilogues.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/matmul_shape.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/cpu/padded_rows.h"
#include "core/kernels/cpu/small_matmul.h"
#include "core/kernels/cpu/via_f32.h"
#include "core/kernels/cpu/zero_output.h"
#include "core/status/status_macros.h"

namespace tessera::cpu {
namespace {

// A product by oneDNN, followed by the epilogues that it cannot run itself.
class BoundProduct : public BoundKernel {
 public:
  // `added_by_product` is the number of operands that the product itself adds; `after` are run on
  // the stored product, in their order.
  static absl::StatusOr<std::unique_ptr<BoundKernel>> Make(
      OnednnProduct product, const PaddedOperands& padded, size_t added_by_product,
      const std::vector<StoredEpilogue>& after) {
    ASSIGN_OR_RETURN(BoundEpilogues stored, BoundEpilogues::Bind(after));
    return std::make_unique<BoundProduct>(std::move(product), padded, added_by_product,
                                          std::move(stored));
  }
  BoundProduct(OnednnProduct product, const PaddedOperands& padded, size_t added,
               BoundEpilogues stored)
      : product_(std::move(product)), padded_(padded), added_(added), stored_(std::move(stored)) {}

  absl::Status Run(const KernelCall& call) override {
    const TensorView& y = call.outputs[0];
    const void* operands[kMaxOperands];
    const absl::Span<const TensorView> extra = call.inputs.subspan(MatMulInput::kCount);
    for (size_t i = 0; i < added_; ++i) operands[i] = extra[i].data;
    const int threads = call.request.threads;
    const void* const a =
        padded_.a.Copy(threads, call.inputs[MatMulInput::kA].data, call.workspace);
    const void* const b =
        padded_.b.Copy(threads, call.inputs[MatMulInput::kB].data, call.workspace);
    char* const scratch = static_cast<char*>(call.workspace) + padded_.bytes;
    RETURN_IF_ERROR(product_.Run(a, b, y.data, scratch, {operands, added_}));
    return stored_.Run(y, extra.subspan(added_));
  }

  static constexpr size_t kMaxOperands = 8;

 private:
  OnednnProduct product_;
  PaddedOperands padded_;
  size_t added_;
  BoundEpilogues stored_;
};

// Returns whether a product has no elements, or a depth of 0.
bool IsEmpty(const ProductShape& shape) {
  return shape.batch * shape.rows * shape.columns * shape.depth == 0;
}

class OnednnMatMulKernel : public Kernel {
 public:
  // All tensors have the same dtype: f32, or one that OnednnProduct takes by this method. After a
  // cast to f32, the result and what is added to it may be f32.
  //
  // If `pads`, operands whose rows collide in the cache are copied to padded rows first
  // (padded_rows.h), and only products that have one are accepted.
  OnednnMatMulKernel(absl::string_view name, ProductMethod method, DType dtype, bool pads = false)
      : name_(name), method_(method), dtype_(dtype), pads_(pads) {}

  absl::string_view op() const override { return "matmul"; }
  absl::string_view name() const override { return name_; }

  bool Accepts(const KernelRequest& request) const override {
    const auto casts = absl::c_count_if(request.epilogues, [&](const Epilogue& epilogue) {
      return StoresInF32(request, epilogue);
    });
    const DType result = casts > 0 ? DType::kF32 : dtype_;
    if (request.outputs[0].dtype != result) return false;
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      const DType dtype = request.inputs[i].dtype;
      const bool may_be_result = i >= MatMulInput::kCount && dtype == result;
      if (dtype != dtype_ && !may_be_result) return false;
    }
    if (pads_ && PaddedOperands(ShapeOf(request)).bytes == 0) return false;
    Epilogues epilogues;
    if (!ReadEpilogues(request, MatMulInput::kCount, &epilogues)) return false;
    if (request.inputs.size() > MatMulInput::kCount + BoundProduct::kMaxOperands) return false;
    return request.epilogues.size() == static_cast<size_t>(casts) || !IsEmpty(ShapeOf(request));
  }

  bool LibraryWorkspace() const override { return true; }
  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    if (IsEmpty(ShapeOf(request))) return 0;
    const absl::StatusOr<OnednnProduct> product = MakeProduct(request);
    if (!product.ok()) return 0;  // Bind returns the error.
    return PaddedFor(request).bytes + product->scratch_bytes();
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    if (IsEmpty(ShapeOf(request))) return std::make_unique<BoundZero>();
    ASSIGN_OR_RETURN(OnednnProduct product, MakeProduct(request));
    Epilogues epilogues;
    ReadEpilogues(request, MatMulInput::kCount, &epilogues);
    if (method_ == ProductMethod::kPrimitive) {
      return BoundProduct::Make(std::move(product), PaddedFor(request), epilogues.additions.size(),
                                epilogues.activation);
    }
    std::vector<StoredEpilogue> stored = std::move(epilogues.stored_additions);
    for (StoredEpilogue& activation : epilogues.activation) stored.push_back(std::move(activation));
    return BoundProduct::Make(std::move(product), PaddedFor(request), 0, std::move(stored));
  }

 private:
  // Makes the product of a request. Only a primitive adds epilogues itself.
  absl::StatusOr<OnednnProduct> MakeProduct(const KernelRequest& request) const {
    Epilogues epilogues;
    if (method_ == ProductMethod::kPrimitive)
      ReadEpilogues(request, MatMulInput::kCount, &epilogues);
    return OnednnProduct::Make(method_, PaddedFor(request).ShapeWith(ShapeOf(request)),
                               epilogues.additions, request.threads);
  }
  PaddedOperands PaddedFor(const KernelRequest& request) const {
    return pads_ ? PaddedOperands(ShapeOf(request)) : PaddedOperands();
  }

  absl::string_view name_;
  ProductMethod method_;
  DType dtype_;
  bool pads_;
};

}  // namespace

void AddMatMulKernels(KernelList& list) {
  if (MultipliesBFloat16()) {
    list.Add(std::make_unique<OnednnMatMulKernel>("onednn_bf16", ProductMethod::kPrimitive,
                                                  DType::kBF16));
    list.Add(std::make_unique<OnednnMatMulKernel>("onednn_bf16_padded", ProductMethod::kPrimitive,
                                                  DType::kBF16, /*pads=*/true));
  }
  list.Add(std::make_unique<OnednnMatMulKernel>("onednn", ProductMethod::kPrimitive, DType::kF32));
  list.Add(std::make_unique<OnednnMatMulKernel>("onednn_gemm", ProductMethod::kGemm, DType::kF32));
  list.Add(std::make_unique<OnednnMatMulKernel>("onednn_padded", ProductMethod::kPrimitive,
                                                DType::kF32, /*pads=*/true));
  list.Add(SmallMatMulKernel());
  for (const auto& [name, method] : {std::pair{"onednn_via_f32", ProductMethod::kPrimitive},
                                     std::pair{"onednn_gemm_via_f32", ProductMethod::kGemm}}) {
    list.Add(ViaF32(name, std::make_unique<OnednnMatMulKernel>(name, method, DType::kF32)));
  }
  list.Add(ViaF32("highway_via_f32", SmallMatMulKernel()));
}

}  // namespace tessera::cpu
