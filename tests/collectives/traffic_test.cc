// Checks that backends count the calls and bytes that core/layout states for planning.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/status/status_macros.h"
#include "gtest/gtest.h"
#include "tests/collectives/backends.h"

namespace tessera::comm {
namespace {

struct Setting {
  std::string name;
  CollectiveBackend backend;
  std::vector<int> host_of;
};

absl::StatusOr<Rank> MakeRank(const Setting& setting, int rank, const Exchange& exchange) {
  const int ranks = static_cast<int>(setting.host_of.size());
  if (setting.backend == CollectiveBackend::kShm) return OnShm(rank, ranks, exchange);
  if (setting.backend == CollectiveBackend::kTcp) return OnTcp(rank, ranks, exchange);
  ASSIGN_OR_RETURN(HostedRank hosted, MakeHostedRank(rank, setting.host_of, exchange));
  auto shared = std::make_shared<HostedRank>(std::move(hosted));
  Rank self;
  self.world = std::move(shared->world);
  self.allocate = [shared = shared.get()](int64_t bytes) {
    return shared->shm_backend->Allocate(*shared->host_group, bytes);
  };
  self.backend = std::move(shared);
  return self;
}

std::vector<CollectiveCall> Calls(int ranks) {
  std::vector<CollectiveCall> calls;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU8}) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
      for (const int64_t count : {0, 1, 5, 1000, 4096, 4097, 30001, 2500000}) {
        const int64_t even = (count + ranks - 1) / ranks;
        for (const int64_t part : {even, even + 7}) {
          calls.push_back({Operation::kAllReduce, dtype, reduction, {}, count, 0});
          calls.push_back({Operation::kReduceScatter, dtype, reduction, {}, count, part});
          calls.push_back({Operation::kAllGather, dtype, reduction, {}, count, part});
          calls.push_back({Operation::kAllToAll, dtype, reduction, {}, part * ranks, part});
        }
      }
    }
  }
  return calls;
}

class TrafficTest : public testing::TestWithParam<Setting> {};

TEST_P(TrafficTest, CountersAreWhatIsStated) {
  const Setting& setting = GetParam();
  const int ranks = static_cast<int>(setting.host_of.size());
  const std::vector<CollectiveCall> calls = Calls(ranks);
  constexpr int64_t kBytes = int64_t{8} * 2500100;
  ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(setting, rank, exchange));
    std::vector<char> memory;
    char* data = nullptr;
    if (self.allocate != nullptr) {
      ASSIGN_OR_RETURN(data, self.allocate(2 * kBytes));
    } else {
      memory.resize(2 * kBytes);
      data = memory.data();
    }
    const GroupSite site{setting.backend, setting.host_of};
    for (const CollectiveCall& call : calls) {
      const size_t operation = static_cast<size_t>(call.operation);
      const OperationCount before = self.world->traffic()[operation];
      RETURN_IF_ERROR(self.world->Wait(self.world->Issue({.operation = call.operation,
                                                          .dtype = call.dtype,
                                                          .reduction = call.reduction,
                                                          .input = data,
                                                          .output = data + kBytes,
                                                          .count = call.count,
                                                          .part = call.part})));
      const OperationCount after = self.world->traffic()[operation];
      const CollectiveTraffic stated = TrafficOf(call, site, rank);
      if (after.calls - before.calls == stated.calls &&
          after.bytes_sent - before.bytes_sent == stated.bytes_sent) {
        continue;
      }
      return absl::InternalError(absl::StrCat(
          "rank ", rank, ": ", ToString(call, Mesh()), " counted ", after.calls - before.calls,
          " calls and ", after.bytes_sent - before.bytes_sent, " bytes; ", stated.calls, " and ",
          stated.bytes_sent, " are stated"));
    }
    return absl::OkStatus();
  }));
}

Setting On(CollectiveBackend backend, const char* name, std::vector<int> host_of) {
  return {absl::StrCat(name, absl::StrJoin(host_of, "")), backend, std::move(host_of)};
}

INSTANTIATE_TEST_SUITE_P(
    Settings, TrafficTest,
    testing::Values(On(CollectiveBackend::kShm, "Shm", {0}),
                    On(CollectiveBackend::kShm, "Shm", {0, 0}),
                    On(CollectiveBackend::kShm, "Shm", {0, 0, 0}),
                    On(CollectiveBackend::kTcp, "Tcp", {0, 1}),
                    On(CollectiveBackend::kTcp, "Tcp", {0, 1, 2, 3, 4}),
                    On(CollectiveBackend::kHierarchical, "Hosts", {0, 0, 1, 1}),
                    On(CollectiveBackend::kHierarchical, "Hosts", {0, 0, 0, 1, 1, 1}),
                    On(CollectiveBackend::kHierarchical, "Hosts", {0, 0, 1, 1, 2, 2}),
                    On(CollectiveBackend::kHierarchical, "Hosts", {0, 0, 1}),
                    On(CollectiveBackend::kHierarchical, "Hosts", {0, 1, 1, 0, 2}),
                    On(CollectiveBackend::kHierarchical, "Hosts", {0, 1, 0, 1}),
                    On(CollectiveBackend::kHierarchical, "Hosts", {0, 0, 0}),
                    On(CollectiveBackend::kHierarchical, "Hosts", {0, 1, 2})),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::comm
