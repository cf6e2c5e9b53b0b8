// Ranks with a relay between them that changes bytes. tests/network/relay_test.sh has the same
// between hosts.
#include "collectives/net/integrity.h"

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "collectives/tcp/network.h"
#include "collectives/testing/conformance.h"
#include "collectives/testing/relay.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::tcp {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr char kText[] = "Shall I compare thee to a summer's day?";
const std::vector<int> kHosts = {0, 1};

struct Outcome {
  std::vector<absl::Status> statuses;  // by rank
  bool was_changed = false;            // rank 1 has got other bytes than rank 0 has sent
};

// Broadcasts `bytes` bytes with the text from rank 0 to rank 1, past a relay that changes the text.
Outcome Broadcast(Integrity integrity, Contents contents, size_t bytes) {
  std::string data = kText;
  data.resize(bytes, '.');
  Outcome outcome;
  std::list<Relay> relays;  // made by rank 1, and needed until both ranks have ended
  outcome.statuses = RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const auto network,
                     Network::Create(rank, 2, ThroughRelays(exchange, rank, kHosts, kText, &relays),
                                     {.timeout_seconds = 20, .integrity = integrity}));
    ASSIGN_OR_RETURN(const auto world, network->World());
    ASSIGN_OR_RETURN(const auto group, world->Split("group", {0, 0}, contents));
    std::string received = rank == 0 ? data : std::string(bytes, '\0');
    RETURN_IF_ERROR(group->Wait(group->Broadcast(received.data(), received.data(),
                                                 static_cast<int64_t>(bytes), DType::kU8, 0)));
    if (rank == 1) outcome.was_changed = received != data;
    return group->Wait(group->Barrier());
  });
  return outcome;
}

void ExpectFound(const Outcome& outcome) {
  EXPECT_FALSE(outcome.was_changed);
  for (const absl::Status& status : outcome.statuses) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 0 (process "), HasSubstr("127.0.0.1 port "),
                      HasSubstr("sent bytes that were changed on the way; waiting in broadcast"),
                      HasSubstr("(wrong digest)")));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  }
  EXPECT_THAT(std::string(outcome.statuses[0].message()), HasSubstr("rank 1 (process "));
}

void ExpectUnseen(const Outcome& outcome) {
  EXPECT_TRUE(outcome.was_changed);
  for (const absl::Status& status : outcome.statuses) EXPECT_TRUE(status.ok()) << status;
}

// Data that follow a request, and data in pieces.
constexpr size_t kSizes[] = {4000, 700'000};

// Regression: a relay changed a Plan, and all ranks ended with success.
TEST(IntegrityTest, AChangeOfControlIsFound) {
  for (const size_t bytes : kSizes) {
    ExpectFound(Broadcast(Integrity::kControl, Contents::kControl, bytes));
    ExpectFound(Broadcast(Integrity::kAll, Contents::kControl, bytes));
  }
}

TEST(IntegrityTest, AChangeOfTensorsIsFoundIfAllIsCovered) {
  for (const size_t bytes : kSizes) {
    ExpectFound(Broadcast(Integrity::kAll, Contents::kTensors, bytes));
  }
}

// The documentation says so: it is not to be relied on.
TEST(IntegrityTest, OtherChangesGoUnseen) {
  for (const size_t bytes : kSizes) {
    ExpectUnseen(Broadcast(Integrity::kControl, Contents::kTensors, bytes));
    ExpectUnseen(Broadcast(Integrity::kNone, Contents::kControl, bytes));
  }
}

TEST(IntegrityTest, FewBytesAreCoveredInEveryGroup) {
  ExpectFound(Broadcast(Integrity::kControl, Contents::kTensors, 200));
}

TEST(IntegrityTest, EveryOperation) {
  for (const Integrity integrity : {Integrity::kControl, Integrity::kAll}) {
    const auto statuses = RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const auto network,
                       Network::Create(rank, 3, exchange, {.integrity = integrity}));
      ASSIGN_OR_RETURN(const auto world, network->World());
      ConformanceOptions options;
      options.sizes = {0, 1, 1001, 40000, 700001};
      options.dtypes = {DType::kF32};
      return CheckOperations(*world, options);
    });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(IntegrityTest, DifferentOptionsAreAnErrorOnAllRanks) {
  const auto run = [](std::optional<Integrity> of_rank_1) {
    std::vector<std::string> messages;
    for (const absl::Status& status :
         RunThreads(3, [&](int rank, const Exchange&exchange) -> absl::Status {
           NetworkOptions options;
           if (rank == 1) options.integrity = of_rank_1;
           return Network::Create(rank, 3, exchange, options).status();
         })) {
      messages.emplace_back(status.message());
    }
    return messages;
  };
  EXPECT_THAT(run(Integrity::kAll), Each("rank 0 has no --integrity, and rank 1 has "
                                         "--integrity=all: give all ranks the same"));
  EXPECT_THAT(run(Integrity::kControl),
              Each(HasSubstr("rank 1 has --integrity=control: give all ranks the same")));
  EXPECT_THAT(run(std::nullopt), Each(""));
}

TEST(IntegrityTest, Names) {
  for (const char* name : {"none", "control", "all"}) {
    EXPECT_EQ(IntegrityName(*ParseIntegrity(name)), name);
  }
  EXPECT_EQ(ParseIntegrity("some").status().message(), "'some' is none of control, all and none");
}

}  // namespace
}  // namespace tessera::comm::tcp
