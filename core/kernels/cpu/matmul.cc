// matmul, by one of two functions of oneDNN, or by a loop of our own if the product is so small
// that calling the library costs more than the product.
#include "core/ops/matmul.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
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

// A kernel that runs an epilogue separately, on the stored product.
struct StoredEpilogue {
  const Kernel* kernel;
  KernelRequest request;
};

// The epilogues of a product: additions first, then at most one elementwise operator without other
// operands, an activation. A cast to f32 may stand anywhere between them: the product and its
// additions are f32 until they are stored. oneDNN's activations are not used, because they round
// differently from our kernels and its relu turns NaN into 0, so results would depend on whether
// operators were fused.
struct Epilogues {
  std::vector<ProductEpilogue> additions;
  std::vector<StoredEpilogue> stored_additions;  // the same additions as kernels of "add"
  std::vector<StoredEpilogue> activation;        // none or one
};

// Returns the first elementwise kernel that accepts the request; nullptr if there is none.
const Kernel* FindElementwiseKernel(const KernelRequest& request) {
  for (const Kernel* kernel : Kernels()) {
    if (kernel->op() == request.op && kernel->Elementwise() && kernel->Accepts(request)) {
      return kernel;
    }
  }
  return nullptr;
}

// Appends the request's epilogues to `epilogues`. Returns false if one of them is neither an
// addition, nor an activation in the last place, nor a cast to f32.
bool ReadEpilogues(const KernelRequest& request, Epilogues* epilogues) {
  size_t operand = MatMulInput::kCount;
  const TensorType& y = request.outputs[0];
  for (const Epilogue& epilogue : request.epilogues) {
    if (StoresInF32(request, epilogue)) continue;
    if (!epilogues->activation.empty()) return false;
    KernelRequest alone{.op = epilogue.op,
                        .attributes = epilogue.attributes,
                        .inputs = {y},
                        .outputs = {y},
                        .epilogues = {},
                        .threads = request.threads};
    const bool adds = epilogue.op == "add" && epilogue.extra_inputs == 1;
    if (adds && operand < request.inputs.size()) {
      const TensorType& added = request.inputs[operand++];
      const bool row = added.shape.size() == 1 && added.shape[0] == y.shape.back();
      if (!row && added.shape != y.shape) return false;
      epilogues->additions.push_back(
          {added.shape == y.shape ? ProductEpilogue::kAddFull : ProductEpilogue::kAddRow,
           added.dtype});
      alone.inputs.push_back(added);
    } else if (adds || epilogue.extra_inputs != 0) {
      return false;
    }
    const Kernel* const kernel = FindElementwiseKernel(alone);
    if (kernel == nullptr) return false;
    (adds ? epilogues->stored_additions : epilogues->activation)
        .push_back({kernel, std::move(alone)});
  }
  return operand == request.inputs.size();
}

// A product by oneDNN, followed by the epilogues that it cannot run itself.
class BoundProduct : public BoundKernel {
 public:
  // `added_by_product` is the number of operands that the product itself adds; `after` are run on
  // the stored product, in their order.
  static absl::StatusOr<std::unique_ptr<BoundKernel>> Make(OnednnProduct product,
                                                           const PaddedOperands& padded,
                                                           size_t added_by_product,
                                                           std::vector<StoredEpilogue> after) {
    auto bound = std::make_unique<BoundProduct>(std::move(product), padded, added_by_product);
    for (StoredEpilogue& epilogue : after) {
      ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> kernel,
                       epilogue.kernel->Bind(epilogue.request));
      bound->stored_.push_back({std::move(epilogue.request), std::move(kernel)});
    }
    return bound;
  }
  BoundProduct(OnednnProduct product, const PaddedOperands& padded, size_t added)
      : product_(std::move(product)), padded_(padded), added_(added) {}

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
    size_t next = added_;
    for (const Stored& stored : stored_) {
      const size_t inputs = stored.request.inputs.size();
      const TensorView terms[] = {y, inputs == 2 ? extra[next++] : y};
      RETURN_IF_ERROR(stored.kernel->Run(
          {stored.request, absl::MakeConstSpan(terms).first(inputs), call.outputs}));
    }
    return absl::OkStatus();
  }

  static constexpr size_t kMaxOperands = 8;

 private:
  struct Stored {
    KernelRequest request;
    std::unique_ptr<BoundKernel> kernel;
  };

  OnednnProduct product_;
  PaddedOperands padded_;
  size_t added_;
  std::vector<Stored> stored_;
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
    if (!ReadEpilogues(request, &epilogues)) return false;
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
    ReadEpilogues(request, &epilogues);
    if (method_ == ProductMethod::kPrimitive) {
      return BoundProduct::Make(std::move(product), PaddedFor(request), epilogues.additions.size(),
                                std::move(epilogues.activation));
    }
    std::vector<StoredEpilogue> stored = std::move(epilogues.stored_additions);
    for (StoredEpilogue& activation : epilogues.activation) stored.push_back(std::move(activation));
    return BoundProduct::Make(std::move(product), PaddedFor(request), 0, std::move(stored));
  }

 private:
  // Makes the product of a request. Only a primitive adds epilogues itself.
  absl::StatusOr<OnednnProduct> MakeProduct(const KernelRequest& request) const {
    Epilogues epilogues;
    if (method_ == ProductMethod::kPrimitive) ReadEpilogues(request, &epilogues);
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
