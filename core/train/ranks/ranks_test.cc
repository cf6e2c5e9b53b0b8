// Tests agreement and aborts of ranks that are threads of this process.
#include "core/train/ranks/ranks.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<absl::Status> RunRanks(int size, const std::function<absl::Status(Ranks& ranks)>& body,
                                   double timeout_seconds = 60) {
  return comm::RunFake({.ranks = size, .seed = 3, .timeout_seconds = timeout_seconds},
                       [&](comm::World& world) -> absl::Status {
                         ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks,
                                          Ranks::Create(&world));
                         absl::Status status = body(*ranks);
                         if (!status.ok() && !IsAgreed(status)) ranks->Abort(status);
                         return status;
                       });
}

TEST(RanksTest, GatherReturnsEveryText) {
  for (const int size : {1, 2, 3}) {
    const auto results = RunRanks(size, [&](Ranks& ranks) -> absl::Status {
      const std::string mine(1000 * ranks.rank(), static_cast<char>('a' + ranks.rank()));
      ASSIGN_OR_RETURN(const std::vector<std::string> texts, ranks.AllGather(mine));
      EXPECT_EQ(texts.size(), size);
      for (int r = 0; r < size; ++r) {
        EXPECT_EQ(texts[r], std::string(1000 * r, static_cast<char>('a' + r)));
      }
      ASSIGN_OR_RETURN(const std::vector<std::string> none, ranks.AllGather(""));
      EXPECT_EQ(none, std::vector<std::string>(size));
      return absl::OkStatus();
    });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(RanksTest, OnlyTheFirstRankMakesWhatAllGet) {
  const auto results = RunRanks(3, [](Ranks& ranks) -> absl::Status {
    const std::string large(200000, 'x');
    for (const std::string& text : {std::string("a\0b", 3), std::string(), large}) {
      ASSIGN_OR_RETURN(const std::string made,
                       ranks.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
                         EXPECT_EQ(ranks.rank(), 0);
                         return text;
                       }));
      EXPECT_EQ(made, text);
    }
    return ranks
        .BroadcastFromFirst([]() -> absl::StatusOr<std::string> {
          return absl::NotFoundError("there is no such folder");
        })
        .status();
  });
  for (const absl::Status& status : results) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_EQ(status.message(), "there is no such folder");
    EXPECT_TRUE(IsAgreed(status));
  }
}

TEST(RanksTest, AnErrorOfSomeRanksIsTheSameOnAll) {
  const auto errors_of = [](const std::vector<std::string>& messages) {
    std::vector<std::string> errors;
    for (const absl::Status& status : RunRanks(4, [&](Ranks& ranks) {
           RETURN_IF_ERROR(ranks.Agree(absl::OkStatus()));
           const std::string& message = messages[ranks.rank()];
           return ranks.Agree(message.empty() ? absl::OkStatus()
                                              : absl::InvalidArgumentError(message));
         })) {
      EXPECT_TRUE(absl::IsInvalidArgument(status) && IsAgreed(status)) << status;
      errors.emplace_back(status.message());
    }
    return errors;
  };
  EXPECT_EQ(errors_of({"", "", "bad", ""}), std::vector<std::string>(4, "rank 2: bad"));
  EXPECT_EQ(errors_of({"", "bad", "worse", "bad"}),
            std::vector<std::string>(4, "ranks 1 and 3: bad"));
  EXPECT_EQ(errors_of({"bad", "bad", "bad", "bad"}), std::vector<std::string>(4, "bad"));
}

