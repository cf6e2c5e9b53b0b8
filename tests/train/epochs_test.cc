// Checks --epochs: the length of a run in passes over its training data.
#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/picture_runs.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void ExpectOneLine(const Result& result, const std::string& part) {
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.err, AllOf(StartsWith("error: "), HasSubstr(part)));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

// The data have 24 pictures.
TEST(EpochsTest, AreAsManyStepsAsTakeAllRows) {
  const std::string data = PictureFolder(), run = NewFolder() + "/run";
  const auto printed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--print_config", "--set=optimizer.schedule=cosine"};
    flags.insert(flags.end(), more.begin(), more.end());
    const Result result = RunProgram(VggProgram(), TinyPictures(data, flags));
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  // The decay of the learning rate ends with the run.
  EXPECT_THAT(printed({"--epochs=2"}),
              AllOf(HasSubstr("\nsteps: 4\n"), HasSubstr("  decay_steps: 4\n")));
  EXPECT_THAT(printed({"--epochs=2", "--batch=5"}), HasSubstr("\nsteps: 10\n"));
  EXPECT_THAT(printed({"--epochs=1", "--batch=100"}), HasSubstr("\nsteps: 1\n"));
  EXPECT_THAT(printed({"--num_epochs=3"}), HasSubstr("\nsteps: 6\n"));

  const Result trained =
      RunProgram(VggProgram(), TinyPictures(data, {"--epochs=2", "--batch=5", "--out=" + run}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("note: --epochs=2: the run has 10 steps; an epoch has 24 "
                                     "pictures\n"));
  ExpectStepsTo(10, run);
  EXPECT_THAT(ReadFile(run + "/config.textproto"), HasSubstr("\nsteps: 10\n"));

  // 50 rows are taken. The rest of a third pass are 22.
  const auto resumed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--resume=" + run};
    flags.insert(flags.end(), more.begin(), more.end());
    const Result result = RunProgram(VggProgram(), flags);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(resumed({"--epochs=2"}), HasSubstr("nothing is left to do: step 10 of 10 is done"));
  EXPECT_THAT(resumed({"--epochs=1"}), HasSubstr("nothing is left to do"));
  EXPECT_THAT(resumed({"--epochs=3", "--plan_only", "--batch=4"}),
              HasSubstr("the run has 16 steps"));
  EXPECT_THAT(resumed({"--epochs=3"}),
              AllOf(HasSubstr("the run has 15 steps"), HasSubstr("overridden: steps 10 -> 15"),
                    HasSubstr("step 15/15 | loss ")));
  ExpectStepsTo(15, run);
  // Regression: with another --sequence a note counted the tokens of pictures, and the rest of the
  // pass was not taken.
  EXPECT_THAT(resumed({"--epochs=4", "--plan_only", "--sequence=5"}),
              AllOf(HasSubstr("the run has 20 steps"), Not(HasSubstr("rows of the data have"))));
}

TEST(EpochsTest, ARunOfEpochsIsTheRunOfItsSteps) {
  const std::string by_epochs = NewFolder(), by_steps = NewFolder();
  const std::string schedule = "--set=optimizer.schedule=cosine,optimizer.min_lr=1e-5";
  const Result trained =
      RunProgram(GptProgram(), Tiny({"--out=" + by_epochs, schedule, "--batch=64", "--steps=20"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::vector<std::string> flags;
  for (const std::string& flag : Tiny({"--out=" + by_steps, schedule, "--batch=64"})) {
    if (flag != "--steps=20") flags.push_back(flag);
  }
  flags.push_back("--epochs=1");
  flags.push_back("--plan_only");
  const Result planned = RunProgram(GptProgram(), flags);
  ASSERT_EQ(planned.code, 0) << planned.err;
  std::smatch found;
  const std::regex note("--epochs=1: the run has ([0-9]+) steps; an epoch has ([0-9]+) sequences");
  ASSERT_TRUE(std::regex_search(planned.out, found, note)) << planned.out;
  const int steps = std::stoi(found[1]), rows = std::stoi(found[2]);
  EXPECT_EQ(steps, (rows + 63) / 64);
  // A row is a window of sequence + 1 = 17 bytes of the nine tenths of the text to train on.
  const auto windows = static_cast<double>(ReadFile(TextFile()).size()) * 0.9 / 17;
  EXPECT_NEAR(rows, windows, 2);

  flags.back() = "--out=" + by_steps;
  ASSERT_EQ(RunProgram(GptProgram(), flags).code, 0);
  const Result same =
      RunProgram(GptProgram(), Tiny({"--out=" + by_epochs + "/same", schedule, "--batch=64",
                                     "--steps=" + std::to_string(steps)}));
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(CheckpointFiles(by_steps, steps), CheckpointFiles(by_epochs + "/same", steps));
}

TEST(EpochsTest, ErrorsAreOneLine) {
  const std::string data = PictureFolder(), out = "--out=" + NewFolder() + "/run";
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {out};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunProgram(VggProgram(), TinyPictures(data, flags));
  };
  ExpectOneLine(run({"--epochs=2", "--steps=3"}), "--steps and --epochs exclude each other");
  ExpectOneLine(run({"--epochs=2", "--set=steps=3"}), "--steps and --epochs exclude each other");
  ExpectOneLine(run({"--epochs=0"}), "--epochs is 0: it must be 1 or more");
  ExpectOneLine(run({"--epochs=1.5"}), "--epochs: '1.5' is not a whole number");
  ExpectOneLine(run({"--epochs=9223372036854775807"}), "it must be at most ");
  ExpectOneLine(run({"--epochs=1000000000000000"}),
                "steps is 2000000000000000: it must be at most");
  ExpectOneLine(run({"--epochs=2", "--data=synthetic"}),
                "there are no passes over synthetic data, which have no end: --steps=N");
  ExpectOneLine(run({"--epochs=2", "--batch=search"}), "--epochs needs a batch");
  ExpectOneLine(RunProgram(VggProgram(), {"--resume=none", "--mode=evaluate", "--epochs=2"}),
                "--epochs is the length of a run that trains");
}

}  // namespace
}  // namespace tessera
