// matmul: by oneDNN in two ways, and, where a product is so small that calling a library costs more
// than the product, by a loop of our own.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/matmul.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/activations.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/product-inl.h"
#include "core/kernels/cpu/transpose-inl.h"
#include "core/status/status_macros.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// b as [depth, columns], in rows of `width` elements.
void PackB(const ProductShape& shape, const float* b, int64_t width, float* packed) {
  if (shape.transpose_b) Transpose(b, shape.depth, shape.columns, shape.depth, packed, width);
  for (int64_t k = 0; k < shape.depth; ++k) {
    float* const row = packed + k * width;
    if (!shape.transpose_b) std::memcpy(row, b + k * shape.columns, shape.columns * sizeof(float));
    std::fill(row + shape.columns, row + width, 0.0f);
  }
}

// `width` is that of whole vectors; `scratch` has room for a copy of b and one of y with rows of
// this width.
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

ProductShape ShapeOf(const KernelRequest& request) {
  const Shape &a = request.inputs[0].shape, &b = request.inputs[1].shape;
  const Shape& y = request.outputs[0].shape;
  const size_t rank = y.size();
  ProductShape shape;
  shape.transpose_a = request.attributes.GetBool("transpose_a");
  shape.transpose_b = request.attributes.GetBool("transpose_b");
  shape.rows = y[rank - 2];
  shape.columns = y[rank - 1];
  shape.depth = a[shape.transpose_a ? rank - 2 : rank - 1];
  const int64_t leading = NumElements(absl::MakeConstSpan(y).first(rank - 2));
  // With one b for all, the leading dimensions count as rows.
  (b.size() == 2 ? shape.rows : shape.batch) *= leading;
  return shape;
}

// --- oneDNN ---

// What oneDNN does in the product, and the activation that we do to its result. oneDNN has
// activations too, but they round otherwise than our operators, and its relu makes 0 of NaN:
// whether operators were fused would show in the results.
struct Epilogues {
  std::vector<ProductEpilogue> of_product;
  void (*activation)(int threads, const TensorView& y) = nullptr;
};

// False if there is anything else than additions and, last, an activation.
bool ToEpilogues(const KernelRequest& request, Epilogues* epilogues) {
  size_t operand = 2;
  const Shape& y = request.outputs[0].shape;
  for (const Epilogue& epilogue : request.epilogues) {
    if (epilogues->activation != nullptr) return false;
    if (epilogue.op == "relu") {
      epilogues->activation = ReluInPlace;
    } else if (epilogue.op == "gelu") {
      epilogues->activation =
          epilogue.attributes.GetString("approximate") == "tanh" ? GeluTanhInPlace : GeluErfInPlace;
    } else if (epilogue.op == "add" && epilogue.extra_inputs == 1 &&
               operand < request.inputs.size()) {
      const Shape& shape = request.inputs[operand++].shape;
      if (shape == y) {
        epilogues->of_product.push_back({ProductEpilogue::kAddFull});
      } else if (shape.size() == 1 && shape[0] == y.back()) {
        epilogues->of_product.push_back({ProductEpilogue::kAddRow});
      } else {
        return false;
      }
    } else {
      return false;
    }
  }
  return operand == request.inputs.size();
}

class BoundProduct : public BoundKernel {
 public:
  using Activation = void (*)(int threads, const TensorView& y);
  // `adds`: the product itself adds the operands of epilogues.
  BoundProduct(OnednnProduct product, bool adds, Activation activation)
      : product_(std::move(product)), adds_(adds), activation_(activation) {}

  absl::Status Run(const KernelCall& call) override {
    const TensorView& y = call.outputs[0];
    const float* operands[kMaxOperands];
    const absl::Span<const TensorView> added = call.inputs.subspan(2);
    for (size_t i = 0; i < added.size(); ++i) operands[i] = added[i].As<float>();
    RETURN_IF_ERROR(product_.Run(call.inputs[0].As<float>(), call.inputs[1].As<float>(),
                                 y.As<float>(), call.workspace,
                                 {operands, adds_ ? added.size() : 0}));
    for (size_t i = 0; i < added.size() && !adds_; ++i) {
      const TensorView terms[] = {y, added[i]};
      RETURN_IF_ERROR(Add({call.request, terms, call.outputs}));
    }
    if (activation_ != nullptr) activation_(call.request.threads, y);
    return absl::OkStatus();
  }

  static constexpr size_t kMaxOperands = 8;

 private:
  OnednnProduct product_;
  bool adds_;
  Activation activation_;
};

// A product without elements, or of a depth of 0.
class BoundZero : public BoundKernel {
 public:
  absl::Status Run(const KernelCall& call) override {
    const TensorView& y = call.outputs[0];
    std::fill_n(y.As<float>(), y.elements(), 0.0f);
    return absl::OkStatus();
  }
};

