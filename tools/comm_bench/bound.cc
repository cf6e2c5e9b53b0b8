#include "tools/comm_bench/bound.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "core/tensor/check.h"

namespace tessera {
namespace {

constexpr int64_t kBytes = int64_t{64} << 20;
constexpr int kRuns = 12;

void Update(std::vector<float>& values) {
  for (float& value : values) value += 1.0f;
}

}  // namespace

double BytesMoved(Operation operation, int64_t bytes, int ranks, bool in_place) {
  const auto whole = static_cast<double>(bytes);
  const double part = whole / ranks;
  switch (operation) {
    case Operation::kAllReduce:
      return 2 * whole * ranks;
    case Operation::kReduceScatter:
      return whole * ranks + whole;
    case Operation::kAllGather:
      return 2 * ranks * part * (in_place ? ranks - 1 : ranks);
    case Operation::kAllToAll:
    case Operation::kSend:
    case Operation::kReceive:
      return 2 * whole * ranks;
    case Operation::kBroadcast:
      return whole + whole * (in_place ? ranks - 1 : ranks);
    case Operation::kBarrier:
      return 0;
  }
  return 0;
}

absl::StatusOr<double> MeasureMemory(Communicator& group) {
  using Clock = std::chrono::steady_clock;
  std::vector<float> a(kBytes / sizeof(float), 1.0f), b(a.size(), 2.0f);
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    RETURN_IF_ERROR(group.Wait(group.Barrier()));
    const Clock::time_point begin = Clock::now();
    if (run % 2 == 0) {
      Update(a);
    } else {
      std::memcpy(b.data(), a.data(), kBytes);
    }
    // Until all are ready: a rank that began late has had memory to itself.
    RETURN_IF_ERROR(group.Wait(group.Barrier()));
    double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    RETURN_IF_ERROR(
        group.Wait(group.AllReduce(&seconds, &seconds, 1, DType::kF64, Reduction::kMax)));
    best = std::max(best, 2.0 * kBytes * group.size() / seconds);
  }
  return best;
}

}  // namespace tessera
