// Attention of one new token over the cached keys and values. Its time is that of reading them
// once.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/attention_decode.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/head_view.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/math-inl.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/attention_decode.h"
#include "core/status/status_macros.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Sets `output` to the attention of a query over `count` keys and values of `dim` elements, which
// are `row` elements apart. `scores` has room for `count`.
template <typename T>
void Decode(const float* query, const T* keys, const T* values, int64_t row, int64_t count,
            int64_t dim, float scale, float* scores, float* output) {
  double sum[1];
  for (int64_t j = 0; j < count; ++j) {
    const T* const key = keys + j * row;
    SumVectors<1>(
        dim,
        [=](auto access, int64_t i, Floats* terms)
            HWY_ATTR { terms[0] = hn::Mul(access.Load(query + i), access.Load(key + i)); },
        sum);
    scores[j] = scale * static_cast<float>(sum[0]);
  }
  const Floats max = SetF(MaxOfFloats(scores, count));
  SumVectors<1>(
      count,
      [=](auto access, int64_t i, Floats* terms) HWY_ATTR {
        terms[0] = ExpOfNegative(hn::Sub(access.Load(scores + i), max));
        access.Store(terms[0], scores + i);
      },
      sum);
  std::fill_n(output, dim, 0.0f);
  for (int64_t j = 0; j < count; ++j) {
    const T* const value = values + j * row;
    const Floats weight = SetF(scores[j]);
    ForEachVector(dim, [=](auto access, int64_t i) HWY_ATTR {
      access.Store(hn::MulAdd(weight, access.Load(value + i), access.Load(output + i)), output + i);
    });
  }
  const Floats total = SetF(static_cast<float>(sum[0]));
  ForEachVector(dim, [=](auto access, int64_t i) HWY_ATTR {
    access.Store(hn::Div(access.Load(output + i), total), output + i);
  });
}

void DecodeHead(const float* query, const HeadView& keys, const HeadView& values, int64_t count,
                int64_t dim, float scale, float* scores, float* output) {
  WithFloatType(keys.dtype, [&](auto type) {
    using T = decltype(type);
    Decode(query, static_cast<const T*>(keys.data), static_cast<const T*>(values.data),
           keys.token_stride, count, dim, scale, scores, output);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(DecodeHead);

// Copies `cache` to `new_cache`, with row `position` replaced by `row` [batch, 1, heads, head_dim].
// `scratch` has room for head_dim.
void CopyCacheWithRow(int threads, const TensorView& row, const TensorView& cache,
                      const TensorView& new_cache, int64_t position, float* scratch) {
  const int64_t heads = cache.shape[2], dim = cache.shape[3];
  if (new_cache.data != cache.data) {
    ParallelFor(threads, cache.elements(), 16384, [&](int64_t begin, int64_t end) {
      std::memcpy(ElementAt(cache.dtype, new_cache.data, begin),
                  ElementAt(cache.dtype, cache.data, begin), (end - begin) * SizeOf(cache.dtype));
    });
  }
  for (int64_t b = 0; b < cache.shape[0]; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      HeadView(row, b, h).Read(0, 1, dim, scratch, dim);
      HeadView(new_cache, b, h).Write(position, 1, dim, scratch, dim);
    }
  }
}

int64_t AttentionDecodeWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  const Shape& cache = request.inputs[AttentionDecodeInput::kKCache].shape;
  if (cache[0] * cache[2] == 0) return 0;  // no task would use it
  return request.threads * (cache[1] + 2 * cache[3]) * static_cast<int64_t>(sizeof(float));
}

absl::Status AttentionDecode(const KernelCall& call) {
  using Input = AttentionDecodeInput;
  const TensorView& q = call.inputs[Input::kQ];
  const TensorView &o = call.outputs[AttentionDecodeOutput::kO],
                   &k = call.outputs[AttentionDecodeOutput::kKCache],
                   &v = call.outputs[AttentionDecodeOutput::kVCache];
  const int64_t position = *call.inputs[Input::kPosition].As<int64_t>();
  const int64_t rows = k.shape[1], heads = k.shape[2], dim = k.shape[3];
  RETURN_IF_ERROR(CheckPosition(position, rows));
  const int threads = call.request.threads;
  float* const scratch = static_cast<float*>(call.workspace);
  CopyCacheWithRow(threads, call.inputs[Input::kK], call.inputs[Input::kKCache], k, position,
                   scratch);
  CopyCacheWithRow(threads, call.inputs[Input::kV], call.inputs[Input::kVCache], v, position,
                   scratch);
  const auto scale = static_cast<float>(call.request.attributes.GetDouble("scale"));
  ParallelTasks(threads, k.shape[0] * heads, [&](int64_t task, int worker) {
    const int64_t b = task / heads, h = task % heads;
    float* const scores =
        static_cast<float*>(call.workspace) + ScratchIndexOf(worker, threads) * (rows + 2 * dim);
    float *const query = scores + rows, *const output = query + dim;
    HeadView(q, b, h).Read(0, 1, dim, query, dim);
    HWY_DYNAMIC_DISPATCH(DecodeHead)
    (query, HeadView(k, b, h), HeadView(v, b, h), position + 1, dim, scale, scores, output);
    HeadView(o, b, h).Write(0, 1, dim, output, dim);
  });
  return absl::OkStatus();
}

}  // namespace

void AddAttentionDecodeKernels(KernelList& list) {
  list.Add("attention_decode", "highway", AttentionDecode,
           {.accepts = FloatsAreNotF64,
            .strided_inputs = 0b111,
            .strided_outputs = 0b1,
            .workspace_bytes = AttentionDecodeWorkspace});
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
