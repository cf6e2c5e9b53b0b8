#include "core/kernels/cpu/testing/kernels.h"

#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "core/tensor/half.h"

namespace tessera::cpu {

Backend& Cpu() {
  static Backend* const backend = MakeCpuBackend(2).release();
  return *backend;
}

TestTensor EmptyTensor(DType dtype, const Shape& shape) {
  TensorType type{dtype, shape};
  auto memory = Cpu().Allocate(NumBytes(type), /*guarded=*/true);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return {type, *std::move(memory)};
}

TestTensor FloatTensor(const Shape& shape, const std::vector<float>& values) {
  return MakeTensor(DType::kF32, shape, values);
}

TestTensor IntTensor(const Shape& shape, const std::vector<int32_t>& values) {
  return MakeTensor(DType::kI32, shape, values);
}

TestTensor RandomTensor(const Shape& shape, int seed, float low, float high) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(NumElements(shape));
  for (float& value : values) value = uniform(generator);
  return FloatTensor(shape, values);
}

TestTensor ToBF16(const TestTensor& tensor) {
  std::vector<BFloat16> values;
  for (float value : tensor.values<float>()) values.push_back(BFloat16(value));
  return MakeTensor(DType::kBF16, tensor.type.shape, values);
}

std::vector<float> FromBF16(const TestTensor& tensor) {
  std::vector<float> values;
  for (BFloat16 value : tensor.values<BFloat16>()) values.push_back(static_cast<float>(value));
  return values;
}

KernelRequest RequestOf(const Use& use, int threads) {
  KernelRequest request{.op = use.op,
                        .attributes = use.attributes,
                        .inputs = {},
                        .outputs = use.outputs,
                        .epilogues = use.epilogues,
                        .threads = threads};
  for (const TestTensor* input : use.inputs) request.inputs.push_back(input->type);
  return request;
}

KernelResult RunKernel(const Kernel& kernel, const Use& use, int threads, char poison) {
  const KernelRequest request = RequestOf(use, threads);
  KernelResult result;
  std::vector<TensorView> inputs, outputs;
  for (const TestTensor* input : use.inputs) inputs.push_back(input->view());
  for (const TensorType& type : use.outputs) {
    result.outputs.push_back(EmptyTensor(type.dtype, type.shape));
    std::memset(result.outputs.back().memory->data(), poison, NumBytes(type));
    outputs.push_back(result.outputs.back().view());
  }
  const int64_t bytes = kernel.WorkspaceBytes(request, Cpu().processor());
  auto workspace = Cpu().Allocate(bytes, /*guarded=*/true);
  auto bound = kernel.Bind(request);
  EXPECT_TRUE(workspace.ok() && bound.ok()) << bound.status();
  char* const data = static_cast<char*>((*workspace)->data());
  std::memset(data, poison, bytes);
  const std::optional<RandomDraw> draw = DrawOf(use.outputs[0].shape, use.attributes);
  const absl::Status status =
      (*bound)->Run({request, inputs, outputs, data, bytes, draw.has_value() ? &*draw : nullptr});
  EXPECT_TRUE(status.ok()) << request.Key() << ": " << status;
  result.workspace.assign(data, data + bytes);
  return result;
}

std::vector<TestTensor> RunKernels(const Use& use, int threads, absl::string_view name) {
  const KernelRequest request = RequestOf(use, threads);
  const std::vector<const Kernel*> kernels = CandidateKernels(Cpu(), request);
  EXPECT_FALSE(kernels.empty()) << request.Key();
  KernelResult result;
  for (const Kernel* kernel : kernels) {
    if (!name.empty() && kernel->name() != name) continue;
    result = RunKernel(*kernel, use, threads, '\xff');
  }
  return std::move(result.outputs);
}

std::vector<float> RunFloats(const Use& use, int threads, absl::string_view name) {
  return RunKernels(use, threads, name)[0].values<float>();
}

}  // namespace tessera::cpu
