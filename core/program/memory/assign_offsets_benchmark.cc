// Measures the time to plan the memory of 10^4 to 10^6 buffers, and compares the size of the plan
// with the largest sum of live bytes, which is a lower bound for every plan.
//
//   ./bazelw run //core/program/memory:assign_offsets_benchmark
#include <chrono>
#include <cstdio>

#include "core/program/testing/live_ranges.h"

namespace tessera {
namespace {

void Measure(const char* name, const std::vector<LiveRange>& ranges) {
  const auto begin = std::chrono::steady_clock::now();
  const Assignment assignment = AssignOffsets(ranges);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const int64_t bound = LiveBytesBound(ranges);
  std::printf("%-28s %9zu %12.1f %12.1f %8.4f %8.2f\n", name, ranges.size(),
              static_cast<double>(bound) / 1e6, static_cast<double>(assignment.bytes) / 1e6,
              static_cast<double>(assignment.bytes) / static_cast<double>(bound), seconds.count());
  std::fflush(stdout);
}

void Run() {
  std::printf("%-28s %9s %12s %12s %8s %8s\n", "ranges", "count", "bound MB", "planned MB", "ratio",
              "seconds");
  Measure("12 layers, 32 micro-batches", TrainingLiveRanges(12, 32));
  Measure("12 layers, 340 micro-batches", TrainingLiveRanges(12, 340));
  Measure("96 layers, 43 micro-batches", TrainingLiveRanges(96, 43));
  Measure("96 layers, 433 micro-batches", TrainingLiveRanges(96, 433));
  Measure("random", RandomLiveRanges(10000, 30000, 1));
  Measure("random", RandomLiveRanges(100000, 300000, 1));
  Measure("random", RandomLiveRanges(1000000, 3000000, 1));
}

}  // namespace
}  // namespace tessera

int main() { tessera::Run(); }
