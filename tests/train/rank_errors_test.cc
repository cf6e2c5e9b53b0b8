// Checks that mistakes of a user who starts several ranks result in one line, and that nothing is
// written.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class RanksThatDifferTest : public testing::TestWithParam<std::string> {};

TEST_P(RanksThatDifferTest, AreNamed) {
  const std::string plan = GetParam().empty() ? "--plan=" + PlanFile() : GetParam();
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
  // Errors that only one rank finds.
  ExpectOneError(LaunchShell(2, "if [ $RANK = 1 ]; then " + gpt + " --data=/no/file; fi; " + gpt),
                 "[0] error: rank 1: ");
}

INSTANTIATE_TEST_SUITE_P(ByAPlanAndByAStrategy, RanksThatDifferTest,
                         testing::Values("", "--strategy=fsdp"),
                         [](const auto& test) { return test.param.empty() ? "plan" : "strategy"; });

TEST(RankErrorsTest, RanksWithOtherStrategiesAreNamed) {
  const std::string gpt = CommandOf(GptProgram(), Tiny({"--out=" + NewFolder() + "/run"}));
  const auto error = [&](const std::string& of_1, const std::string& of_others,
                         const std::string& part) {
    ExpectOneError(
        LaunchShell(2, "if [ $RANK = 1 ]; then " + gpt + of_1 + "; fi; " + gpt + of_others), part);
  };
  error(" --strategy=ddp", " --strategy=fsdp", "rank 1 differs from rank 0 in --strategy: ddp");
  error(" --strategy=fsdp --strategy_options=prefetch=2", " --strategy=fsdp",
        "rank 1 differs from rank 0 in --strategy_options: prefetch=2");
}

// Runs two ranks with the Plan. They fail with one line, which contains `part`, and write nothing.
void ExpectPlanError(const std::string& plan, const std::vector<std::string>& more,
                     const std::string& part) {
  const std::string folder = NewFolder() + "/run";
  std::vector<std::string> flags = more;
  flags.push_back("--out=" + folder);
  ExpectOneError(RunProgram(GptProgram(), OnRanks(2, plan, flags)), part);
  EXPECT_FALSE(fs::exists(folder)) << part;
}

TEST(RankErrorsTest, APlanThatDoesNotFitIsOneLine) {
  ExpectPlanError("/no/such/plan", {}, "cannot read the Plan /no/such/plan: No such file");
  ExpectPlanError(PlanFile("mesh { nmae: \"data\" }"), {}, "plan.textproto: is no Plan: line 2: ");
  struct Case {
    std::string stage;
    std::string part;
  };
  for (const Case& each : std::vector<Case>{
           {"mesh { name: 'data' size: 3 }", "the mesh (data: 3) has 3 ranks, but the job has 2"},
           {"mesh { name: 'data' } mesh { name: 'model' }", "only one can take the ranks that "},
           {"parts { graph: 'train' }", "the Plan has no mesh for the 2 ranks of the job"},
           {"mesh { name: 'data' } store { path: 'wtf' layout: 'data: S(0)' }", "wtf"},
           {"mesh { name: 'data' } store { path: 'tokens' layout: 'dtaa: S(0)' }",
            "has no axis 'dtaa'; did you mean 'data'?"},
           {"mesh { name: 'data' } store { path: 'tokens' layout: 'data: S(7)' }",
            "layout 'data: S(7)' does not fit [4, 16]"},
           {"mesh { name: 'data' } store { path: 'wte.weight' layout: 'data: P' }",
            "holds partial values; a store is S or B"},
           {"mesh { name: 'data' } compute { path: 'blocks.*.fc' signature: 'data: B, B -> B' }",
            "no operator of the graphs 'initialise', 'train', 'evaluate' matches"},
           {"mesh { name: 'data' } compute { path: 'blocks.0.mlp.fc.matmul' signature: "
            "'data: S(9), S(9) -> P' }",
            "which matmul does not have in graph 'train'; it has B; S(0), B -> S(0); "},
           {"mesh { name: 'data' } group { path: 'blocks.*' layout: 'data: flat' }",
            "'layout' is of Plan format 1: write over: \"data\""},
           {"mesh { name: 'data' } pass { bukket_gradients {} }",
            "has no field named \"bukket_gradients\""},
           {"mesh { name: 'data' } pass { bucket_gradients { cap_mib: -3 } }",
            "cap_mib: -3 is no number of MiB above 0"},
           {"mesh { name: 'data' } parts { graph: 'trian' micro_batches: 2 }",
            "the Plan has a part for graph 'trian'; a run has initialise, train, evaluate, "
            "predict, generate; did you mean 'train'?"},
           {"mesh { name: 'data' } parts { graph: 'train' micro_batches: 3 }",
            "micro_batches is 3: it must divide batch, which is 4"},
           {"mesh { name: 'data' } parts { graph: 'train' recompute: 'blocks.9' }",
            "recompute: graph 'train' has no block, scope or operator of the forward pass "
            "'blocks.9'; "
            "its blocks are blocks.0"},
       }) {
    ExpectPlanError(PlanFile(each.stage), {}, each.part);
  }
  // A Plan for another model.
  ExpectPlanError(PlanFile("mesh { name: 'data' } store { path: 'layers.0.weight' layout: 'B' }"),
                  {}, "layers.0.weight");
}