TEST(RanksTest, TheLargestOfEachValue) {
  const auto results = RunRanks(3, [](Ranks& ranks) -> absl::Status {
    std::vector<int64_t> values = {ranks.rank(), -ranks.rank(), ranks.rank() == 1 ? 15 : 0};
    RETURN_IF_ERROR(ranks.Max(absl::MakeSpan(values)));
    EXPECT_THAT(values, ElementsAre(2, 0, 15));
    return absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// Planning or saving may take longer than the time-out of an operation of a step.
TEST(RanksTest, ALateRankIsWaitedForButNotInAStep) {
  const auto results = RunRanks(
      2,
      [](Ranks& ranks) -> absl::Status {
        if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(800));
        RETURN_IF_ERROR(ranks.Agree(absl::OkStatus()));
        RETURN_IF_ERROR(ranks.BroadcastFromFirst([] { return std::string("plan"); }).status());
        if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(800));
        int64_t value = 0;
        return ranks.Max(absl::MakeSpan(&value, 1));
      },
      /*timeout_seconds=*/0.3);
  EXPECT_THAT(std::string(results[0].message()), HasSubstr("did not come within 0.3 s"));
}

TEST(RanksTest, AnAbortEndsEveryWaitOfTheOthers) {
  for (const int wait : {0, 1, 2, 3}) {
    const auto results = RunRanks(2, [&](Ranks& ranks) -> absl::Status {
      ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create({{"data", 2}}));
      ASSIGN_OR_RETURN(Collectives* const collectives, ranks.CollectivesOn(mesh));
      ASSIGN_OR_RETURN(const int group, collectives->FindOrCreateGroup({"data"}));
      if (ranks.rank() == 1) return absl::DataLossError("a file is damaged");
      if (wait == 0) return ranks.Barrier();
      if (wait == 1) return ranks.Agree(absl::OkStatus());
      float value = 0;
      int64_t number = 0;
      if (wait == 2) return ranks.Max(absl::MakeSpan(&number, 1));
      CollectiveRequest request;
      request.operation = CollectiveOperation::kAllReduce;
      request.elements = 1;
      return collectives->Wait(collectives->Start(request, group, &value, &value, {}));
    });
    EXPECT_TRUE(IsOfAnotherRank(results[0])) << results[0];
    EXPECT_FALSE(IsAgreed(results[0]));
    EXPECT_THAT(std::string(results[0].message()), HasSubstr("aborted: a file is damaged"));
    EXPECT_FALSE(IsOfAnotherRank(results[1]));
  }
}

// Regression test: rank 0, which reports the error, received another rank's abort before it had the
// error itself, so no rank reported it.
TEST(RanksTest, RanksDoNotAbortForAnAgreedErrorBeforeTheFirstOne) {
  std::atomic<bool> first_aborts = false;
  const auto results = RunRanks(3, [&](Ranks& ranks) -> absl::Status {
    absl::Status error = ranks
                             .BroadcastFromFirst([]() -> absl::StatusOr<std::string> {
                               return absl::NotFoundError("none");
                             })
                             .status();
    if (ranks.is_first()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      first_aborts = true;
    }
    ranks.Abort(error);
    EXPECT_TRUE(first_aborts);
    return error;
  });
  EXPECT_TRUE(IsAgreed(results[0])) << results[0];
}

// Regression: rank 0 had the error of rank 1 and aborted before rank 1 knew that all had it, and
// both reported it.
TEST(RanksTest, AnErrorThatTheFirstRankHasAlreadyIsReportedByItAlone) {
  const absl::Status error = absl::ResourceExhaustedError("no memory");
  const auto results = RunRanks(2, [&](Ranks& ranks) -> absl::Status {
    if (!ranks.is_first()) return ranks.Agree(error);
    ranks.Abort(AgreedError(error));
    return AgreedError(error);
  });
  EXPECT_TRUE(IsAgreed(results[0])) << results[0];
  EXPECT_TRUE(IsOfAnotherRank(results[1])) << results[1];
}

TEST(RanksTest, AMeshOfAnotherSizeIsRefused) {
  const auto results = RunRanks(2, [](Ranks& ranks) -> absl::Status {
    ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create({{"data", 3}}));
    return ranks.Agree(ranks.CollectivesOn(mesh).status());
  });
  EXPECT_THAT(std::string(results[0].message()), HasSubstr("has 3 ranks, the job 2"));
}

}  // namespace
}  // namespace tessera
