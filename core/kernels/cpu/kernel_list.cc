#include "core/kernels/cpu/kernel_list.h"

#include <vector>

namespace tessera::cpu {
namespace {

// Floats are f32 here: a request with others is for another backend.
bool Floats(const KernelRequest& request) {
  for (const auto* types : {&request.inputs, &request.outputs}) {
    for (const TensorType& type : *types) {
      if (IsFloating(type.dtype) && type.dtype != DType::kF32) return false;
    }
  }
  return true;
}

bool FloatsOrIntegers(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  return dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kI64;
}

using Traits = FunctionKernel::Traits;

// Elementwise: inputs at any strides.
constexpr Traits kElementwise = {.accepts = Floats, .strided_inputs = 0b111};
constexpr Traits kArithmetic = {.accepts = FloatsOrIntegers, .strided_inputs = 0b11};
constexpr Traits kAnyElementwise = {.strided_inputs = 0b111};
constexpr Traits kRowMajor = {.accepts = Floats};

constexpr Traits WithWorkspace(int64_t (*bytes)(const KernelRequest&, const Processor&)) {
  return {.accepts = Floats, .workspace_bytes = bytes};
}

}  // namespace

absl::Span<const Kernel* const> Kernels() {
  static const auto& list = *new std::vector<const Kernel*>{
      new FunctionKernel("add", "highway", Add, kArithmetic),
      new FunctionKernel("subtract", "highway", Subtract, kArithmetic),
      new FunctionKernel("multiply", "highway", Multiply, kArithmetic),
      new FunctionKernel("divide", "highway", Divide, kArithmetic),
      new FunctionKernel("maximum", "highway", Maximum, kArithmetic),
      new FunctionKernel("minimum", "highway", Minimum, kArithmetic),
      new FunctionKernel("exp", "highway", Exp, kElementwise),
      new FunctionKernel("log", "highway", Log, kElementwise),
      new FunctionKernel("sqrt", "highway", Sqrt, kElementwise),
      new FunctionKernel("rsqrt", "highway", Rsqrt, kElementwise),
      new FunctionKernel("reciprocal", "highway", Reciprocal, kElementwise),
      new FunctionKernel("negate", "highway", Negate, kElementwise),
      new FunctionKernel("square", "highway", Square, kElementwise),
      new FunctionKernel("tanh", "highway", Tanh, kElementwise),
      new FunctionKernel("sigmoid", "highway", Sigmoid, kElementwise),
      new FunctionKernel("relu", "highway", Relu, kElementwise),
      new FunctionKernel("relu_grad", "highway", ReluGrad, kElementwise),
      new FunctionKernel("gelu", "highway", Gelu, kElementwise),
      new FunctionKernel("gelu_grad", "highway", GeluGrad, kElementwise),
      new FunctionKernel("select", "highway", Select, kAnyElementwise),
      new FunctionKernel("cast", "loops", Cast, kAnyElementwise),
      new FunctionKernel("valid_mask", "loops", ValidMask, kElementwise),
      new FunctionKernel("dropout", "highway", Dropout, kRowMajor),
      new FunctionKernel("copy", "loops", Copy, {.strided_inputs = 1, .strided_outputs = 1}),
      &OnednnMatMul(),
      &OnednnGemmMatMul(),
      new FunctionKernel("matmul", "highway", SmallMatMul,
                         {.accepts = IsSmallMatMul, .workspace_bytes = SmallMatMulWorkspace}),
      new FunctionKernel("softmax", "highway", Softmax, kRowMajor),
      new FunctionKernel("softmax_grad", "highway", SoftmaxGrad, kRowMajor),
      new FunctionKernel("layer_norm", "highway", LayerNorm, kRowMajor),
      new FunctionKernel("layer_norm_grad", "highway", LayerNormGrad,
                         WithWorkspace(LayerNormGradWorkspace)),
      new FunctionKernel("reduce_sum", "highway", ReduceSum, WithWorkspace(ReduceSumWorkspace)),
      new FunctionKernel("reduce_max", "loops", ReduceMax, WithWorkspace(ReduceMaxWorkspace)),
      new FunctionKernel("reduce_max_grad", "loops", ReduceMaxGrad, kRowMajor),
      new FunctionKernel("sum_squares", "highway", SumSquares, WithWorkspace(SumSquaresWorkspace)),
      new FunctionKernel("embedding", "loops", Embedding, kRowMajor),
      new FunctionKernel("embedding_grad", "loops", EmbeddingGrad, kRowMajor),
      new FunctionKernel("attention", "highway", Attention,
                         {.accepts = Floats,
                          .strided_inputs = 0b111,
                          .strided_outputs = 0b11,
                          .workspace_bytes = AttentionWorkspace}),
      new FunctionKernel("attention_grad", "highway", AttentionGrad,
                         {.accepts = Floats,
                          .strided_inputs = 0b111111,
                          .strided_outputs = 0b111,
                          .workspace_bytes = AttentionGradWorkspace}),
      new FunctionKernel("attention_decode", "highway", AttentionDecode,
                         {.accepts = Floats,
                          .strided_inputs = 0b111,
                          .strided_outputs = 0b1,
                          .workspace_bytes = AttentionDecodeWorkspace}),
      &OnednnLinearLogSumExp(),
      &OnednnGemmLinearLogSumExp(),
      &OnednnLinearLogSumExpGrad(),
      &OnednnGemmLinearLogSumExpGrad(),
      new FunctionKernel("fill", "loops", Fill, {}),
      new FunctionKernel("random_normal", "loops", RandomNormal, kRowMajor),
      new FunctionKernel("all_finite", "highway", AllFinite, kRowMajor),
      new FunctionKernel("sgd_update", "highway", SgdUpdate, kRowMajor),
      new FunctionKernel("adamw_update", "highway", AdamwUpdate, kRowMajor),
  };
  return list;
}

}  // namespace tessera::cpu
