// Checks what the tool says beforehand: the time and memory of a run, and that settings waste ranks
// or lead nowhere.
#include <csignal>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns the output of a run that is only planned.
std::string Planned(const std::vector<std::string>& more,
                    const std::map<std::string, std::string>& environment = {}) {
  std::vector<std::string> flags = Tiny({"--plan_only", "--batch=8"});
  flags.insert(flags.end(), more.begin(), more.end());
  RunOptions options;
  options.environment = environment;
  const Result result = RunProgram(GptProgram(), flags, options);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

// Returns the description of the ranks for which an output estimates a step.
std::string EstimatedFor(const std::string& out) {
  std::smatch found;
  EXPECT_TRUE(std::regex_search(out, found, std::regex("[\n ]step [^\n]* \\(for ([^\n]*)\\)\n")));
  return found[1];
}

TEST(GuidanceTest, APlanOfOneRankHasATimeToo) {
  // Rates that are kept: those of a machine that other tests keep busy would not be.
  const std::string cache = NewFolder();
  const std::string file = cache + "/tessera/machine.json";
  std::filesystem::create_directories(cache + "/tessera");
  WriteFile(file, "{\"" + EstimatedFor(Planned({})) +
                      "\": {\"flops_per_second\": 2e9, \"bytes_per_second\": 1e9}}");
  EXPECT_THAT(
      Planned({}, {{"XDG_CACHE_HOME", cache}}),
      ContainsRegex(
          "\nstep [0-9.]+ ms \\(for cpu: [^\n]*\\)\n[^\n]* tokens/s, MFU [^\n]*%\n"
          "rates: matmul 2.00 GFLOP/s, memory [^\n]*/s \\(the best of this machine so far, " +
          file + "\\)\n"));
  const std::string cluster = NewFolder() + "/cluster.textproto";
  WriteFile(cluster,
            "name: 'toasters' f32_flops_per_second: 1e9 memory_bytes_per_second: 1e9 "
            "within_host { latency_seconds: 1e-6 bytes_per_second: 1e9 }");
  EXPECT_THAT(
      Planned({"--cluster=" + cluster}),
      AllOf(HasSubstr(" (for toasters)\n"), HasSubstr("\nrates: matmul 1.00 GFLOP/s, memory "),
            HasSubstr(" (" + cluster + ")\n")));
}

// Regression: --plan_only planned each rank with all cores of the machine.
TEST(GuidanceTest, APlannedRankHasTheThreadsOfARunningOne) {
  const Result ran = RunProgram(GptProgram(), OnRanksBy("ddp", 2, {"--out=" + NewFolder()}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string running = EstimatedFor(ran.out);
  EXPECT_EQ(EstimatedFor(Planned({"--ranks=2"})), running);
  EXPECT_EQ(EstimatedFor(Planned({"--nproc=2"})), running);
  EXPECT_EQ(EstimatedFor(Planned({"--ranks=2", "--hosts=a,b"})), EstimatedFor(Planned({})))
      << "each has a machine of its own";
}

// Regression: 8, 64 and 512 ranks with 8 rows took the same time without a word.
TEST(GuidanceTest, MoreRanksThanRowsAreSaid) {
  EXPECT_THAT(Planned({"--ranks=8"}), Not(HasSubstr("no faster")));
  for (const char* strategy : {"ddp", "fsdp"}) {
    EXPECT_THAT(Planned({"--ranks=64", std::string("--strategy=") + strategy}),
                ContainsRegex("note: the batch has 8 rows for 64 ranks, and 56 of them have "
                              "nothing to compute: a step on 64 ranks is no faster than on "
                              "[78][0-9.]*; --batch=64 gives each a row\n"));
  }
  EXPECT_THAT(Planned({"--ranks=4", "--micro_batches=4"}),
              HasSubstr("note: a micro-batch has 2 rows for 4 ranks, and 2 of them have nothing"));
}

TEST(GuidanceTest, RanksThatRepeatEachOthersWorkAreSaid) {
  const std::string axes = "mesh { name: 'data' size: 2 } mesh { name: 'model' size: 2 } ";
  const std::string plan =
      "--plan=" + PlanFile(axes + "store { path: 'tokens|targets' layout: 'data: S(0)' }");
  for (const char* micro_batches : {"1", "2"}) {
    EXPECT_THAT(Planned({"--ranks=4", plan, std::string("--micro_batches=") + micro_batches}),
                HasSubstr("note: the 2 ranks along 'model' repeat 100% of each other's work: a "
                          "step on 4 ranks is no faster than on 2; "));
  }
  EXPECT_THAT(Planned({"--ranks=2", "--plan=" + DocumentedPlan("tensor_parallel")}),
              Not(HasSubstr("repeat")));
}

TEST(GuidanceTest, AStrategyOfOneRankIsSaid) {
  EXPECT_THAT(Planned({"--strategy=fsdp"}),
              HasSubstr("note: strategy fsdp has one rank, and so nothing to distribute: --ranks=N "
                        "plans for N ranks\n"));
  const Result result = RunProgram(
      GptProgram(), Tiny({"--strategy=fsdp", "--steps=1", "--out=" + NewFolder() + "/run"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("nothing to distribute: --nproc=N starts N ranks\n"));
  EXPECT_THAT(RunProgram(GptProgram(), Tiny({"--strategy=fdsp"})).err,
              HasSubstr("did you mean 'fsdp'?"));
}

TEST(GuidanceTest, ALongEvaluationIsAnnounced) {
  const Result fast = RunProgram(
      GptProgram(), Tiny({"--data=synthetic", "--steps=1", "--out=" + NewFolder() + "/run"}));
  ASSERT_EQ(fast.code, 0) << fast.err;
  EXPECT_THAT(fast.out, Not(HasSubstr("evaluating"))) << "it is over before one reads that";
  // So many batches take long on any machine; it is stopped in the evaluation.
  const std::string text = NewFolder() + "/text";
  WriteFile(text, std::string(8'000'000, 'a'));
  RunningProgram slow(GptProgram(), Tiny({"--data=" + text, "--device=reference", "--steps=1",
                                          "--batch=1", "--set=eval_batches=40000,model.channels=64",
                                          "--out=" + NewFolder() + "/run"}));
  const std::regex announced(
      "\nstep 1: evaluating 40000 batches, about ([0-9.]+ s|[0-9]+m [0-9]{2}s); "
      "--set=eval_batches=N sets how many\n$");
  EXPECT_TRUE(slow.WaitFor([&] { return std::regex_search(slow.Out(), announced); }))
      << slow.Out() << slow.Err();
  slow.Signal(SIGINT);
  EXPECT_EQ(slow.Wait().code, 130);
}

// Regression: only recomputation was tried.
TEST(GuidanceTest, MicroBatchesAreTriedIfMemoryIsShort) {
  const auto error = [](const std::string& limit, const std::vector<std::string>& more) {
    std::vector<std::string> flags =
        Tiny({"--plan_only", "--batch=64", "--set=model.layers=1", "--memory_limit=" + limit});
    flags.insert(flags.end(), more.begin(), more.end());
    return RunProgram(GptProgram(), flags).err;
  };
  const std::string advised = error("700KiB", {});
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      advised, found,
      std::regex("; it fits with( --recompute=block)? --micro_batches=([0-9]+), in [0-9.]+ KiB")))
      << advised;
  std::vector<std::string> flags = {"--micro_batches=" + found[2].str()};
  if (found[1].length() > 0) flags.push_back("--recompute=block");
  EXPECT_EQ(error("700KiB", flags), "") << advised;
  EXPECT_THAT(error("20KiB", {}), Not(HasSubstr("micro_batches"))) << "the state alone needs more";
}

}  // namespace
}  // namespace tessera
