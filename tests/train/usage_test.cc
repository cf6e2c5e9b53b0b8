// Checks the tool's user interface: names, notes, defaults, output.
#include <cmath>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs the example of --help that trains on my.txt.
void ExpectExampleRuns(const std::string& program) {
  const std::string folder = NewFolder();
  WriteFile(folder + "/my.txt", ReadFile(TextFile()));
  const Result help = RunProgram(program, {"--help"});
  std::istringstream lines(help.out);
  std::string command;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("--data=my.txt") != std::string::npos) command = line;
  }
  ASSERT_NE(command, "") << help.out;
  const Result result = Shell("cd " + folder + " && " + command + " --plan_only");
  EXPECT_EQ(result.code, 0) << command << "\n" << result.err;
}

TEST(UsageTest, TheExamplesOfHelpRun) {
  ExpectExampleRuns(GptProgram());
  ExpectExampleRuns(MlpProgram());
}

TEST(UsageTest, HelpFitsInto80Columns) {
  RunOptions options;
  options.environment["XDG_CACHE_HOME"] = "/home/ada/.cache";
  const Result help = RunProgram(
      "/bin/sh",
      {"-c", "cd " + NewFolder() + " && " + GptProgram() + " --help | grep -v ' --.*=my'"},
      options);
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(GptProgram()) == std::string::npos) {
      EXPECT_LE(line.size(), 80) << line;
    }
  }
  EXPECT_THAT(help.out, AllOf(HasSubstr("(default 1800)"), HasSubstr("% of limit"),
                              HasSubstr("machine.json")));
}

TEST(UsageTest, PrintConfigShowsEveryFieldAndRunsNothing) {
  const std::string folder = NewFolder();
  const Result printed =
      RunProgram(GptProgram(), Tiny({"--print_config", "--out=" + folder + "/run", "--lr=0.25"}));
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("    dropout: 0\n"), HasSubstr("  lr: 0.25\n"),
                                 HasSubstr("memory_limit: \"\"\n"), HasSubstr("  beta2: 0.95\n")));
  // The effective values, not those of an empty message.
  EXPECT_THAT(printed.out,
              AllOf(HasSubstr("    gelu: \"tanh\"\n"), HasSubstr("    layer_norm_eps: 1e-05\n")));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  // It is a configuration file.
  WriteFile(folder + "/c.textproto", printed.out);
  const Result again =
      RunProgram(GptProgram(), {"--config=" + folder + "/c.textproto", "--print_config"});
  EXPECT_EQ(again.out, printed.out) << again.err;
}

TEST(UsageTest, ALearningRateBelowThePresetsMinimumTakesItAlong) {
  const std::vector<std::string> flags = {"--lr=5e-5", "--print_config"};
  const Result result = RunProgram(GptProgram(), flags);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("  lr: 5e-05\n"), HasSubstr("  min_lr: 5e-06\n")));
  // A constant schedule ignores the minimum.
  const Result constant = RunProgram(
      GptProgram(), {"--lr=5e-5", "--set=optimizer.schedule=constant", "--print_config"});
  ASSERT_EQ(constant.code, 0) << constant.err;
  EXPECT_THAT(constant.out, HasSubstr("  min_lr: 0.0001\n"));
  const Result chosen =
      RunProgram(GptProgram(), {"--lr=5e-5", "--set=optimizer.min_lr=6e-5", "--print_config"});
  EXPECT_EQ(chosen.code, 1);
  EXPECT_THAT(chosen.err, HasSubstr("optimizer.min_lr is 6e-05: it must be 0 to optimizer.lr"));
}

TEST(UsageTest, AnInfiniteRateIsRefusedAsOne) {
  EXPECT_THAT(RunProgram(GptProgram(), {"--lr=inf"}).err,
              HasSubstr("optimizer.lr is inf: it must be a finite number, 0 or more"));
}

TEST(UsageTest, ASampleThatNobodyAskedForIsNotNoted) {
  const std::string folder = NewFolder();
  std::vector<std::string> flags;
  for (const std::string& flag : TinyFlags()) {
    if (flag != "--sample_tokens=0") flags.push_back(flag);
  }
  flags.insert(flags.end(), {"--data=synthetic", "--out=" + folder, "--steps=1"});
  const Result trained = RunProgram(GptProgram(), flags);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, Not(HasSubstr("no sample")));
  EXPECT_THAT(trained.out, AllOf(HasSubstr(", 1 step\n"), HasSubstr("\n1 step, 64 tokens in "),
                                 HasSubstr("bits per token")));
  const Result evaluated = RunProgram(GptProgram(), {"--resume=" + folder, "--mode=evaluate"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, Not(HasSubstr("note:")));
}

TEST(UsageTest, TheSequenceOfAModelOfPicturesIsNotedAsUnused) {
  const std::vector<std::string> flags = {"--plan_only", "--data=synthetic", "--batch=2"};
  EXPECT_THAT(RunProgram(VggProgram(), flags).out, Not(HasSubstr("note:")));
  std::vector<std::string> longer = flags;
  longer.push_back("--sequence=64");
  const Result result = RunProgram(VggProgram(), longer);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("note: sequence: 64 changes nothing: a row of this model is a picture\n"));
}

