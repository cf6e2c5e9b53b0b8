// Checks operations in flight: on several groups, and while no thread waits for them.
#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "collectives/testing/conformance.h"
#include "collectives/testing/expected_values.h"
#include "core/status/status_macros.h"

namespace tessera::comm {

absl::Status CheckOverlappingGroups(absl::Span<Communicator* const> groups, int operations,
                                    uint64_t seed, bool delays, bool any_order) {
  constexpr size_t kInFlight = 8;
  struct InFlight {
    Communicator* group = nullptr;
    Ticket ticket;
    uint64_t tag = 0;
    std::vector<float> data;
  };
  std::vector<InFlight> ring(kInFlight);
  const auto finish = [any_order](InFlight& operation) -> absl::Status {
    if (operation.group == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(operation.group->Wait(operation.ticket));
    const int ranks = operation.group->size();
    for (size_t i = 0; i < operation.data.size(); ++i) {
      const int64_t element = static_cast<int64_t>(i);
      const float expected = Reduced<float>(operation.tag, ranks, {}, element, Reduction::kSum);
      if (any_order ? !NearSum(operation.data[i], operation.tag, ranks, element)
                    : operation.data[i] != expected) {
        return absl::InternalError(absl::StrCat("all-reduce ", operation.tag, " of '",
                                                operation.group->name(), "' is wrong at ", i));
      }
    }
    return absl::OkStatus();
  };
  for (int k = 0; k < operations; ++k) {
    InFlight& operation = ring[k % kInFlight];
    RETURN_IF_ERROR(finish(operation));
    // All ranks choose the same group and size.
    const uint64_t choice = Mix(seed * 1000003 + static_cast<uint64_t>(k));
    operation.group = groups[choice % groups.size()];
    operation.tag = static_cast<uint64_t>(k) & 0xffffff;
    operation.data.resize(choice / 64 % 97 == 0 ? 9000 : choice / 64 % 33);
    for (size_t i = 0; i < operation.data.size(); ++i) {
      operation.data[i] =
          Value<float>(operation.tag, operation.group->rank(), static_cast<int64_t>(i));
    }
    operation.ticket =
        operation.group->AllReduce(operation.data.data(), operation.data.data(),
                                   static_cast<int64_t>(operation.data.size()), DType::kF32);
    // Each rank pauses at different times.
    const uint64_t delay = Mix(choice + static_cast<uint64_t>(groups[0]->rank()));
    if (delays && delay % 64 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(delay / 64 % 200));
    }
  }
  for (InFlight& operation : ring) RETURN_IF_ERROR(finish(operation));
  return absl::OkStatus();
}

absl::Status CheckUnwaitedOperations(Communicator& pair, std::atomic<int>* ended) {
  constexpr int64_t kCount = 20'000;
  constexpr int kRounds = 40;
  std::vector<float> data(kCount);
  for (int round = 0; round < kRounds; ++round) {
    if (pair.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::microseconds(18'500 + 100 * round));
    }
    const Ticket ticket = pair.AllReduce(data.data(), data.data(), kCount, DType::kF32);
    if (pair.rank() == 1) {
      for (int i = 0; i < 10'000 && *ended == round; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (*ended == round) {
        return absl::InternalError(absl::StrCat("operation ", round, " does not go on"));
      }
    }
    RETURN_IF_ERROR(pair.Wait(ticket));
    if (pair.rank() == 0) ++*ended;
  }
  return absl::OkStatus();
}

}  // namespace tessera::comm
