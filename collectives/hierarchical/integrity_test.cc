// Ranks on two emulated hosts with relays between them that change bytes.
#include "collectives/net/integrity.h"

#include <list>
#include <string>
#include <vector>

#include "collectives/fake/fake.h"
#include "collectives/testing/hosts.h"
#include "collectives/testing/relay.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::hierarchical {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] = "0123456789abcdefghijklmnopqrstuvwxyz";
const std::vector<int> kHosts = {0, 0, 1, 1};
constexpr int kRanks = 4;
constexpr int64_t kBytes = 300'000;

std::string Data() {
  std::string data;
  while (static_cast<int64_t>(data.size()) < kBytes) data += kText;
  data.resize(kBytes);
  return data;
}

// Rank 0 sends data that the relays change. Returns the results of the ranks: an error, or
// "changed" if other bytes arrived.
std::vector<absl::Status> Broadcast(Contents contents) {
  std::list<Relay> relays[kRanks];  // needed until all ranks have ended
  return RunThreads(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(
        const HostedRank self,
        MakeHostedRank(rank, kHosts, ThroughRelays(exchange, rank, kHosts, kText, &relays[rank]),
                       /*timeout_seconds=*/20, Integrity::kControl));
    ASSIGN_OR_RETURN(const auto group, self.world->Split("group", {0, 0, 0, 0}, contents));
    const std::string sent = Data();
    std::string received = rank == 0 ? sent : std::string(kBytes, '\0');
    RETURN_IF_ERROR(
        group->Wait(group->Broadcast(received.data(), received.data(), kBytes, DType::kU8, 0)));
    RETURN_IF_ERROR(group->Wait(group->Barrier()));
    return received == sent ? absl::OkStatus() : absl::InternalError("changed");
  });
}

TEST(HierarchicalIntegrityTest, AGroupOfControlIsCoveredBetweenHosts) {
  for (const absl::Status& status : Broadcast(Contents::kControl)) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("sent bytes that were changed on the way"));
  }
}

TEST(HierarchicalIntegrityTest, TensorsAreNot) {
  const std::vector<absl::Status> results = Broadcast(Contents::kTensors);
  for (const int rank : {0, 1}) EXPECT_TRUE(results[rank].ok()) << results[rank];
  for (const int rank : {2, 3}) EXPECT_EQ(results[rank].message(), "changed");
}

}  // namespace
}  // namespace tessera::comm::hierarchical
