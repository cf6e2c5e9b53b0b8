// Attention of one new token over the cached keys and values.
#include "core/ops/attention_decode.h"

#include "core/kernels/reference/attention_row.h"
#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/status/status_macros.h"

namespace tessera::reference {
namespace {

// Copies `cache` to `new_cache`, with row `position` replaced by `row` [batch, 1, heads, head_dim].
void WriteRow(const TensorView& row, const TensorView& cache, const TensorView& new_cache,
              int64_t position) {
  ForEachIndex<2>(cache.shape, {cache.strides, new_cache.strides},
                  [&](int64_t i, int64_t j) { new_cache.As<double>()[j] = cache.As<double>()[i]; });
  const int64_t first = position * new_cache.strides[1];
  ForEachIndex<2>(row.shape, {row.strides, new_cache.strides}, [&](int64_t i, int64_t j) {
    new_cache.As<double>()[first + j] = row.As<double>()[i];
  });
}

int64_t AttentionDecodeWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  return request.inputs[AttentionDecodeInput::kKCache].shape[1] * SizeOf(DType::kF64);
}

absl::Status AttentionDecode(const KernelCall& call) {
  using Input = AttentionDecodeInput;
  const TensorView& q = call.inputs[Input::kQ];
  const TensorView &o = call.outputs[AttentionDecodeOutput::kO],
                   &k = call.outputs[AttentionDecodeOutput::kKCache],
                   &v = call.outputs[AttentionDecodeOutput::kVCache];
  const int64_t position = *call.inputs[Input::kPosition].As<int64_t>();
  RETURN_IF_ERROR(CheckPosition(position, k.shape[1]));
  WriteRow(call.inputs[Input::kK], call.inputs[Input::kKCache], k, position);
  WriteRow(call.inputs[Input::kV], call.inputs[Input::kVCache], v, position);

  const double scale = call.request.attributes.GetDouble("scale");
  auto* const row = static_cast<double*>(call.workspace);
  for (int64_t b = 0; b < q.shape[0]; ++b) {
    for (int64_t h = 0; h < q.shape[2]; ++h) {
      AttendRow(HeadLine(q, b, 0, h), k, v, b, h, position + 1, scale, row, HeadLine(o, b, 0, h));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddAttentionDecodeKernels(KernelList& list) {
  AddLoops(list, "attention_decode", AttentionDecode, AttentionDecodeWorkspace);
}

}  // namespace tessera::reference
