// matmul, by one of two functions of oneDNN, or by a loop of our own if the product is so small
// that calling the library costs more than the product.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/matmul.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/product-inl.h"
#include "core/kernels/cpu/transpose-inl.h"
#include "core/kernels/cpu/via_f32.h"
#include "core/ops/matmul.h"
#include "core/status/status_macros.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Copies b as [depth, columns], in rows of `width` elements.
void PackB(const ProductShape& shape, const float* b, int64_t width, float* packed) {
  if (shape.transpose_b) Transpose(b, shape.depth, shape.columns, shape.depth, packed, width);
  for (int64_t k = 0; k < shape.depth; ++k) {
    float* const row = packed + k * width;
    if (!shape.transpose_b) std::memcpy(row, b + k * shape.columns, shape.columns * sizeof(float));
    std::fill(row + shape.columns, row + width, 0.0f);
  }
}

// Computes y = a b, one product of a batch. `width` is the number of columns, padded to full
// vectors; `scratch` has room for a copy of b and one of y with rows of this width, as far as
// PacksB and WritesDirectly say that they are needed.
void SmallProduct(const ProductShape& shape, const float* a, const float* b, int64_t width,
                  float* scratch, float* y) {
  const bool direct = width == shape.columns;
  float* const padded = scratch + shape.depth * width;
  if (!direct || shape.transpose_b) {
    PackB(shape, b, width, scratch);
    b = scratch;
  }
  const ProductArguments arguments = {
      .a = a,
      .a_row = shape.transpose_a ? 1 : shape.depth,
      .a_depth = shape.transpose_a ? shape.rows : 1,
      .b = b,
      .b_row = width,
      .c = direct ? y : padded,
      .c_row = width,
      .depth = shape.depth,
      .accumulate = false,
  };
  Product(arguments, shape.rows, width);
  if (direct) return;
  for (int64_t r = 0; r < shape.rows; ++r) {
    std::memcpy(y + r * shape.columns, padded + r * width, shape.columns * sizeof(float));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(SmallProduct);

// Returns the sizes of the products that a matmul request stands for.
ProductShape ShapeOf(const KernelRequest& request) {
  const Shape &a = request.inputs[MatMulInput::kA].shape,
              &b = request.inputs[MatMulInput::kB].shape;
  const Shape& y = request.outputs[0].shape;
  const size_t rank = y.size();
  ProductShape shape;
  shape.operands = request.inputs[MatMulInput::kA].dtype;
  shape.result = request.outputs[0].dtype;
  shape.transpose_a = request.attributes.GetBool("transpose_a");
  shape.transpose_b = request.attributes.GetBool("transpose_b");
  shape.rows = y[rank - 2];
  shape.columns = y[rank - 1];
  if (ContractsLeading(request.attributes)) {  // the leading dimensions of a and b are summed over
    shape.depth = NumElements(absl::MakeConstSpan(a).first(a.size() - 1));
    return shape;
  }
  shape.depth = a[shape.transpose_a ? rank - 2 : rank - 1];
  const int64_t leading = NumElements(absl::MakeConstSpan(y).first(rank - 2));
  // If all share one b, the leading dimensions count as rows.
  (b.size() == 2 ? shape.rows : shape.batch) *= leading;
  return shape;
}

// --- oneDNN ---

// A kernel that runs an epilogue separately, on the stored product.
struct StoredEpilogue {
  const Kernel* kernel;
  KernelRequest request;
};

// The epilogues of a product: additions first, then at most one elementwise operator without other
// operands, an activation. oneDNN's activations are not used, because they round differently from
// our kernels and its relu turns NaN into 0, so results would depend on whether operators were
// fused.
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
// addition nor an activation in the last place.
bool ReadEpilogues(const KernelRequest& request, Epilogues* epilogues) {
  size_t operand = MatMulInput::kCount;
  const TensorType& y = request.outputs[0];
  for (const Epilogue& epilogue : request.epilogues) {
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
          {added.shape == y.shape ? ProductEpilogue::kAddFull : ProductEpilogue::kAddRow});
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
                                                           size_t added_by_product,
                                                           std::vector<StoredEpilogue> after) {
    auto bound = std::make_unique<BoundProduct>(std::move(product), added_by_product);
    for (StoredEpilogue& epilogue : after) {
      ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> kernel,
                       epilogue.kernel->Bind(epilogue.request));
      bound->stored_.push_back({std::move(epilogue.request), std::move(kernel)});
    }
    return bound;
  }
  BoundProduct(OnednnProduct product, size_t added) : product_(std::move(product)), added_(added) {}

  absl::Status Run(const KernelCall& call) override {
    const TensorView& y = call.outputs[0];
    const void* operands[kMaxOperands];
    const absl::Span<const TensorView> extra = call.inputs.subspan(MatMulInput::kCount);
    for (size_t i = 0; i < added_; ++i) operands[i] = extra[i].data;
    RETURN_IF_ERROR(product_.Run(call.inputs[MatMulInput::kA].data,
                                 call.inputs[MatMulInput::kB].data, y.data, call.workspace,
                                 {operands, added_}));
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
  size_t added_;
  std::vector<Stored> stored_;
};

// The kernel of a product without elements or with a depth of 0.
class BoundZero : public BoundKernel {
 public:
  absl::Status Run(const KernelCall& call) override {
    const TensorView& y = call.outputs[0];
    std::memset(y.data, 0, static_cast<size_t>(y.elements() * SizeOf(y.dtype)));
    return absl::OkStatus();
  }
};

bool IsEmpty(const ProductShape& shape) {
  return shape.batch * shape.rows * shape.columns * shape.depth == 0;
}

class OnednnMatMulKernel : public Kernel {
 public:
  // All tensors have the same dtype: f32, or one that OnednnProduct takes by this method.
  OnednnMatMulKernel(absl::string_view name, ProductMethod method, DType dtype)
      : name_(name), method_(method), dtype_(dtype) {}

  absl::string_view op() const override { return "matmul"; }
  absl::string_view name() const override { return name_; }

  bool Accepts(const KernelRequest& request) const override {
    for (const TensorType& type : request.inputs) {
      if (type.dtype != dtype_) return false;
    }
    if (request.outputs[0].dtype != dtype_) return false;
    Epilogues epilogues;
    if (!ReadEpilogues(request, &epilogues)) return false;
    if (request.inputs.size() > MatMulInput::kCount + BoundProduct::kMaxOperands) return false;
    return request.epilogues.empty() || !IsEmpty(ShapeOf(request));
  }

  bool LibraryWorkspace() const override { return true; }
  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    if (IsEmpty(ShapeOf(request))) return 0;
    const absl::StatusOr<OnednnProduct> product = MakeProduct(request);
    return product.ok() ? product->scratch_bytes() : 0;  // Bind returns the error.
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    if (IsEmpty(ShapeOf(request))) return std::make_unique<BoundZero>();
    ASSIGN_OR_RETURN(OnednnProduct product, MakeProduct(request));
    Epilogues epilogues;
    ReadEpilogues(request, &epilogues);
    if (method_ == ProductMethod::kPrimitive) {
      return BoundProduct::Make(std::move(product), epilogues.additions.size(),
                                std::move(epilogues.activation));
    }
    std::vector<StoredEpilogue> stored = std::move(epilogues.stored_additions);
    for (StoredEpilogue& activation : epilogues.activation) stored.push_back(std::move(activation));
    return BoundProduct::Make(std::move(product), 0, std::move(stored));
  }

 private:
  // Makes the product of a request. Only a primitive adds epilogues itself.
  absl::StatusOr<OnednnProduct> MakeProduct(const KernelRequest& request) const {
    Epilogues epilogues;
    if (method_ == ProductMethod::kPrimitive) ReadEpilogues(request, &epilogues);
    return OnednnProduct::Make(method_, ShapeOf(request), epilogues.additions, request.threads);
  }

  absl::string_view name_;
  ProductMethod method_;
  DType dtype_;
};