TEST(UsageTest, APlanSpeaksOfRecomputingOnlyIfItRecomputes) {
  EXPECT_THAT(RunProgram(GptProgram(), Tiny({"--plan_only"})).out, Not(HasSubstr("recomputing")));
  EXPECT_THAT(RunProgram(GptProgram(), Tiny({"--plan_only", "--recompute=block"})).out,
              HasSubstr("; recomputing adds "));
}

TEST(UsageTest, NotesOfWaste) {
  EXPECT_THAT(
      RunProgram(GptProgram(), {"--preset=124m", "--plan_only"}).out,
      HasSubstr("note: the tokens of the data are bytes: 256 of the model's 50257 outputs"));
  const Result many = RunProgram(GptProgram(), Tiny({"--plan_only", "--threads=4000"}));
  EXPECT_THAT(many.out, ContainsRegex("note: 4000 threads on [0-9]+ cores?: they wait for each "
                                      "other; --threads=[0-9]+ is faster"));
  EXPECT_THAT(RunProgram(GptProgram(), Tiny({"--plan_only"})).out, Not(HasSubstr("note:")));
  // Regression: --plan_only without --threads compared all cores with one.
  EXPECT_THAT(RunProgram(GptProgram(), {"--plan_only"}).out, Not(HasSubstr("note:")));
}

// Returns the MiB in "... resident at the peak".
double ResidentPeak(const std::string& out) {
  std::smatch match;
  const std::regex peak("([0-9.]+) MiB resident at the peak");
  EXPECT_TRUE(std::regex_search(out, match, peak)) << out;
  return match.empty() ? 0 : std::stod(match[1]);
}

TEST(UsageTest, CheckingMemoryIsNotThePeakOfTheRun) {
  const auto run = [](const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--steps=1", "--sample_tokens=0", "--kernels=default",
                                    "--out=" + NewFolder()};
    all.insert(all.end(), flags.begin(), flags.end());
    return ResidentPeak(RunProgram(GptProgram(), all).out);
  };
  const double alone = run({}), checked = run({"--check_memory"});
  EXPECT_GT(alone, 0);
  EXPECT_LT(checked, 1.25 * alone);
}

TEST(UsageTest, ARunEndsWithASummary) {
  const std::string folder = NewFolder();
  const Result result =
      RunProgram(GptProgram(), Tiny({"--out=" + folder, "--steps=40", "--eval_every=20",
                                     "--log_every=7", "--sample_tokens=5", "--prompt=Line"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              ContainsRegex("\n40 steps, 2.56K tokens in .*; mean [^ ]+ tokens/s in steps\n"));
  EXPECT_THAT(result.out,
              ContainsRegex("\neval_loss [0-9.]+ \\([0-9.]+ bits per byte\\) at step 40"));
  EXPECT_THAT(result.out, ContainsRegex("\ntime by operator: [a-z_]+ [0-9.]+%, "));
  EXPECT_THAT(result.out, HasSubstr("\n--- prompt\nLine\n--- sample: 5 tokens, "));
  int lines = 0;
  for (size_t at = 0; (at = result.out.find("| loss ", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 1 + 5 + 1) << "the first, every seventh, the last";
}

TEST(UsageTest, TheResumeHintIsTheCommandThatTheUserTyped) {
  const std::string folder = NewFolder();
  RunOptions options;
  options.environment["BUILD_WORKING_DIRECTORY"] = folder;  // as `bazel run` does
  RunningProgram running(GptProgram(), Tiny({"--out=run", "--steps=1000000"}), options);
  ASSERT_TRUE(running.WaitFor([&] { return running.Out().find("| loss ") != std::string::npos; }))
      << running.Err();
  running.Signal(2);
  EXPECT_THAT(running.Wait().out,
              HasSubstr("\n  ./bazelw run //models/gpt:train -- --resume=" + folder + "/run\n"));
}

TEST(UsageTest, TheMachinesBestRatesAreKept) {
  RunOptions options;
  options.environment["XDG_CACHE_HOME"] = NewFolder();
  const Result result =
      RunProgram(GptProgram(), Tiny({"--out=" + NewFolder(), "--steps=1"}), options);
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string path = options.environment["XDG_CACHE_HOME"] + "/tessera/machine.json";
  std::smatch machine;
  ASSERT_TRUE(std::regex_search(result.out, machine,
                                std::regex("\n(cpu: [^\n]*); at best a matmul reaches ")));
  const std::string name = machine[1];
  // They are not kept if other tests keep cores busy.
  nlohmann::json rates = {{name, {{"flops_per_second", 1}, {"bytes_per_second", 1}}}};
  if (result.out.find("; other processes keep cores busy\n") == std::string::npos) {
    rates = nlohmann::json::parse(ReadFile(path));
    ASSERT_EQ(rates.size(), 1);
    EXPECT_EQ(rates.begin().key(), name);
    EXPECT_GT(rates[name]["flops_per_second"], 0);
  } else {
    EXPECT_FALSE(std::filesystem::exists(path));
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  }
  // Pretends that the machine was once much faster; MFU must be a share of that rate.
  const double once = 1e18;
  rates[name]["flops_per_second"] = once;
  WriteFile(path, rates.dump());
  const std::string folder = NewFolder();
  const Result again = RunProgram(GptProgram(), Tiny({"--out=" + folder}), options);
  EXPECT_THAT(again.out, HasSubstr("FLOP/s (now "));
  EXPECT_EQ(nlohmann::json::parse(ReadFile(path)).begin().value()["flops_per_second"], once);
}

}  // namespace
}  // namespace tessera