// One rank reads the text for all of its host, and its error is that of all.
TEST(RankErrorsTest, AFileThatIsNoTextIsOneError) {
  const std::string file = NewFolder() + "/data.txt";
  WriteFile(file, std::string(1 << 20, 'a') + "\xff");
  ExpectPlanError(PlanFile(), {"--data=" + file},
                  "error: " + file + ": is not UTF-8 text: byte 0x");
  // A Plan does not depend on the contents, so little of them is read.
  const Result planned = RunProgram(GptProgram(), Tiny({"--data=" + file, "--plan_only"}));
  EXPECT_EQ(planned.code, 0) << planned.err;
  WriteFile(file, "\xff" + std::string(1 << 20, 'a'));
  EXPECT_EQ(RunProgram(GptProgram(), Tiny({"--data=" + file, "--plan_only"})).code, 1);
}

TEST(RankErrorsTest, FlagsBesideAPlanThatSaysOtherwise) {
  const std::string part = "mesh { name: \"data\" } parts { graph: \"train\" micro_batches: 2 ";
  ExpectPlanError(PlanFile(part + "}"), {"--micro_batches=4"},
                  "--micro_batches is 4, and the Plan says 2 for graph 'train'");
  ExpectPlanError(PlanFile(part + "recompute: \"blocks.0\" }"), {"--recompute=none"},
                  "--recompute is none, and the Plan says that activations are recomputed");
  EXPECT_EQ(RunProgram(GptProgram(), OnRanks(2, PlanFile(part + "}"),
                                             {"--micro_batches=2", "--out=" + NewFolder()}))
                .code,
            0);
}

TEST(RankErrorsTest, ACompletedPlanIsForItsOwnGraphs) {
  const std::string other = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(),
                       OnRanks(2, PlanFile(), {"--batch=8", "--dump=plan", "--out=" + other}))
                .code,
            0);
  const std::string completed = other + "/dump/plan.textproto";
  ExpectPlanError(completed, {}, "the Plan was made for another graph '");
  EXPECT_EQ(
      RunProgram(GptProgram(), OnRanks(2, completed, {"--batch=8", "--out=" + NewFolder()})).code,
      0);
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
  EXPECT_THAT(error({"--strategy=ddp", "--plan=p"}), HasSubstr("exclude each other"));
  EXPECT_THAT(error({"--strategy_options=a=b"}), HasSubstr("name it with --strategy=NAME"));
  EXPECT_THAT(LaunchShell(2, CommandOf(GptProgram(), OnRanks(2, PlanFile(), {}))).err,
              HasSubstr("leave out --nproc"));
  EXPECT_THAT(error({"--nproc=2", "--hosts=a,b,c"}),
              HasSubstr("the hosts of 3 ranks, and --nproc"));
  EXPECT_THAT(error({"--nproc=2", "--rendezvous=a:1"}), HasSubstr("leave it out beside --nproc"));
}

// Regression: every rank found and printed these errors.
TEST(RankErrorsTest, ErrorsBeforeRanksAreConnectedAreOneLine) {
  ExpectPlanError(PlanFile(), {"--backend=smh"}, "error: there is no backend 'smh': ");
  ExpectPlanError(PlanFile(), {"--hosts=a,b", "--backend=shm"},
                  "error: the ranks are on several hosts, and the backend shm is for one host");
  ExpectPlanError(PlanFile(), {"--backend=tcp", "--interface=none0"},
                  "'none0' is neither an address nor an interface of this host that is up");
  const std::string command = CommandOf(GptProgram(), Tiny({"--bogus=1"}));
  ExpectOneError(LaunchShell(3, command), "[0] error: there is no flag '--bogus'");
}

// Regression: the other ranks waited for the whole time-out, or two ranks reported the error.
TEST(RankErrorsTest, ARankThatLacksMemoryEndsAllAtOnce) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map more than any limit";
#endif
  struct Case {
    std::string strategy;
    std::vector<std::string> more;
  };
  for (const std::string backend : {"shm", "tcp"}) {
    for (const Case& each : std::vector<Case>{
             {"--strategy=fsdp", {"--batch=120000"}},
             {"--strategy=fsdp --strategy_options=offload=all",
              {"--set=model.vocabulary=4000000,model.channels=32", "--data=synthetic"}}}) {
      std::vector<std::string> flags = Tiny({"--backend=" + backend, "--out=" + NewFolder()});
      flags.insert(flags.end(), each.more.begin(), each.more.end());
      const std::string gpt = CommandOf(GptProgram(), flags) + " " + each.strategy;
      const auto begin = std::chrono::steady_clock::now();
      const Result result = LaunchShell(3, "[ $RANK != 1 ] || ulimit -v 500000; " + gpt);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
      ExpectOneError(result, "[0] error: rank 1: ");
      EXPECT_THAT(result.err, HasSubstr(" bytes of "));
      EXPECT_THAT(result.err, HasSubstr("memory"));
    }
  }
}

// Rank 1 joins the job, and then does not connect to the others.
TEST(RankErrorsTest, ARankThatDoesNotConnectIsNamed) {
  const std::string gpt = CommandOf(GptProgram(), Tiny({"--plan=" + PlanFile(), "--timeout=1"}));
  const Result result = LaunchShell(2, "if [ $RANK = 0 ]; then " + gpt + "; fi; exec " +
                                           fs::absolute("tools/launch/test_rank").string());
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("[0] error: rank 1 did not come within 1 s; waiting to connect "
                                    "(hosts, identity)\n"));
}

}  // namespace
}  // namespace tessera
