// Compiles a kernel, links the toolkit's libraries and, where there is a GPU, runs the kernel.

#include <vector>

#include "gtest/gtest.h"

#ifdef TESSERA_CUDA
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <nccl.h>

#include "third_party/cuda/doubled.h"
#endif

namespace tessera {
namespace {

#ifdef TESSERA_CUDA

TEST(CudaTest, LibrariesLink) {
  int nccl = 0;
  EXPECT_EQ(ncclGetVersion(&nccl), ncclSuccess);
  EXPECT_EQ(nccl, NCCL_VERSION_CODE);
  EXPECT_EQ(cudnnGetVersion(), CUDNN_VERSION);
  EXPECT_GT(cublasLtGetVersion(), 0u);
  EXPECT_NE(cublasGetStatusString(CUBLAS_STATUS_SUCCESS), nullptr);
}

TEST(CudaTest, KernelRuns) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    GTEST_SKIP() << "no GPU on this machine";
  }
  std::vector<float> values(1000, 1.5f);
  ASSERT_TRUE(DoubleOnGpu(values.data(), static_cast<int>(values.size())));
  EXPECT_EQ(values, std::vector<float>(1000, 3.0f));
}

#else

TEST(CudaTest, KernelRuns) { GTEST_SKIP() << "built without a CUDA toolkit"; }

#endif

}  // namespace
}  // namespace tessera
