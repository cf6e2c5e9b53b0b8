#include "core/cost/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "core/kernels/host/host_backend.h"
#include "core/kernels/reference/backend.h"

namespace tessera {
namespace {

// The reference backend, which records the most memory that was allocated at a time.
class CountingBackend final : public HostBackend {
 public:
  absl::string_view name() const override { return inner_->name(); }
  absl::Span<const Kernel* const> kernels() const override { return inner_->kernels(); }
  Processor processor() const override { return inner_->processor(); }
  DType Realize(DType dtype) const override { return inner_->Realize(dtype); }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes, bool guarded) override {
    most_ = std::max(most_, bytes);
    return HostBackend::Allocate(bytes, guarded);
  }
  int64_t most() const { return most_; }

 private:
  const std::unique_ptr<Backend> inner_ = MakeReferenceBackend();
  int64_t most_ = 0;
};

// A run in a container with little memory must not be killed by the measurement before it.
TEST(MachineTest, TakesNoMoreMemoryThanItMay) {
  CountingBackend backend;
  const int64_t bytes = int64_t{2} << 20;
  const auto rates =
      MeasureMachine(backend, {.matmul_seconds = 1, .memory_seconds = 0.02, .memory_bytes = bytes});
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_LE(backend.most(), bytes);
}

// With a limit that is no multiple of a buffer's alignment, an eighth of the memory was used, which
// caches hold.
TEST(MachineTest, UsesTheMemoryThatItMay) {
  CountingBackend backend;
  const int64_t bytes = (int64_t{1} << 20) + 32;
  const auto rates = MeasureMachine(
      backend, {.matmul_seconds = 0.02, .memory_seconds = 0.02, .memory_bytes = bytes});
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_GT(backend.most(), bytes * 9 / 10);
}

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
