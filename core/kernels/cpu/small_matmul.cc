#include "core/kernels/cpu/small_matmul.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/small_matmul.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/matmul_shape.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/product-inl.h"
#include "core/kernels/cpu/transpose-inl.h"

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
  const ProductArguments<float> arguments = {
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

std::unique_ptr<const Kernel> SmallMatMulKernel() {
  const FunctionKernel::Traits small = {.accepts = IsSmallMatMul,
                                        .workspace_bytes = SmallMatMulWorkspace};
  return std::make_unique<FunctionKernel>("matmul", "highway", SmallMatMul, small);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
