// Checks runs of several ranks, each a process, as a user starts them.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "core/posix/available_cores.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// Trains with one process and returns the run's folder.
std::string Alone(const std::vector<std::string>& more) {
  std::string folder = NewFolder();
  std::vector<std::string> flags = more;
  flags.push_back("--out=" + folder);
  const Result result = RunProgram(GptProgram(), Tiny(flags));
  EXPECT_EQ(result.code, 0) << result.err;
  return folder;
}

TEST(RanksTest, ReplicasTrainAsOneProcessDoes) {
  const std::vector<std::string> more = {"--eval_every=10", "--set=model.dropout=0.1"};
  const std::string expected = Alone(more);
  struct Case {
    int ranks;
    std::vector<std::string> flags;
  };
  for (const Case& each : {Case{2, {}}, Case{2, {"--backend=tcp"}}, Case{3, {"--hosts=a,a,b"}}}) {
    const std::string folder = NewFolder();
    std::vector<std::string> flags = more;
    flags.insert(flags.end(), each.flags.begin(), each.flags.end());
    flags.push_back("--out=" + folder);
    const Result result = RunProgram(GptProgram(), OnRanks(each.ranks, PlanFile(), flags));
    EXPECT_EQ(result.code, 0) << result.err;
    ExpectSameMetrics(folder, expected);
    // Only rank 0 prints, and no number stands before its lines.
    EXPECT_THAT(result.out,
                AllOf(HasSubstr("\nrun folder: "), Not(HasSubstr("[0] ")), Not(HasSubstr("[1] "))));
    EXPECT_THAT(result.err, Not(HasSubstr("[0] ")));
    EXPECT_THAT(result.out, HasSubstr("; " + std::to_string(each.ranks) + " ranks, "));
    EXPECT_EQ(Checkpoints(folder).size(), 1);
    EXPECT_FALSE(fs::exists(folder + "/seen_by_all_ranks"));
  }
}

// In double, the order of sums shows in the last digits only.
TEST(RanksTest, DataParallelTrainsAsOneProcessDoes) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--micro_batches=2", "--recompute=block"}}) {
    std::vector<std::string> flags = {"--device=reference", "--eval_every=5", "--batch=8",
                                      "--set=model.dropout=0.1"};
    flags.insert(flags.end(), more.begin(), more.end());
    const std::string expected = Alone(flags);
    for (const int ranks : {2, 4}) {
      const std::string folder = NewFolder();
      std::vector<std::string> on_ranks = flags;
      on_ranks.push_back("--out=" + folder);
      const Result result =
          RunProgram(GptProgram(), OnRanks(ranks, DocumentedPlan("data_parallel"), on_ranks));
      ASSERT_EQ(result.code, 0) << result.err;
      for (const char* name : {"loss", "grad_norm", "eval_loss"}) {
        const std::vector<double> values = Field(folder, name), others = Field(expected, name);
        ASSERT_EQ(values.size(), others.size());
        for (size_t i = 0; i < values.size(); ++i) {
          EXPECT_NEAR(values[i], others[i], 1e-10 * others[i]) << name << " " << i;
        }
      }
    }
  }
}

TEST(RanksTest, APlanForAnyNumberOfRanksNeedsNoneOfThem) {
  for (const std::string flag : {"--ranks=64", "--nproc=64"}) {
    const Result result = RunProgram(
        GptProgram(),
        Tiny({"--plan_only", flag, "--batch=64", "--plan=" + DocumentedPlan("data_parallel")}));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("; 64 ranks\n"), HasSubstr(" on each of 64 ranks")));
  }
}

TEST(RanksTest, ATraceHasAProcessForEachRank) {
  const std::string folder = NewFolder();
  const std::string path = folder + "/trace.json";
  const Result result = RunProgram(GptProgram(), OnRanks(2, DocumentedPlan("data_parallel"),
                                                         {"--out=" + folder, "--trace=" + path}));
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json trace = nlohmann::json::parse(ReadFile(path));
  std::vector<std::string> names;
  std::vector<double> begins;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
    if (event["name"] == "step") begins.push_back(event["ts"]);
  }
  EXPECT_THAT(names, ElementsAre("rank 0: tessera train", "rank 1: tessera train",
                                 "rank 0: tessera train, predicted"));
  ASSERT_EQ(begins.size(), 3);
  for (const double begin : begins) EXPECT_GE(begin, 0);
}

TEST(RanksTest, EvaluationAndSamplesAreThoseOfOneProcess) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), OnRanks(2, PlanFile(), {"--out=" + folder})).code, 0);
  for (const std::string mode : {"evaluate", "sample"}) {
    const std::vector<std::string> flags = {"--resume=" + folder, "--mode=" + mode,
                                            "--sample_tokens=30", "--prompt=Line"};
    std::vector<std::string> on_ranks = flags;
    on_ranks.push_back("--nproc=2");
    const Result together = RunProgram(GptProgram(), on_ranks);
    const Result alone = RunProgram(GptProgram(), flags);
    ASSERT_EQ(together.code, 0) << together.err;
    ASSERT_EQ(alone.code, 0) << alone.err;
    EXPECT_THAT(alone.out, HasSubstr("the checkpoint's Plan is for several ranks"));
    if (mode == "evaluate") {
      const auto loss = [](const std::string& out) {
        const size_t at = out.find("eval_loss ");
        return out.substr(at, out.find(" (", at) - at);
      };
      EXPECT_EQ(loss(together.out), loss(alone.out));
    } else {
      EXPECT_EQ(together.out.substr(together.out.find("--- sample")),
                alone.out.substr(alone.out.find("--- sample")));
    }
  }
  // Another number of ranks needs a Plan.
  ExpectOneError(RunProgram(GptProgram(), {"--nproc=3", "--resume=" + folder, "--mode=evaluate"}),
                 "name a strategy or a Plan for them with --strategy=NAME or --plan=FILE");
  EXPECT_EQ(RunProgram(GptProgram(), {"--nproc=3", "--resume=" + folder, "--mode=evaluate",
                                      "--plan=" + PlanFile()})
                .code,
            0);
}

// Regression: if each rank had cores of its own, these were divided by the number of ranks once
// more.
TEST(RanksTest, MoreThreadsThanCoresForARankAreNoted) {
  const int cores = AvailableCores();
  const auto notes = [](int threads) {
    const Result result =
        RunProgram(GptProgram(),
                   OnRanks(2, PlanFile(), {"--threads=" + std::to_string(threads), "--steps=1"}));
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out + result.err;
  };
  EXPECT_THAT(notes(std::max(1, cores / 2)), Not(HasSubstr("they wait for each other")));
  EXPECT_THAT(notes(std::max(2, cores)), HasSubstr(" for each rank: they wait for each other"));
}

TEST(RanksTest, MemoryIsLimitedPerRankAndChecked) {
  ExpectOneError(
      RunProgram(GptProgram(),
                 OnRanks(2, PlanFile(), {"--memory_limit=1KiB", "--out=" + NewFolder() + "/r"})),
      "memory_limit is 1KiB, and each rank needs ");
  const Result result =
      RunProgram(GptProgram(), OnRanks(2, PlanFile(), {"--check_memory", "--out=" + NewFolder()}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("memory checked: "));
}

}  // namespace
}  // namespace tessera
