// One head of a tensor [batch, seq, heads, head_dim] at any strides.
#ifndef TESSERA_CORE_KERNELS_CPU_HEAD_VIEW_H_
#define TESSERA_CORE_KERNELS_CPU_HEAD_VIEW_H_

#include <cstdint>
#include <cstring>

#include "core/tensor/tensor_view.h"

namespace tessera::cpu {

// Token t's element d lies at data[t * token + d * element].
struct HeadView {
  float* data = nullptr;
  int64_t token = 0, element = 0;

  HeadView() = default;
  HeadView(const TensorView& view, int64_t batch, int64_t head)
      : data(view.As<float>() + batch * view.strides[0] + head * view.strides[2]),
        token(view.strides[1]),
        element(view.strides[3]) {}

  // Copies tokens [begin, begin + count) to rows `row` elements apart.
  void Read(int64_t begin, int64_t count, int64_t dim, float* rows, int64_t row) const {
    for (int64_t t = 0; t < count; ++t) {
      const float* const from = data + (begin + t) * token;
      float* const to = rows + t * row;
      if (element == 1) {
        std::memcpy(to, from, dim * sizeof(float));
      } else {
        for (int64_t d = 0; d < dim; ++d) to[d] = from[d * element];
      }
    }
  }
  void Write(int64_t begin, int64_t count, int64_t dim, const float* rows, int64_t row) const {
    for (int64_t t = 0; t < count; ++t) {
      const float* const from = rows + t * row;
      float* const to = data + (begin + t) * token;
      if (element == 1) {
        std::memcpy(to, from, dim * sizeof(float));
      } else {
        for (int64_t d = 0; d < dim; ++d) to[d * element] = from[d];
      }
    }
  }
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_HEAD_VIEW_H_
