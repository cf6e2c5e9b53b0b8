// One head of a tensor [batch, seq, heads, head_dim] at any strides.
#ifndef TESSERA_CORE_KERNELS_CPU_HEAD_VIEW_H_
#define TESSERA_CORE_KERNELS_CPU_HEAD_VIEW_H_

#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/convert_floats.h"
#include "core/tensor/tensor_view.h"

namespace tessera::cpu {

// Element d of token t is `t * token_stride + d * element_stride` elements after the first one.
struct HeadView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t token_stride = 0, element_stride = 0;

  HeadView() = default;
  HeadView(const TensorView& view, int64_t batch, int64_t head)
      : data(ElementAt(view.dtype, view.data, batch * view.strides[0] + head * view.strides[2])),
        dtype(view.dtype),
        token_stride(view.strides[1]),
        element_stride(view.strides[3]) {}

  // Converts tokens [begin, begin + count) to rows of floats, `row` elements apart.
  void Read(int64_t begin, int64_t count, int64_t dim, float* rows, int64_t row) const {
    for (int64_t t = 0; t < count; ++t) {
      const void* const from = ElementAt(dtype, data, (begin + t) * token_stride);
      float* const to = rows + t * row;
      if (element_stride == 1) {
        ToFloats(dtype, from, dim, to);
        continue;
      }
      WithFloatType(dtype, [&](auto type) {
        const auto* const elements = static_cast<const decltype(type)*>(from);
        for (int64_t d = 0; d < dim; ++d) to[d] = static_cast<float>(elements[d * element_stride]);
      });
    }
  }
  // Converts rows of floats, `row` elements apart, to tokens [begin, begin + count).
  void Write(int64_t begin, int64_t count, int64_t dim, const float* rows, int64_t row) const {
    for (int64_t t = 0; t < count; ++t) {
      const float* const from = rows + t * row;
      void* const to = ElementAt(dtype, data, (begin + t) * token_stride);
      if (element_stride == 1) {
        FromFloats(dtype, from, dim, to);
        continue;
      }
      WithFloatType(dtype, [&](auto type) {
        auto* const elements = static_cast<decltype(type)*>(to);
        for (int64_t d = 0; d < dim; ++d) elements[d * element_stride] = decltype(type)(from[d]);
      });
    }
  }
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_HEAD_VIEW_H_
