#include "core/train/measure/arithmetic_loop.h"

#include <algorithm>
#include <chrono>

#include "absl/base/attributes.h"

namespace tessera {
namespace {

constexpr int64_t kValues = 1024;  // 4 KiB

// Not inlined: copies of the loop, differently aligned, differ by half in their time.
ABSL_ATTRIBUTE_NOINLINE void RunOnThread(int64_t passes, std::vector<float>& values) {
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (float& value : values) value = value * 0.999F + 0.001F;
  }
}

}  // namespace

ArithmeticLoop::ArithmeticLoop(int threads) : values_(threads, std::vector<float>(kValues, 1.0F)) {
  constexpr int64_t kMeasuredPasses = 20'000;
  Run(1000);
  const auto begin = std::chrono::steady_clock::now();
  Run(kMeasuredPasses);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  passes_per_second_ = kMeasuredPasses / took.count();
}

int64_t ArithmeticLoop::PassesFor(double seconds) const {
  return std::max<int64_t>(1, static_cast<int64_t>(seconds * passes_per_second_));
}

void ArithmeticLoop::Run(int64_t passes) {
  const int threads = static_cast<int>(values_.size());
  if (threads == 1) return RunOnThread(passes, values_[0]);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int i = 0; i < threads; ++i) RunOnThread(passes, values_[i]);
}

}  // namespace tessera