bool IsEmpty(const ProductShape& shape) {
  return shape.batch * shape.rows * shape.columns * shape.depth == 0;
}

class OnednnMatMulKernel : public Kernel {
 public:
  OnednnMatMulKernel(absl::string_view name, ProductMethod method) : name_(name), method_(method) {}

  absl::string_view op() const override { return "matmul"; }
  absl::string_view name() const override { return name_; }

  bool Accepts(const KernelRequest& request) const override {
    for (const TensorType& type : request.inputs) {
      if (type.dtype != DType::kF32) return false;
    }
    Epilogues epilogues;
    if (!ToEpilogues(request, &epilogues)) return false;
    if (request.inputs.size() > 2 + BoundProduct::kMaxOperands) return false;
    return request.epilogues.empty() || !IsEmpty(ShapeOf(request));
  }

  bool LibraryWorkspace() const override { return true; }
  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    if (IsEmpty(ShapeOf(request))) return 0;
    const absl::StatusOr<OnednnProduct> product = Prepare(request);
    return product.ok() ? product->scratch_bytes() : 0;  // Bind will say why.
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    if (IsEmpty(ShapeOf(request))) return std::make_unique<BoundZero>();
    ASSIGN_OR_RETURN(OnednnProduct product, Prepare(request));
    Epilogues epilogues;
    ToEpilogues(request, &epilogues);
    return std::make_unique<BoundProduct>(std::move(product), method_ == ProductMethod::kPrimitive,
                                          epilogues.activation);
  }

 private:
  absl::StatusOr<OnednnProduct> Prepare(const KernelRequest& request) const {
    Epilogues epilogues;
    ToEpilogues(request, &epilogues);
    if (method_ == ProductMethod::kGemm) epilogues.of_product.clear();
    return OnednnProduct::Make(method_, ShapeOf(request), epilogues.of_product, request.threads);
  }

  absl::string_view name_;
  ProductMethod method_;
};

// --- Our own ---

// Multiplications of a product that is called small.
constexpr int64_t kSmall = 1 << 18;

int64_t PaddedWidth(const ProductShape& shape) { return (shape.columns + 15) / 16 * 16; }

// Whether b is copied into whole vectors, and whether y's rows are whole vectors already.
bool PacksB(const ProductShape& shape) {
  return shape.transpose_b || PaddedWidth(shape) != shape.columns;
}
bool WritesDirectly(const ProductShape& shape) { return PaddedWidth(shape) == shape.columns; }

// A worker's y, where it is not written directly, and then its copy of b, which is filled whole.
int64_t PaddedYFloats(const ProductShape& shape) {
  return WritesDirectly(shape) ? 0 : shape.rows * PaddedWidth(shape);
}
int64_t ScratchFloats(const ProductShape& shape) {
  return PaddedYFloats(shape) + (PacksB(shape) ? shape.depth * PaddedWidth(shape) : 0);
}

}  // namespace

const Kernel& OnednnMatMul() {
  static const auto* const kernel = new OnednnMatMulKernel("onednn", ProductMethod::kPrimitive);
  return *kernel;
}

const Kernel& OnednnGemmMatMul() {
  static const auto* const kernel = new OnednnMatMulKernel("onednn_gemm", ProductMethod::kGemm);
  return *kernel;
}

bool IsSmallMatMul(const KernelRequest& request) {
  for (const TensorType& type : request.inputs) {
    if (type.dtype != DType::kF32) return false;
  }
  const ProductShape shape = ShapeOf(request);
  return shape.rows * shape.columns * shape.depth <= kSmall;
}

int64_t SmallMatMulWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  return request.threads * ScratchFloats(ShapeOf(request)) * static_cast<int64_t>(sizeof(float));
}

absl::Status SmallMatMul(const KernelCall& call) {
  const ProductShape shape = ShapeOf(call.request);
  const float *const a = call.inputs[0].As<float>(), *const b = call.inputs[1].As<float>();
  float* const y = call.outputs[0].As<float>();
  const int64_t width = PaddedWidth(shape);
  // A worker takes a dozen products or so at a time.
  const int64_t work = std::max<int64_t>(1, shape.rows * shape.columns * shape.depth);
  const int64_t together = std::max<int64_t>(1, kSmall / work);
  ParallelTasks(
      call.request.threads, (shape.batch + together - 1) / together, [&](int64_t task, int worker) {
        float* const scratch = static_cast<float*>(call.workspace) + worker * ScratchFloats(shape);
        const int64_t end = std::min(shape.batch, (task + 1) * together);
        for (int64_t i = task * together; i < end; ++i) {
          HWY_DYNAMIC_DISPATCH(SmallProduct)
          (shape, a + i * shape.rows * shape.depth, b + i * shape.depth * shape.columns, width,
           scratch, y + i * shape.rows * shape.columns);
        }
      });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
