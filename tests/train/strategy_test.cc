// Checks --strategy in the training program, as a user starts it: shared memory and TCP, help, a
// saved Plan, and errors.
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
using ::testing::Not;

std::vector<std::string> Flags(const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> flags =
      Tiny({"--optimizer=sgd", "--lr=0.1", "--batch=8", "--clip_norm=0", "--steps=20",
            "--set=model.layers=2,model.dropout=0.1", "--eval_every=10", "--threads=1",
            "--out=" + folder});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Trains in a new folder, and returns it.
std::string Trained(const std::vector<std::string>& more) {
  std::string folder = NewFolder();
  const Result result = RunProgram(GptProgram(), Flags(folder, more));
  EXPECT_EQ(result.code, 0) << result.err;
  return folder;
}

void ExpectNear(const std::string& folder, const std::string& expected) {
  for (const char* name : {"loss", "eval_loss"}) {
    const std::vector<double> a = Field(folder, name), b = Field(expected, name);
    ASSERT_EQ(a.size(), b.size());
    ASSERT_GT(a.size(), 1u);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * b[i]) << name << " " << i;
  }
}

TEST(StrategyTest, TrainsAsOneProcessDoesWithTheSameBitsByAll) {
  const std::string alone = Trained({});
  const std::string ddp = Trained({"--nproc=2", "--backend=shm", "--strategy=ddp"});
  ExpectNear(ddp, alone);
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--nproc=2", "--backend=tcp", "--strategy=ddp"},
           {"--nproc=2", "--backend=shm", "--strategy=fsdp"},
           {"--nproc=2", "--backend=tcp", "--strategy=fsdp", "--strategy_options=reshard=no"}}) {
    const std::string folder = Trained(flags);
    EXPECT_EQ(Field(folder, "loss"), Field(ddp, "loss")) << flags[1] << " " << flags[2];
    EXPECT_EQ(Field(folder, "eval_loss"), Field(ddp, "eval_loss"));
  }
}

// Regression: under `bazel run` these paths started at the folder of the runfiles.
TEST(StrategyTest, RelativePathsStartWhereTheUserStands) {
  const std::string user = NewFolder();
  std::filesystem::create_directory(user + "/plugins");
  std::filesystem::copy_file("strategies/ddp/ddp.so", user + "/mine.so");
  std::filesystem::copy_file("strategies/ddp/ddp.so", user + "/plugins/ours.so");
  std::filesystem::copy_file("strategies/conformance/testing/plan_file.so", user + "/plan_file.so");
  WriteFile(user + "/plan.textproto", ReadFile(DocumentedPlan("data_parallel")));
  RunOptions options;
  options.environment["BUILD_WORKING_DIRECTORY"] = user;
  options.environment["TESSERA_STRATEGY_PATH"] = "plugins";
  for (const std::vector<std::string>& strategy : std::vector<std::vector<std::string>>{
           {"--strategy=mine.so"},
           {"--strategy=./mine.so"},
           {"--strategy=ours"},
           {"--strategy=plan_file.so", "--strategy_options=file=plan.textproto"}}) {
    std::vector<std::string> flags = Tiny({"--nproc=2", "--steps=1", "--out=run"});
    flags.insert(flags.end(), strategy.begin(), strategy.end());
    const Result result = RunProgram(GptProgram(), flags, options);
    EXPECT_EQ(result.code, 0) << strategy[0] << "\n" << result.err;
    std::filesystem::remove_all(user + "/run");
  }
}

TEST(StrategyTest, SeveralRanksRunDdpUnlessTheFlagsSayOtherwise) {
  const std::string folder = Trained({"--nproc=2", "--dump=plan"});
  EXPECT_THAT(ReadFile(folder + "/dump/plan.textproto"), HasSubstr("bucket_gradients"));
  // One process needs no strategy.
  const std::string alone = Trained({"--dump=plan"});
  EXPECT_THAT(ReadFile(alone + "/dump/plan.textproto"), Not(HasSubstr("mesh")));
}

// The saved Plan of a strategy is replayed without the strategy.
TEST(StrategyTest, ASavedPlanIsReplayedWithTheSameBits) {
  const std::string folder = Trained({"--nproc=2", "--strategy=fsdp", "--dump=plan"});
  const std::string replayed = Trained({"--nproc=2", "--plan=" + folder + "/dump/plan.textproto"});
  EXPECT_EQ(Field(replayed, "loss"), Field(folder, "loss"));
}

