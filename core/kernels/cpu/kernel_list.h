// The kernels of the cpu backend: fp32 (and the integers that an operator names), by vectors
// through Highway, and the large products by oneDNN.
//
// A kernel here draws its threads from parallel.h and its scratch memory from the memory plan.
#ifndef TESSERA_CORE_KERNELS_CPU_KERNEL_LIST_H_
#define TESSERA_CORE_KERNELS_CPU_KERNEL_LIST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

// Every kernel of this backend; of those for one operator, the default first.
absl::Span<const Kernel* const> Kernels();

// binary.cc
absl::Status Add(const KernelCall& call);
absl::Status Subtract(const KernelCall& call);
absl::Status Multiply(const KernelCall& call);
absl::Status Divide(const KernelCall& call);
absl::Status Maximum(const KernelCall& call);
absl::Status Minimum(const KernelCall& call);
// unary.cc
absl::Status Exp(const KernelCall& call);
absl::Status Log(const KernelCall& call);
absl::Status Sqrt(const KernelCall& call);
absl::Status Rsqrt(const KernelCall& call);
absl::Status Reciprocal(const KernelCall& call);
absl::Status Negate(const KernelCall& call);
absl::Status Square(const KernelCall& call);
absl::Status Tanh(const KernelCall& call);
absl::Status Sigmoid(const KernelCall& call);
// relu.cc
absl::Status Relu(const KernelCall& call);
absl::Status ReluGrad(const KernelCall& call);
// gelu.cc
absl::Status Gelu(const KernelCall& call);
absl::Status GeluGrad(const KernelCall& call);
// select.cc
absl::Status Select(const KernelCall& call);
// cast.cc
absl::Status Cast(const KernelCall& call);
// valid_mask.cc
absl::Status ValidMask(const KernelCall& call);
// dropout.cc
absl::Status Dropout(const KernelCall& call);
// copy.cc
absl::Status Copy(const KernelCall& call);
// matmul.cc
const Kernel& OnednnMatMul();
const Kernel& OnednnGemmMatMul();
absl::Status SmallMatMul(const KernelCall& call);
bool IsSmallMatMul(const KernelRequest& request);
int64_t SmallMatMulWorkspace(const KernelRequest& request, const Processor& processor);
// softmax.cc
absl::Status Softmax(const KernelCall& call);
absl::Status SoftmaxGrad(const KernelCall& call);
// layer_norm.cc
absl::Status LayerNorm(const KernelCall& call);
absl::Status LayerNormGrad(const KernelCall& call);
int64_t LayerNormGradWorkspace(const KernelRequest& request, const Processor& processor);
// reduce_sum.cc
absl::Status ReduceSum(const KernelCall& call);
int64_t ReduceSumWorkspace(const KernelRequest& request, const Processor& processor);
// reduce_max.cc
absl::Status ReduceMax(const KernelCall& call);
int64_t ReduceMaxWorkspace(const KernelRequest& request, const Processor& processor);
absl::Status ReduceMaxGrad(const KernelCall& call);
// sum_squares.cc
absl::Status SumSquares(const KernelCall& call);
int64_t SumSquaresWorkspace(const KernelRequest& request, const Processor& processor);
// embedding.cc
absl::Status Embedding(const KernelCall& call);
absl::Status EmbeddingGrad(const KernelCall& call);
// attention.cc
absl::Status Attention(const KernelCall& call);
int64_t AttentionWorkspace(const KernelRequest& request, const Processor& processor);
absl::Status AttentionGrad(const KernelCall& call);
int64_t AttentionGradWorkspace(const KernelRequest& request, const Processor& processor);
// attention_decode.cc
absl::Status AttentionDecode(const KernelCall& call);
int64_t AttentionDecodeWorkspace(const KernelRequest& request, const Processor& processor);
// linear_log_sum_exp.cc
const Kernel& OnednnLinearLogSumExp();
const Kernel& OnednnGemmLinearLogSumExp();
const Kernel& OnednnLinearLogSumExpGrad();
const Kernel& OnednnGemmLinearLogSumExpGrad();
// fill.cc
absl::Status Fill(const KernelCall& call);
// random_normal.cc
absl::Status RandomNormal(const KernelCall& call);
// all_finite.cc
absl::Status AllFinite(const KernelCall& call);
// sgd_update.cc
absl::Status SgdUpdate(const KernelCall& call);
// adamw_update.cc
absl::Status AdamwUpdate(const KernelCall& call);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_KERNEL_LIST_H_
