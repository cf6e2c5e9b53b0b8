#include "core/kernels/reference/kernel_list.h"

#include <vector>

namespace tessera::reference {
namespace {

// A request in which a floating tensor is not f64 was not made for this backend.
bool FloatsAreF64(const KernelRequest& request) {
  for (const auto* types : {&request.inputs, &request.outputs}) {
    for (const TensorType& type : *types) {
      if (IsFloating(type.dtype) && type.dtype != DType::kF64) return false;
    }
  }
  return true;
}

class Loops : public FunctionKernel {
 public:
  using Workspace = int64_t (*)(const KernelRequest& request, const Processor& processor);
  Loops(absl::string_view op, Function function, Workspace workspace = nullptr)
      : FunctionKernel(op, "loops", function,
                       {.accepts = FloatsAreF64,
                        .strided_inputs = ~uint32_t{0},
                        .strided_outputs = ~uint32_t{0},
                        .workspace_bytes = workspace}) {}
  // Of any number of inputs: a list's length has no bound.
  bool StridedInput(int /*i*/) const override { return true; }
};

const Loops kKernels[] = {
    {"add", Add},
    {"subtract", Subtract},
    {"multiply", Multiply},
    {"divide", Divide},
    {"maximum", Maximum},
    {"minimum", Minimum},
    {"exp", Exp},
    {"log", Log},
    {"sqrt", Sqrt},
    {"rsqrt", Rsqrt},
    {"reciprocal", Reciprocal},
    {"negate", Negate},
    {"square", Square},
    {"tanh", Tanh},
    {"sigmoid", Sigmoid},
    {"relu", Relu},
    {"relu_grad", ReluGrad},
    {"gelu", Gelu},
    {"gelu_grad", GeluGrad},
    {"select", Select},
    {"cast", Cast},
    {"valid_mask", ValidMask},
    {"dropout", Dropout},
    {"copy", Copy},
    {"matmul", MatMul},
    {"softmax", Softmax},
    {"softmax_grad", SoftmaxGrad},
    {"layer_norm", LayerNorm},
    {"layer_norm_grad", LayerNormGrad},
    {"reduce_sum", ReduceSum},
    {"reduce_max", ReduceMax},
    {"reduce_max_grad", ReduceMaxGrad},
    {"sum_squares", SumSquares},
    {"embedding", Embedding},
    {"embedding_grad", EmbeddingGrad},
    {"attention", Attention, AttentionWorkspace},
    {"attention_grad", AttentionGrad},
    {"attention_decode", AttentionDecode, AttentionDecodeWorkspace},
    {"linear_log_sum_exp", LinearLogSumExp, LinearLogSumExpWorkspace},
    {"linear_log_sum_exp_grad", LinearLogSumExpGrad},
    {"fill", Fill},
    {"random_normal", RandomNormal},
    {"all_finite", AllFinite},
    {"sgd_update", SgdUpdate},
    {"adamw_update", AdamwUpdate},
};

}  // namespace

absl::Span<const Kernel* const> Kernels() {
  static const auto* const kernels = [] {
    auto* list = new std::vector<const Kernel*>();
    for (const Loops& kernel : kKernels) list->push_back(&kernel);
    return list;
  }();
  return *kernels;
}

}  // namespace tessera::reference