// --- Our own ---

// A product of at most this many multiplications is small.
constexpr int64_t kMaxSmallWork = 1 << 18;

int64_t PaddedWidth(const ProductShape& shape) { return (shape.columns + 15) / 16 * 16; }

// Return whether b is copied into padded rows, and whether y is written directly, because its rows
// need no padding.
bool PacksB(const ProductShape& shape) {
  return shape.transpose_b || PaddedWidth(shape) != shape.columns;
}
bool WritesDirectly(const ProductShape& shape) { return PaddedWidth(shape) == shape.columns; }

// The scratch of one worker holds its copy of b, and then y if that is not written directly.
int64_t PaddedYFloats(const ProductShape& shape) {
  return WritesDirectly(shape) ? 0 : shape.rows * PaddedWidth(shape);
}
int64_t ScratchFloats(const ProductShape& shape) {
  return PaddedYFloats(shape) + (PacksB(shape) ? shape.depth * PaddedWidth(shape) : 0);
}

// Returns whether the loop of our own accepts a request.
bool IsSmallMatMul(const KernelRequest& request) {
  for (const TensorType& type : request.inputs) {
    if (type.dtype != DType::kF32) return false;
  }
  const ProductShape shape = ShapeOf(request);
  return shape.rows * shape.columns * shape.depth <= kMaxSmallWork;
}

