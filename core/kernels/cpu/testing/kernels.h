// Tensors in guarded memory and calls of kernels, for the tests of this folder.
#ifndef TESSERA_CORE_KERNELS_CPU_TESTING_KERNELS_H_
#define TESSERA_CORE_KERNELS_CPU_TESTING_KERNELS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/kernels/cpu/backend.h"
#include "core/kernels/cpu/testing/targets.h"

namespace tessera::cpu {

// A tensor in its own memory, followed by an inaccessible page.
struct TestTensor {
  TensorType type;
  std::unique_ptr<DeviceMemory> memory;

  TensorView view() const {
    return {memory->data(), type.dtype, type.shape, RowMajorStrides(type.shape)};
  }
  template <typename T>
  std::vector<T> values() const {
    std::vector<T> result(NumElements(type.shape));
    std::copy_n(static_cast<const T*>(memory->data()), result.size(), result.begin());
    return result;
  }
};

// The backend under test, with 2 threads.
Backend& Cpu();

TestTensor EmptyTensor(DType dtype, const Shape& shape);

template <typename T>
TestTensor MakeTensor(DType dtype, const Shape& shape, const std::vector<T>& values) {
  TestTensor tensor = EmptyTensor(dtype, shape);
  EXPECT_EQ(NumBytes(tensor.type), static_cast<int64_t>(values.size() * sizeof(T)));
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.memory->data()));
  return tensor;
}

template <typename T>
TestTensor ScalarTensor(DType dtype, T value) {
  return MakeTensor<T>(dtype, {}, {value});
}

TestTensor FloatTensor(const Shape& shape, const std::vector<float>& values);
TestTensor IntTensor(const Shape& shape, const std::vector<int32_t>& values);
TestTensor RandomTensor(const Shape& shape, int seed, float low = -2, float high = 2);
// Round a tensor's numbers to bf16, and convert them back.
TestTensor ToBF16(const TestTensor& tensor);
std::vector<float> FromBF16(const TestTensor& tensor);

inline TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }

// One use of an operator.
struct Use {
  std::string op;
  Attributes attributes;
  std::vector<const TestTensor*> inputs;
  std::vector<TensorType> outputs;
  std::vector<Epilogue> epilogues = {};
};

KernelRequest RequestOf(const Use& use, int threads);

// The result of one kernel. `poison` is the byte with which outputs and workspace are filled
// before.
struct KernelResult {
  std::vector<TestTensor> outputs;
  std::vector<char> workspace;
};
KernelResult RunKernel(const Kernel& kernel, const Use& use, int threads, char poison);

// Runs every kernel that accepts the request, or only the one with the given name, and returns the
// outputs of the last one.
std::vector<TestTensor> RunKernels(const Use& use, int threads = 2, absl::string_view name = "");
std::vector<float> RunFloats(const Use& use, int threads = 2, absl::string_view name = "");

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_TESTING_KERNELS_H_
