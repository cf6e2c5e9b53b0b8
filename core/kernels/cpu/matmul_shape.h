// The products that a request for matmul stands for.
#ifndef TESSERA_CORE_KERNELS_CPU_MATMUL_SHAPE_H_
#define TESSERA_CORE_KERNELS_CPU_MATMUL_SHAPE_H_

#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/interface/kernel.h"
#include "core/ops/matmul.h"
#include "core/tensor/shape.h"

namespace tessera::cpu {

// Returns the sizes of the products that a matmul request stands for.
inline ProductShape ShapeOf(const KernelRequest& request) {
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

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_MATMUL_SHAPE_H_