// Returns the number of products in a task, which together have about kMaxSmallWork
// multiplications.
int64_t ProductsOfATask(const ProductShape& shape) {
  const int64_t work = std::max<int64_t>(1, shape.rows * shape.columns * shape.depth);
  return std::max<int64_t>(1, kMaxSmallWork / work);
}

int64_t TaskCount(const ProductShape& shape) {
  const int64_t together = ProductsOfATask(shape);
  return (shape.batch + together - 1) / together;
}

int64_t SmallMatMulWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  const ProductShape shape = ShapeOf(request);
  const int64_t workers = std::min<int64_t>(request.threads, TaskCount(shape));
  return workers * ScratchFloats(shape) * static_cast<int64_t>(sizeof(float));
}

absl::Status SmallMatMul(const KernelCall& call) {
  const ProductShape shape = ShapeOf(call.request);
  const float* const a = call.inputs[MatMulInput::kA].As<float>();
  const float* const b = call.inputs[MatMulInput::kB].As<float>();
  float* const y = call.outputs[0].As<float>();
  const int64_t width = PaddedWidth(shape);
  const int64_t together = ProductsOfATask(shape), tasks = TaskCount(shape);
  const auto workers = static_cast<int>(std::min<int64_t>(call.request.threads, tasks));
  ParallelTasks(workers, tasks, [&](int64_t task, int worker) {
    float* const scratch = static_cast<float*>(call.workspace) +
                           ScratchIndexOf(worker, workers) * ScratchFloats(shape);
    const int64_t end = std::min(shape.batch, (task + 1) * together);
    for (int64_t i = task * together; i < end; ++i) {
      HWY_DYNAMIC_DISPATCH(SmallProduct)
      (shape, a + i * shape.rows * shape.depth, b + i * shape.depth * shape.columns, width, scratch,
       y + i * shape.rows * shape.columns);
    }
  });
  return absl::OkStatus();
}

}  // namespace

void AddMatMulKernels(KernelList& list) {
  if (MultipliesBFloat16()) {
    list.Add(std::make_unique<OnednnMatMulKernel>("onednn_bf16", ProductMethod::kPrimitive,
                                                  DType::kBF16));
  }
  list.Add(std::make_unique<OnednnMatMulKernel>("onednn", ProductMethod::kPrimitive, DType::kF32));
  list.Add(std::make_unique<OnednnMatMulKernel>("onednn_gemm", ProductMethod::kGemm, DType::kF32));
  const FunctionKernel::Traits small = {.accepts = IsSmallMatMul,
                                        .workspace_bytes = SmallMatMulWorkspace};
  list.Add("matmul", "highway", SmallMatMul, small);
  for (const auto& [name, method] : {std::pair{"onednn_via_f32", ProductMethod::kPrimitive},
                                     std::pair{"onednn_gemm_via_f32", ProductMethod::kGemm}}) {
    list.Add(ViaF32(name, std::make_unique<OnednnMatMulKernel>(name, method, DType::kF32)));
  }
  list.Add(ViaF32("highway_via_f32",
                  std::make_unique<FunctionKernel>("matmul", "highway", SmallMatMul, small)));
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
