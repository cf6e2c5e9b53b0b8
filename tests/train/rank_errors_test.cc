// Mistakes of a user who starts several ranks: one line, and nothing is written.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

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

TEST(RankErrorsTest, RanksWithOtherFlagsOrModelsAreNamed) {
  const std::string plan = "--plan=" + PlanFile();
  const std::string gpt = CommandOf(GptProgram(), Tiny({plan, "--out=" + NewFolder() + "/run"}));
  ExpectOneError(LaunchShell(3, "if [ $RANK = 2 ]; then " + gpt + " --lr=0.002; fi; " + gpt),
                 "rank 2 differs from rank 0 in optimizer.lr: 0.002, and rank 0 has ");
  ExpectOneError(LaunchShell(2, "if [ $RANK = 1 ]; then " + gpt + " --threads=2; fi; " + gpt),
                 "rank 1 differs from rank 0 in threads: 2, and rank 0 has 1");
  ExpectOneError(LaunchShell(2, "if [ $RANK = 1 ]; then " + gpt + " --data=synthetic; fi; " + gpt),
                 "rank 1 differs from rank 0 in the data: random tokens below ");
  ExpectOneError(
      LaunchShell(2, "if [ $RANK = 1 ]; then " +
                         CommandOf(MlpProgram(), {"--data=" + TextFile(), plan}) + "; fi; " + gpt),
      "rank 1 differs from rank 0 in the model: mlp, and rank 0 has gpt");
  // Errors that one rank alone finds.
  ExpectOneError(LaunchShell(2, "if [ $RANK = 1 ]; then " + gpt + " --data=/no/file; fi; " + gpt),
                 "[0] error: rank 1: ");
}

TEST(RankErrorsTest, APlanThatDoesNotFitIsOneLine) {
  const auto run = [](const std::string& plan, const std::vector<std::string>& more) {
    std::vector<std::string> flags = more;
    flags.push_back("--out=" + NewFolder() + "/run");
    return RunProgram(GptProgram(), OnRanks(2, plan, flags));
  };
  ExpectOneError(run(PlanFile("mesh { name: \"data\" size: 3 }"), {}), "the Plan's mesh: ");
  ExpectOneError(run(PlanFile("parts { graph: \"train\" }"), {}),
                 "the Plan has no mesh for the 2 ranks of the job");
  ExpectOneError(run("/no/such/plan", {}), "cannot read the Plan /no/such/plan: No such file");
  ExpectOneError(run(PlanFile("mesh { nmae: \"data\" }"), {}),
                 "plan.textproto: is no Plan: line 2: ");
  ExpectOneError(
      run(PlanFile("mesh { name: \"data\" } store { path: \"wtf\" layout: \"data: S(0)\" }"), {}),
      "wtf");
  const std::string part = "mesh { name: \"data\" } parts { graph: \"train\" micro_batches: 2 ";
  ExpectOneError(run(PlanFile(part + "}"), {"--micro_batches=4"}),
                 "--micro_batches is 4, and the Plan says 2 for graph 'train'");
  ExpectOneError(run(PlanFile(part + "recompute: \"blocks.0\" }"), {"--recompute=none"}),
                 "--recompute is none, and the Plan says that blocks are recomputed");
  EXPECT_EQ(run(PlanFile(part + "}"), {"--micro_batches=2"}).code, 0);

  // A completed Plan is for the Graphs that it was made for.
  const std::string other = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(),
                       OnRanks(2, PlanFile(), {"--batch=8", "--dump=plan", "--out=" + other}))
                .code,
            0);
  const std::string completed = other + "/dump/plan.textproto";
  ExpectOneError(run(completed, {}), "the Plan was made for another graph '");
  EXPECT_EQ(run(completed, {"--batch=8"}).code, 0);
}

TEST(RankErrorsTest, FlagsThatDoNotFitEachOther) {
  const auto error = [](const std::vector<std::string>& flags) {
    const Result result = RunProgram(GptProgram(), Tiny(flags));
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(CountOf("\n", result.err), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"--ranks=2"}), HasSubstr("--nproc=N starts ranks"));
  EXPECT_THAT(error({"--max_restarts=2"}), HasSubstr("--max_restarts is for ranks that --nproc=N"));
  EXPECT_THAT(error({"--nproc=0"}), HasSubstr("give the number of ranks, from 1 to"));
  EXPECT_THAT(error({"--timeout=0"}), HasSubstr("--timeout=0 is not a number of seconds"));
  ExpectOneError(RunProgram(GptProgram(), Tiny({"--nproc=2", "--out=" + NewFolder() + "/run"})),
                 "a run of 2 ranks needs a Plan: --plan=FILE");
  EXPECT_THAT(LaunchShell(2, CommandOf(GptProgram(), OnRanks(2, PlanFile(), {}))).err,
              HasSubstr("leave out --nproc"));
}

}  // namespace
}  // namespace tessera
