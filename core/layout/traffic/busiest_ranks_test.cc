// Compares the ranks that are priced with all ranks, for random calls on random placements.
#include "core/layout/traffic/busiest_ranks.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/traffic/collective_traffic.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using Operation = CollectiveOperation;

class Draw {
 public:
  int64_t Between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  // Sizes of all orders of magnitude.
  int64_t Count() { return Between(0, int64_t{1} << Between(0, 23)); }

  // The hosts of a group: equally many consecutive ranks on each, all but a few of them, or any.
  std::vector<int> Hosts() {
    std::vector<int> host_of;
    const int kind = static_cast<int>(Between(0, 3));
    const int hosts = static_cast<int>(Between(2, 12)), locals = static_cast<int>(Between(1, 8));
    for (int host = 0; host < hosts; ++host) {
      const int64_t ranks = kind == 1 ? Between(1, 6) : locals;
      host_of.insert(host_of.end(), ranks, host);
    }
    if (kind == 2) host_of.resize(std::max<size_t>(2, host_of.size() - Between(0, locals)));
    if (kind == 3) std::shuffle(host_of.begin(), host_of.end(), random_);
    return host_of;
  }

  // Calls as of the redistributions of a Program (equal parts), or with any part.
  CollectiveCall Call(Operation operation, int ranks) {
    constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kU8};
    CollectiveCall call;
    call.operation = operation;
    call.dtype = kDTypes[Between(0, 2)];
    call.reduction = Between(0, 1) == 0 ? Reduction::kSum : Reduction::kMax;
    call.count = Count();
    call.part = (call.count + ranks - 1) / ranks + (Between(0, 1) == 0 ? 0 : Between(0, 100));
    if (operation == Operation::kAllToAll || Between(0, 2) == 0) call.count = call.part * ranks;
    return call;
  }

 private:
  std::mt19937_64 random_{7};
};

struct Weights {
  double within, network;
};

double CostOf(const GroupTraffic& group, const std::vector<CollectiveCall>& calls,
              const std::vector<int64_t>& times, int rank, const Weights& weights) {
  double cost = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const CollectiveTraffic traffic = group.Of(calls[i], rank);
    cost += static_cast<double>(times[i]) *
            (weights.within * static_cast<double>(traffic.bytes_sent - traffic.bytes_network) +
             weights.network * static_cast<double>(traffic.bytes_network));
  }
  return cost;
}

TEST(BusiestRanksTest, NoOtherRankSendsMore) {
  Draw draw;
  for (int trial = 0; trial < 20000; ++trial) {
    const auto backend = static_cast<CollectiveBackend>(trial % 5 < 2 ? 2 : draw.Between(0, 3));
    const GroupTraffic group({backend, draw.Hosts()});
    const Operation operations[] = {Operation::kAllReduce, Operation::kReduceScatter,
                                    Operation::kAllGather, Operation::kAllToAll};
    const Operation operation = operations[draw.Between(0, 3)];
    std::vector<CollectiveCall> calls;
    std::vector<int64_t> times;
    for (int64_t i = draw.Between(1, 3); i > 0; --i) {
      calls.push_back(draw.Call(operation, group.ranks()));
      times.push_back(draw.Between(1, 5));
    }
    for (const Weights& weights : {Weights{1, 1}, {1, 0}, {0, 1}, {1, 10}}) {
      if (backend == CollectiveBackend::kNccl && weights.within != weights.network) continue;
      double most = 0, priced = 0;
      for (int rank = 0; rank < group.ranks(); ++rank) {
        most = std::max(most, CostOf(group, calls, times, rank, weights));
      }
      for (const int rank : group.BusiestRanks(calls)) {
        priced = std::max(priced, CostOf(group, calls, times, rank, weights));
      }
      ASSERT_EQ(priced, most) << trial << ": " << absl::StrJoin(group.site().host_of, " ") << ": "
                              << ToString(calls[0], Mesh()) << " and " << calls.size() - 1
                              << " more; backend " << static_cast<int>(backend);
    }
  }
}

TEST(BusiestRanksTest, TheirNumberDoesNotGrowWithTheRanks) {
  for (const int hosts : {4, 400}) {
    std::vector<int> host_of;
    for (int host = 0; host < hosts; ++host) host_of.insert(host_of.end(), 8, host);
    const GroupTraffic group({CollectiveBackend::kHierarchical, host_of});
    for (const Operation operation : {Operation::kAllReduce, Operation::kReduceScatter}) {
      const CollectiveCall call = {operation, DType::kBF16, Reduction::kSum,
                                   {},        30000001,     30000001 / group.ranks() + 1};
      EXPECT_LE(group.BusiestRanks({call}).size(), 30u);
    }
  }
}

}  // namespace
}  // namespace tessera
