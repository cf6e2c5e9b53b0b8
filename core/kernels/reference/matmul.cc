#include "core/ops/matmul.h"

#include <utility>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

// A matrix that starts at an element of `view`.
struct Matrix {
  const TensorView& view;
  int64_t row_stride, column_stride;

  Matrix(const TensorView& tensor, bool transpose)
      : view(tensor),
        row_stride(tensor.strides[tensor.strides.size() - 2]),
        column_stride(tensor.strides.back()) {
    if (transpose) std::swap(row_stride, column_stride);
  }
  double& At(int64_t offset, int64_t row, int64_t column) const {
    return view.As<double>()[offset + row * row_stride + column * column_stride];
  }
};

// Computes the sum of the products over the leading dimensions of a and b; a is transposed.
absl::Status SumOfProducts(const Matrix& a, const Matrix& b, const Matrix& y) {
  SetZero(y.view);
  const int64_t depth = a.view.shape[a.view.shape.size() - 2];
  ForEachIndex<2>(Leading(a.view.shape, 2),
                  {Leading(a.view.strides, 2), Leading(b.view.strides, 2)},
                  [&](int64_t a_offset, int64_t b_offset) {
                    for (int64_t m = 0; m < y.view.shape[0]; ++m) {
                      for (int64_t n = 0; n < y.view.shape[1]; ++n) {
                        for (int64_t k = 0; k < depth; ++k) {
                          y.At(0, m, n) += a.At(a_offset, m, k) * b.At(b_offset, k, n);
                        }
                      }
                    }
                  });
  return absl::OkStatus();
}

absl::Status MatMul(const KernelCall& call) {
  const Attributes& attributes = call.request.attributes;
  const Matrix a(call.inputs[MatMulInput::kA], attributes.GetBool("transpose_a"));
  const Matrix b(call.inputs[MatMulInput::kB], attributes.GetBool("transpose_b"));
  const Matrix y(call.outputs[0], false);
  const int64_t rows = y.view.shape[y.view.shape.size() - 2];
  const int64_t columns = y.view.shape.back();
  const int64_t depth =
      a.view.shape[a.view.shape.size() - (attributes.GetBool("transpose_a") ? 2 : 1)];

  if (ContractsLeading(attributes)) return SumOfProducts(a, b, y);
  const Shape batch = Leading(y.view.shape, 2);
  const Strides b_batch =
      b.view.shape.size() == 2 ? Strides(batch.size(), 0) : Leading(b.view.strides, 2);
  ForEachIndex<3>(batch, {Leading(a.view.strides, 2), b_batch, Leading(y.view.strides, 2)},
                  [&](int64_t a_offset, int64_t b_offset, int64_t y_offset) {
                    for (int64_t m = 0; m < rows; ++m) {
                      for (int64_t n = 0; n < columns; ++n) {
                        double sum = 0;
                        for (int64_t k = 0; k < depth; ++k) {
                          sum += a.At(a_offset, m, k) * b.At(b_offset, k, n);
                        }
                        y.At(y_offset, m, n) = sum;
                      }
                    }
                  });
  return absl::OkStatus();
}

}  // namespace

void AddMatMulKernels(KernelList& list) { AddLoops(list, "matmul", MatMul); }

}  // namespace tessera::reference
