#include "core/cost/machine.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/kernels/reference/backend.h"

namespace tessera {
namespace {

// A slow backend is measured in about the time that the options say.
TEST(MachineTest, MeasuresWithTheBackendsOwnKernels) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto rates = MeasureMachine(
      *backend, {.matmul_seconds = 0.02, .memory_seconds = 0.02, .memory_bytes = 1 << 22});
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_GT(rates->flops_per_second, 1e6);
  EXPECT_LT(rates->flops_per_second, 1e12);
  EXPECT_GT(rates->bytes_per_second, 1e6);
  EXPECT_LT(rates->bytes_per_second, 1e12);
}

}  // namespace
}  // namespace tessera