TEST(StrategyTest, ARunIsContinuedByAnotherStrategy) {
  const std::string unbroken = Trained({"--nproc=2", "--strategy=ddp"});
  const std::string folder = NewFolder();
  std::vector<std::string> flags = Flags(folder, {"--nproc=2", "--strategy=fsdp"});
  flags.push_back("--steps=10");
  ASSERT_EQ(RunProgram(GptProgram(), flags).code, 0);
  const Result resumed = RunProgram(GptProgram(), {"--resume=" + folder, "--steps=20", "--nproc=3",
                                                   "--threads=1", "--strategy=ddp"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  ExpectNear(folder, unbroken);
}

// The loss scale restarts at its initial value, because a checkpoint in f32 has none.
TEST(StrategyTest, ARunIsContinuedInOtherDtypes) {
  const std::string unbroken = Trained({"--nproc=2", "--strategy=ddp"});
  for (const char* dtype : {"f16", "bf16"}) {
    const std::string folder = Trained({"--nproc=2", "--strategy=fsdp", "--steps=10"});
    const Result resumed =
        RunProgram(GptProgram(), {"--resume=" + folder, "--steps=20", "--nproc=2", "--threads=1",
                                  "--strategy=fsdp", std::string("--dtype=") + dtype});
    ASSERT_EQ(resumed.code, 0) << dtype << ": " << resumed.err;
    const std::vector<double> a = Field(folder, "loss"), b = Field(unbroken, "loss");
    ASSERT_EQ(a.size(), b.size());
    EXPECT_NEAR(a.back(), b.back(), 2e-2 * b.back()) << dtype;
    EXPECT_NE(a.back(), b.back()) << dtype;
  }
}

TEST(StrategyTest, AnEstimateThatTheRunDoesNotMeetIsAnErrorThatNamesBoth) {
  const std::string faulty =
      std::filesystem::absolute("strategies/conformance/testing/faulty.so").string();
  const auto run = [&](const std::string& fault) {
    return RunProgram(GptProgram(),
                      Tiny({"--nproc=2", "--steps=3", "--strategy=" + faulty,
                            "--strategy_options=fault=" + fault, "--out=" + NewFolder()}));
  };
  EXPECT_EQ(run("none").code, 0);
  ExpectOneError(run("fewer_calls"),
                 "strategy faulty: the estimate of a step has 17 calls of all-reduce along data "
                 "and 12264 bytes, "
                 "and in 1 step 18 calls and 12264 bytes were counted");
  ExpectOneError(run("fewer_bytes"),
                 "strategy faulty: the estimate of a step has 18 calls of all-reduce along data "
                 "and 6132 bytes, "
                 "and in 1 step 18 calls and 12264 bytes were counted");
  ExpectOneError(run("less_memory"), "strategy faulty: its estimate has ");
}

// Each ends all ranks at once, with one line that names the strategy.
TEST(StrategyTest, FaultsOfAPluginAreErrorsThatNameIt) {
  const std::string faulty =
      std::filesystem::absolute("strategies/conformance/testing/faulty.so").string();
  const auto expect = [&](const std::string& ranks, const std::string& fault,
                          const std::string& part) {
    ExpectOneError(RunProgram(GptProgram(),
                              Tiny({ranks, "--steps=3", "--strategy=" + faulty,
                                    "--strategy_options=fault=" + fault, "--out=" + NewFolder()})),
                   part);
  };
  for (const char* const ranks : {"--nproc=3", "--nproc=1"}) {
    expect(ranks, "abort", "strategy faulty: `make_plan` ended its process: signal 6 (Aborted)");
    expect(ranks, "segmentation_fault",
           "strategy faulty: `make_plan` ended its process: signal 11 (Segmentation fault)");
    expect(ranks, "exit", "strategy faulty: `make_plan` ended its process: exit code 0");
  }
  expect("--nproc=3", "abort_in_estimate",
         "strategy faulty: `estimate` ended its process: signal 6 (Aborted)");
  expect("--nproc=3", "abort_in_pass",
         "strategy faulty: `run_pass` of 'abort_in_pass' ended its process: signal 6 (Aborted)");
  expect("--nproc=2", "unknown_path",
         "strategy faulty: its Plan cannot be run: the Plan's store 'no.such.path'");
  expect("--nproc=2", "no_mesh", "strategy faulty: its Plan cannot be run: ");
}

// Regression: a line that followed another within a second was not shown.
TEST(StrategyTest, AllLinesThatAPluginLogsAreShown) {
  const std::string faulty =
      std::filesystem::absolute("strategies/conformance/testing/faulty.so").string();
  const Result result =
      RunProgram(GptProgram(), Tiny({"--nproc=2", "--steps=1", "--strategy=" + faulty,
                                     "--strategy_options=fault=logs", "--out=" + NewFolder()}));
  EXPECT_EQ(result.code, 0) << result.err;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_THAT(result.out, HasSubstr("strategy faulty: line " + std::to_string(i) + "\n"));
  }
}

TEST(StrategyTest, HelpShowsTheOptions) {
  const Result help = RunProgram(GptProgram(), {"--strategy=fsdp", "--help"});
  EXPECT_EQ(help.code, 0) << help.err;
  EXPECT_THAT(help.out, HasSubstr("fully sharded"));
  EXPECT_THAT(help.out, HasSubstr("in_flight=INT"));
  EXPECT_THAT(help.out, HasSubstr("(default 2, from 0 to "));
}

TEST(StrategyTest, ErrorsAreOneLine) {
  const auto error = [](const std::vector<std::string>& flags, const std::string& part) {
    const std::string folder = NewFolder() + "/run";
    ExpectOneError(RunProgram(GptProgram(), Flags(folder, flags)), part);
    EXPECT_FALSE(std::filesystem::exists(folder));
  };
  error({"--nproc=2", "--strategy=dpp"}, "there is no strategy 'dpp'; did you mean 'ddp'?");
  error({"--nproc=2", "--strategy=/etc/passwd"}, "cannot load the strategy plugin /etc/passwd");
  error({"--nproc=2", "--strategy=fsdp", "--strategy_options=replicas=3"},
        "strategy fsdp: replicas is 3: it must divide the 2 ranks of the run");
  error({"--nproc=2", "--strategy=ddp", "--strategy_options=bucket=-1"},
        "option bucket is '-1', and has to be a size such as 25MiB");
  error({"--nproc=2", "--strategy=fsdp", "--strategy_options=units=pattern,pattern=c.*"},
        "strategy fsdp: pattern 'c.*' matches no scope of the model's parameters, such as '");
  error({"--nproc=2", "--strategy=ddp", "--strategy_options=shard=full"},
        "strategy ddp has no option 'shard'");
  error({"--nproc=2", "--strategy=ddp", "--memory_limit=1KiB"},
        "the smallest limit that could be met is");
}

}  // namespace
}  // namespace tessera
