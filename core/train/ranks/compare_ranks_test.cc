#include "core/train/ranks/compare_ranks.h"

#include <memory>
#include <string>
#include <vector>

#include "collectives/fake/fake.h"
#include "core/status/status_macros.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// The error of each rank; all of them have the same one.
std::string ErrorOf(const std::vector<std::vector<RankFact>>& facts) {
  const auto results = comm::RunFake(
      {.ranks = static_cast<int>(facts.size())}, [&](comm::World& world) -> absl::Status {
        ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Create(&world));
        return CompareRanks(*ranks, facts[ranks->rank()], "use one configuration");
      });
  for (const absl::Status& status : results) {
    EXPECT_EQ(status, results[0]);
    EXPECT_EQ(IsAgreed(status), !status.ok());
  }
  return std::string(results[0].message());
}

TEST(CompareRanksTest, EqualFactsAreFine) {
  const std::vector<RankFact> facts = {{"model", "gpt"}, {"prompt", ""}};
  EXPECT_EQ(ErrorOf({facts}), "");
  EXPECT_EQ(ErrorOf({facts, facts, facts}), "");
}

TEST(CompareRanksTest, TheRanksThatDifferAndInWhat) {
  const std::vector<RankFact> facts = {{"model", "gpt"}, {"lr", "0.1"}, {"steps", "20"}};
  const std::vector<RankFact> other = {{"model", "gpt"}, {"lr", "0.2"}, {"steps", "30"}};
  EXPECT_EQ(ErrorOf({facts, other}),
            "rank 1 differs from rank 0 in lr: 0.2, and rank 0 has 0.1; use one configuration");
  EXPECT_EQ(ErrorOf({facts, other, facts, other}),
            "ranks 1 and 3 differ from rank 0 in lr: 0.2, and rank 0 has 0.1; use one "
            "configuration");
  // Ranks that differ in another fact are reported later.
  EXPECT_EQ(ErrorOf({facts, {{"model", "mlp"}}, other}),
            "rank 1 differs from rank 0 in model: mlp, and rank 0 has gpt; use one configuration");
}

TEST(CompareRanksTest, AFactThatIsMissingOrAdded) {
  const std::vector<RankFact> one = {{"model", "gpt"}};
  const std::vector<RankFact> two = {{"model", "gpt"}, {"prompt", "a\nb"}};
  EXPECT_EQ(ErrorOf({two, one}),
            "rank 1 differs from rank 0 in prompt: nothing, and rank 0 has a b; use one "
            "configuration");
  EXPECT_EQ(ErrorOf({one, two}),
            "rank 1 differs from rank 0 in prompt: a b, and rank 0 has nothing; use one "
            "configuration");
}

}  // namespace
}  // namespace tessera
