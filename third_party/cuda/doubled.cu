#include <cuda_runtime.h>

#include "third_party/cuda/doubled.h"

namespace tessera {
namespace {

// In an anonymous namespace: two files with a kernel of the same name would not link.
__global__ void Double(float* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= 2;
}

}  // namespace

bool DoubleOnGpu(float* values, int count) {
  const size_t bytes = count * sizeof(float);
  float* on_gpu = nullptr;
  if (cudaMalloc(&on_gpu, bytes) != cudaSuccess) return false;
  cudaMemcpy(on_gpu, values, bytes, cudaMemcpyHostToDevice);
  Double<<<(count + 255) / 256, 256>>>(on_gpu, count);
  const bool launched = cudaGetLastError() == cudaSuccess;
  const bool copied = cudaMemcpy(values, on_gpu, bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaFree(on_gpu);
  return launched && copied;
}

}  // namespace tessera
