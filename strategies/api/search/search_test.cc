#include "strategies/api/search/search.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::strategy::search {
namespace {

using ::testing::IsEmpty;

struct Best {
  std::vector<int> choices;
  int64_t step_ps = INT64_MAX;
  int64_t least_peak_bytes = INT64_MAX;
};

// Evaluates all choices.
Best TryAll(const Problem& problem) {
  Best best;
  std::vector<int> choices(problem.units.size(), 0);
  for (;;) {
    const Outcome outcome = Evaluate(problem, choices);
    best.least_peak_bytes = std::min(best.least_peak_bytes, outcome.peak_bytes);
    if (outcome.peak_bytes <= problem.limit_bytes && outcome.step_ps < best.step_ps) {
      best.step_ps = outcome.step_ps;
      best.choices = choices;
    }
    size_t i = 0;
    while (i < choices.size() && ++choices[i] == static_cast<int>(problem.units[i].size())) {
      choices[i++] = 0;
    }
    if (i == choices.size()) return best;
  }
}

class Draw {
 public:
  explicit Draw(int seed) : engine_(seed) {}

  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % (high - low + 1));
  }

  // Small numbers, so that ties and exact fits are common; some are 0.
  int64_t Small() { return Between(0, 3) == 0 ? 0 : Between(1, 12); }

  Alternative Any() {
    return {.forward_gather_ps = Small(),
            .forward_ps = Small(),
            .backward_gather_ps = Small(),
            .backward_ps = Small(),
            .reduction_ps = Small(),
            .held_bytes = Small(),
            .growth_bytes = Small() - 5,
            .surge_bytes = Small()};
  }

  // Alternatives of a unit as they are in training: replicated, sharded, gathered once.
  std::vector<Alternative> Unit(int ranks) {
    const int64_t size = Between(0, 40), activations = Between(0, 30);
    const int64_t forward = Between(1, 30), link = Between(1, 3);
    const int64_t gather = size * link, shard = (size + ranks - 1) / ranks;
    const Alternative replicated = {.forward_ps = forward,
                                    .backward_ps = 2 * forward,
                                    .reduction_ps = 2 * gather,
                                    .held_bytes = 3 * size + activations,
                                    .growth_bytes = size - activations};
    Alternative sharded = replicated;
    sharded.forward_gather_ps = sharded.backward_gather_ps = sharded.reduction_ps = gather;
    sharded.held_bytes = 3 * shard + activations;
    sharded.growth_bytes = shard - activations;
    sharded.surge_bytes = 2 * size;
    Alternative once = sharded;
    once.backward_gather_ps = 0;
    once.held_bytes += size;
    once.growth_bytes -= size;
    once.surge_bytes = size;
    return {replicated, sharded, once};
  }

  Problem Random() {
    Problem problem;
    const int64_t units = Between(0, 6), kind = Between(0, 3);
    for (int64_t i = 0; i < units; ++i) {
      if (kind == 0 && i > 0 && Between(0, 1) == 0) {
        problem.units.push_back(problem.units.back());  // an equal unit
      } else if (kind <= 1) {
        problem.units.push_back(Unit(static_cast<int>(Between(1, 8))));
      } else {
        problem.units.emplace_back(Between(1, 4));
        for (Alternative& alternative : problem.units.back()) alternative = Any();
      }
    }
    return problem;
  }

  // A limit that some choice meets exactly, by a byte not, or that is anything.
  int64_t Limit(const Problem& problem) {
    std::vector<int> choices;
    for (const auto& unit : problem.units) {
      choices.push_back(static_cast<int>(Between(0, static_cast<int64_t>(unit.size()) - 1)));
    }
    const int64_t peak = Evaluate(problem, choices).peak_bytes;
    return std::vector<int64_t>{peak, peak - 1, peak + Between(-20, 20),
                                INT64_MAX / 4}[Between(0, 3)];
  }

 private:
  std::mt19937_64 engine_;
};

// The golden cases of one memory and one time per alternative.
Problem OfMemoryAndTime(const std::vector<std::vector<int64_t>>& bytes,
                        const std::vector<std::vector<int64_t>>& times, int64_t limit) {
  Problem problem;
  problem.limit_bytes = limit;
  for (size_t i = 0; i < bytes.size(); ++i) {
    problem.units.emplace_back();
    for (size_t j = 0; j < bytes[i].size(); ++j) {
      problem.units.back().push_back({.forward_ps = times[i][j], .held_bytes = bytes[i][j]});
    }
  }
  return problem;
}

TEST(SearchTest, GoldenCases) {
  const std::vector<std::vector<int64_t>> bytes = {{160, 20}, {320, 40}, {640, 80}, {1280, 160}};
  const std::vector<std::vector<int64_t>> times = {{20, 30}, {40, 60}, {80, 120}, {160, 240}};
  const std::vector<std::pair<int64_t, int64_t>> cases = {{300, 450},  {1000, 400}, {1140, 390},
                                                          {1700, 350}, {2399, 310}, {2400, 300}};
  for (const auto& [limit, time] : cases) {
    const Solution solution = Solve(OfMemoryAndTime(bytes, times, limit));
    ASSERT_TRUE(solution.found()) << limit;
    EXPECT_EQ(solution.outcome.step_ps, time) << limit;
    EXPECT_EQ(solution.bound_ps, time) << limit;
    EXPECT_LE(solution.outcome.peak_bytes, limit);
  }
  const Solution none = Solve(OfMemoryAndTime(bytes, times, 299));
  EXPECT_FALSE(none.found());
  EXPECT_EQ(none.least_peak_bytes, 300);
  EXPECT_EQ(none.least_bound_bytes, 300);

  const Solution zeros = Solve(
      OfMemoryAndTime({{3, 5}, {2, 6}, {5, 0}, {6, 5}}, {{2, 7}, {4, 8}, {3, 7}, {6, 2}}, 12));
  ASSERT_TRUE(zeros.found());
  EXPECT_EQ(zeros.outcome.step_ps, 15);
}

