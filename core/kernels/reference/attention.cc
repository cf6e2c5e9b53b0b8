// Attention by the full softmax of one row of scores at a time; the row is the only scratch. The
// gradient recomputes the scores and needs no scratch.
#include "core/ops/attention.h"

#include <cmath>

#include "core/kernels/reference/attention_row.h"
#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

// Returns one element of lse [batch, heads, seq].
double& RowStatistic(const TensorView& view, int64_t batch, int64_t head, int64_t token) {
  return view
      .As<double>()[batch * view.strides[0] + head * view.strides[1] + token * view.strides[2]];
}

// Calls body(batch, head, query token, number of keys that it sees).
template <typename Body>
void ForEachQuery(const TensorView& q, const TensorView& k, bool causal, Body body) {
  for (int64_t b = 0; b < q.shape[0]; ++b) {
    for (int64_t h = 0; h < q.shape[2]; ++h) {
      for (int64_t i = 0; i < q.shape[1]; ++i) body(b, h, i, causal ? i + 1 : k.shape[1]);
    }
  }
}

int64_t AttentionWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  return request.inputs[AttentionInput::kK].shape[1] * SizeOf(DType::kF64);
}

absl::Status Attention(const KernelCall& call) {
  const TensorView &q = call.inputs[AttentionInput::kQ], &k = call.inputs[AttentionInput::kK],
                   &v = call.inputs[AttentionInput::kV];
  const TensorView &o = call.outputs[AttentionOutput::kO],
                   &lse = call.outputs[AttentionOutput::kLse];
  const double scale = call.request.attributes.GetDouble("scale");
  auto* const row = static_cast<double*>(call.workspace);
  ForEachQuery(q, k, call.request.attributes.GetBool("causal"),
               [&](int64_t b, int64_t h, int64_t i, int64_t keys) {
                 RowStatistic(lse, b, h, i) = AttendRow(HeadLine(q, b, i, h), k, v, b, h, keys,
                                                        scale, row, HeadLine(o, b, i, h));
               });
  return absl::OkStatus();
}

absl::Status AttentionGrad(const KernelCall& call) {
  using Input = AttentionGradInput;
  const TensorView& d_o = call.inputs[Input::kDo];
  const TensorView &q = call.inputs[Input::kQ], &k = call.inputs[Input::kK],
                   &v = call.inputs[Input::kV];
  const TensorView &o = call.inputs[Input::kO], &lse = call.inputs[Input::kLse];
  const TensorView &dq = call.outputs[AttentionGradOutput::kDq],
                   &dk = call.outputs[AttentionGradOutput::kDk],
                   &dv = call.outputs[AttentionGradOutput::kDv];
  const double scale = call.request.attributes.GetDouble("scale");
  const int64_t dim = q.shape[3];
  for (const TensorView& gradient : call.outputs) SetZero(gradient);
  ForEachQuery(q, k, call.request.attributes.GetBool("causal"),
               [&](int64_t b, int64_t h, int64_t i, int64_t keys) {
                 const Line d_o_i = HeadLine(d_o, b, i, h), q_i = HeadLine(q, b, i, h);
                 // The term that the gradients of all scores of the row have in common.
                 const double common = Dot(d_o_i, HeadLine(o, b, i, h), dim);
                 for (int64_t j = 0; j < keys; ++j) {
                   const Line k_j = HeadLine(k, b, j, h), v_j = HeadLine(v, b, j, h);
                   const double probability =
                       std::exp(scale * Dot(q_i, k_j, dim) - RowStatistic(lse, b, h, i));
                   const double dscore = probability * (Dot(d_o_i, v_j, dim) - common);
                   for (int64_t d = 0; d < dim; ++d) {
                     HeadLine(dq, b, i, h)[d] += scale * dscore * k_j[d];
                     HeadLine(dk, b, j, h)[d] += scale * dscore * q_i[d];
                     HeadLine(dv, b, j, h)[d] += probability * d_o_i[d];
                   }
                 }
               });
  return absl::OkStatus();
}

}  // namespace

void AddAttentionKernels(KernelList& list) {
  AddLoops(list, "attention", Attention, AttentionWorkspace);
  AddLoops(list, "attention_grad", AttentionGrad);
}

}  // namespace tessera::reference