TEST(SearchTest, EqualsTryingAllChoices) {
  int found = 0, infeasible = 0;
  for (int seed = 0; seed < 10000; ++seed) {
    Draw draw(seed);
    Problem problem = draw.Random();
    problem.limit_bytes = draw.Limit(problem);
    const Best best = TryAll(problem);
    const Solution solution = Solve(problem);
    if (problem.units.empty()) continue;
    ASSERT_EQ(solution.found(), !best.choices.empty()) << seed;
    if (!solution.found()) {
      ++infeasible;
      EXPECT_EQ(solution.least_peak_bytes, best.least_peak_bytes) << seed;
      EXPECT_EQ(solution.least_bound_bytes, best.least_peak_bytes) << seed;
      continue;
    }
    ++found;
    ASSERT_EQ(solution.outcome.step_ps, best.step_ps) << seed;
    EXPECT_EQ(solution.bound_ps, best.step_ps) << seed;
    EXPECT_LE(solution.outcome.peak_bytes, problem.limit_bytes) << seed;
    const Outcome again = Evaluate(problem, solution.choices);
    EXPECT_EQ(again.step_ps, solution.outcome.step_ps);
    EXPECT_EQ(again.peak_bytes, solution.outcome.peak_bytes);
  }
  EXPECT_GT(found, 5000);
  EXPECT_GT(infeasible, 500);
}

// A narrow search finds less, and its bound is still one.
TEST(SearchTest, BoundsOfNarrowSearches) {
  for (int seed = 0; seed < 2000; ++seed) {
    Draw draw(seed);
    Problem problem = draw.Random();
    if (problem.units.empty()) continue;
    problem.limit_bytes = draw.Limit(problem);
    const Best best = TryAll(problem);
    for (const double gap : {0.0, 0.1}) {
      const Solution solution = Solve(problem, {.gap = gap, .widest = 2});
      if (!solution.found()) {
        EXPECT_LE(solution.least_bound_bytes, best.least_peak_bytes) << seed;
        continue;
      }
      ASSERT_FALSE(best.choices.empty()) << seed;
      EXPECT_LE(solution.bound_ps, best.step_ps) << seed;
      EXPECT_GE(solution.outcome.step_ps, best.step_ps) << seed;
    }
  }
}

// The same for 1 to 12 units of up to 5 alternatives, with surges that are above all else.
TEST(SearchTest, BoundsOfNarrowSearchesWithLargeSurges) {
  int gaps = 0;
  for (int seed = 0; seed < 600; ++seed) {
    Draw draw(seed);
    Problem problem;
    const int64_t alternatives = draw.Between(2, 5);
    const int64_t most = alternatives == 2 ? 12 : alternatives == 3 ? 8 : 6;
    problem.units.resize(draw.Between(1, most));
    for (std::vector<Alternative>& unit : problem.units) {
      unit.resize(alternatives);
      for (Alternative& alternative : unit) {
        alternative = draw.Any();
        if (draw.Between(0, 2) == 0) alternative.surge_bytes = draw.Between(20, 100);
      }
    }
    problem.limit_bytes = draw.Limit(problem);
    const Best best = TryAll(problem);
    for (const int widest : {1, 4, 2048}) {
      const Solution solution = Solve(problem, {.widest = widest});
      if (!solution.found()) {
        EXPECT_LE(solution.least_bound_bytes, best.least_peak_bytes) << seed;
        continue;
      }
      ASSERT_FALSE(best.choices.empty()) << seed;
      EXPECT_LE(solution.bound_ps, best.step_ps) << seed;
      EXPECT_GE(solution.outcome.step_ps, best.step_ps) << seed;
      EXPECT_LE(solution.outcome.peak_bytes, problem.limit_bytes) << seed;
      if (widest == 2048) {
        EXPECT_EQ(solution.outcome.step_ps, best.step_ps) << seed;
      }
      if (solution.gap() > 0) ++gaps;
    }
  }
  EXPECT_GT(gaps, 20);  // there are bounds that were not proven to be the time
}

TEST(SearchTest, NoUnits) { EXPECT_THAT(Solve({}).choices, IsEmpty()); }

TEST(SearchTest, ALargerLimitIsNeverSlower) {
  for (int seed = 0; seed < 200; ++seed) {
    Draw draw(seed);
    Problem problem;
    for (int i = 0; i < 12; ++i) problem.units.push_back(draw.Unit(4));
    int64_t before = INT64_MAX;
    problem.limit_bytes = Solve(problem).least_peak_bytes;
    for (int i = 0; i < 20; ++i) {
      const Solution solution = Solve(problem);
      ASSERT_TRUE(solution.found());
      EXPECT_LE(solution.outcome.step_ps, before);
      before = solution.outcome.step_ps;
      problem.limit_bytes += 40;
    }
  }
}

}  // namespace
}  // namespace tessera::strategy::search
