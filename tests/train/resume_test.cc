// Checks runs that are resumed after they were killed or finished, from a run folder or from one
// checkpoint.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

TEST(ResumeTest, TwentyStepsAreTenAndTen) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + folder, "--steps=10"})).code, 0);
  const Result result = RunProgram(GptProgram(), {"--resume=" + folder, "--steps=20"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: overridden: steps 10 -> 20\n"));
  EXPECT_THAT(result.out, HasSubstr("going on from step 10, "));
  EXPECT_EQ(CheckpointFiles(folder, 20), FilesOfUnbrokenRun(20, {}));
  ExpectStepsTo(20, folder);
}

TEST(ResumeTest, SlicesAreThoseOfTheCheckpointUnlessAPlanIsNamed) {
  const std::string folder = NewFolder(), plans = NewFolder();
  const std::string sliced = "--plan=" + plans + "/sliced", none = "--plan=" + plans + "/none";
  WriteFile(plans + "/sliced", R"(stages {
      slice { path: "wte.weight" count: 3 }
      slice { path: "blocks.*.mlp.*.weight" dimension: 1 count: 4 } })");
  WriteFile(plans + "/none", "stages {}");
  Result result = RunProgram(GptProgram(), Tiny({"--out=" + folder, "--steps=10", sliced}));
  ASSERT_EQ(result.code, 0) << result.err;
  result = RunProgram(GptProgram(), {"--resume=" + folder, "--steps=20"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(CheckpointFiles(folder, 20), FilesOfUnbrokenRun(20, {sliced}));
  result = RunProgram(GptProgram(), {"--resume=" + folder, "--steps=30", none});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto files = CheckpointFiles(folder, 30), alone = FilesOfUnbrokenRun(30, {});
  EXPECT_THAT(files.at("plan.textproto"), Not(HasSubstr("slice {")));
  EXPECT_EQ(files.at("plan.textproto"), alone.at("plan.textproto"));
  ExpectStepsTo(30, folder);
}

// Dropout is drawn by step, and AdamW counts its own steps: both numbers must be restored.
TEST(ResumeTest, AKilledRunGoesOnBitForBit) {
  const std::string folder = NewFolder();
  const std::vector<std::string> common = {"--set=model.dropout=0.2", "--save_every=10"};
  {
    std::vector<std::string> flags = common;
    flags.insert(flags.end(), {"--out=" + folder, "--steps=1000000"});
    RunningProgram running(GptProgram(), Tiny(flags));
    ASSERT_TRUE(running.WaitFor([&] { return Checkpoints(folder).size() >= 2; })) << running.Err();
    running.Signal(SIGKILL);
    EXPECT_EQ(running.Wait().signal, SIGKILL);
  }
  ASSERT_FALSE(Checkpoints(folder).empty());
  const int64_t stopped = std::stoll(Checkpoints(folder)[0].substr(5));
  const int64_t steps = stopped + 10;
  const Result result =
      RunProgram(GptProgram(), {"--resume=" + folder, "--steps=" + std::to_string(steps)});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(CheckpointFiles(folder, steps), FilesOfUnbrokenRun(steps, common));
  ExpectStepsTo(steps, folder);
}

TEST(ResumeTest, TheSameCommandCanBeQueuedAgain) {
  const std::string folder = NewFolder() + "/run";
  const std::vector<std::string> flags =
      Tiny({"--out=" + folder, "--requeue", "--steps=1000000", "--save_every=1000"});
  RunningProgram running(GptProgram(), flags);
  ASSERT_TRUE(running.WaitFor([&] { return running.Out().find("| loss ") != std::string::npos; }))
      << running.Err();
  running.Signal(SIGTERM);
  const Result stopped = running.Wait();
  ASSERT_EQ(stopped.code, 128 + SIGTERM);
  EXPECT_THAT(stopped.out, Not(HasSubstr("--requeue: the run goes on")));
  const std::string step = Checkpoints(folder)[0].substr(5);
  std::vector<std::string> again = flags;
  again.push_back("--steps=" + std::to_string(std::stoll(step) + 3));
  const Result ended = RunProgram(GptProgram(), again);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("note: --requeue: the run goes on in " + folder));
  EXPECT_EQ(CheckpointFiles(folder, std::stoll(step) + 3),
            FilesOfUnbrokenRun(std::stoll(step) + 3, {"--save_every=1000"}));
  const Result done = RunProgram(GptProgram(), again);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("nothing is left to do"));
  EXPECT_EQ(RunProgram(GptProgram(), Tiny({"--requeue"})).code, 1);
}

// With a learning rate of 0, the loss of a step depends on its rows alone. Regression: the position
// was a number of batches, so a changed batch skipped rows or repeated them.
TEST(ResumeTest, AChangedBatchGoesOnWhereTheDataStopped) {
  const auto run = [](const std::vector<std::string>& flags) {
    Result result = RunProgram(GptProgram(), flags);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  };
  const auto losses = [](const std::string& folder) {
    std::vector<double> values;
    for (const nlohmann::json& line : Metrics(folder)) values.push_back(line["loss"]);
    return values;
  };
  const std::string unbroken = NewFolder(), folder = NewFolder();
  const std::vector<std::string> flags = {"--batch=5", "--lr=0", "--device=reference"};
  const auto begin = [&](const std::string& out, const char* steps) {
    std::vector<std::string> all = Tiny({"--out=" + out, steps});
    all.insert(all.end(), flags.begin(), flags.end());
    run(all);
  };
  begin(unbroken, "--steps=7");
  begin(folder, "--steps=3");
  run({"--resume=" + folder, "--batch=10", "--steps=5"});
  const std::vector<double> expected = losses(unbroken), found = losses(folder);
  ASSERT_EQ(expected.size(), 7);
  ASSERT_EQ(found.size(), 5);
  EXPECT_NEAR(found[3], (expected[3] + expected[4]) / 2, 1e-12);
  EXPECT_NEAR(found[4], (expected[5] + expected[6]) / 2, 1e-12);
  const Result shorter = run({"--resume=" + folder, "--sequence=8", "--steps=6"});
  EXPECT_THAT(shorter.out, HasSubstr("note: rows of the data have 8 tokens now, not 16, so "
                                     "training goes on at the next epoch: number 2"));
}

TEST(ResumeTest, ACheckpointBeginsANewRunAndTheOldOneStays) {
  const std::string folder = NewFolder();
  const std::string old_run = folder + "/old";
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + old_run, "--save_every=10"})).code, 0);
  const std::string checkpoint = old_run + "/checkpoints/" + CheckpointName(10);
  RunOptions options;
  options.environment["BUILD_WORKING_DIRECTORY"] = folder;
  const Result result =
      RunProgram(GptProgram(), {"--resume=old/checkpoints/" + CheckpointName(10)}, options);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("run folder: " + folder + "/runs/gpt-"));
  ExpectStepsTo(20, old_run);

  const std::string other = folder + "/other";
  ASSERT_EQ(RunProgram(GptProgram(), {"--resume=" + checkpoint, "--out=" + other, "--lr=0.5"}).code,
            0);
  EXPECT_EQ(Metrics(other).front()["step"], 11);
  EXPECT_EQ(Metrics(other).front()["lr"], 0.5);

  const Result into_itself =
      RunProgram(GptProgram(), {"--resume=" + checkpoint, "--out=" + old_run});
  EXPECT_EQ(into_itself.code, 1);
  EXPECT_THAT(into_itself.err, HasSubstr("holds a newer checkpoint, of step 20"));
  const Result other_run =
      RunProgram(GptProgram(), {"--resume=" + old_run, "--out=" + other, "--steps=30"});
  EXPECT_EQ(other_run.code, 1);
  EXPECT_THAT(other_run.err, HasSubstr("already holds a run"));
}

TEST(ResumeTest, ADamagedCheckpointIsPassedOver) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + folder, "--save_every=10"})).code, 0);
  const std::string damaged =
      folder + "/checkpoints/" + CheckpointName(20) + "/parameters.safetensors";
  std::string bytes = ReadFile(damaged);
  bytes[bytes.size() - 5] ^= 1;
  WriteFile(damaged, bytes);
  const Result result = RunProgram(GptProgram(), {"--resume=" + folder});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: passed over: "));
  EXPECT_THAT(result.out, HasSubstr("going on from step 10, "));
  EXPECT_EQ(CheckpointFiles(folder, 20), FilesOfUnbrokenRun(20, {"--save_every=10"}));
  ExpectStepsTo(20, folder);
}

// Regression: if the older checkpoint was named, the damaged one remained among those that are
// kept.
TEST(ResumeTest, ADamagedCheckpointAfterTheNamedOneIsRenamed) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + folder, "--save_every=10"})).code, 0);
  const std::string checkpoints = folder + "/checkpoints/";
  const std::string damaged = checkpoints + CheckpointName(20) + "/parameters.safetensors";
  std::string bytes = ReadFile(damaged);
  bytes[bytes.size() - 5] ^= 1;  // which only a checksum shows
  WriteFile(damaged, bytes);
  const Result result = RunProgram(GptProgram(), {"--resume=" + checkpoints + CheckpointName(10),
                                                  "--out=" + folder, "--steps=15"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: the damaged checkpoint step_00000020 is now called " +
                                    checkpoints + "damaged-step_00000020, "));
  EXPECT_THAT(Checkpoints(folder),
              ElementsAre(CheckpointName(15), CheckpointName(10), "damaged-" + CheckpointName(20)));
}

TEST(ResumeTest, ARunThatIsDoneHasNothingToDo) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + folder})).code, 0);
  const Result result = RunProgram(GptProgram(), {"--resume=" + folder});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("nothing is left to do: step 20 of 20 is done"));
}

// The error is the same as with more steps.
TEST(ResumeTest, AFinishedRunOfAnotherShapeIsAnErrorToo) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + folder})).code, 0);
  const Result result = RunProgram(GptProgram(), {"--resume=" + folder, "--set=model.layers=2"});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.err, HasSubstr("a run cannot be resumed with another shape of its state"));
}

TEST(ResumeTest, ARunStoppedBeforeItsFirstCheckpointStartsAgain) {
  const std::string folder = NewFolder() + "/run";
  {
    RunningProgram running(GptProgram(), Tiny({"--out=" + folder, "--steps=1000000"}));
    ASSERT_TRUE(running.WaitFor([&] {
      return fs::exists(folder + "/metrics.jsonl") && !Metrics(folder).empty();
    })) << running.Err();
    running.Signal(SIGKILL);
    EXPECT_EQ(running.Wait().signal, SIGKILL);
  }
  const Result resumed = RunProgram(GptProgram(), {"--resume=" + folder});
  EXPECT_EQ(resumed.code, 1);
  EXPECT_THAT(resumed.err, HasSubstr("holds a run that was stopped before its first checkpoint: "
                                     "start it again with --out=" +
                                     folder));
  const Result again = RunProgram(GptProgram(), Tiny({"--out=" + folder}));
  ASSERT_EQ(again.code, 0) << again.err;
  ExpectStepsTo(20, folder);
}

// Otherwise, pruning it would free no space on the disk.
TEST(ResumeTest, AResumedRunClosesTheCheckpointThatItStartedFrom) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + folder, "--steps=10"})).code, 0);
  RunningProgram running(GptProgram(), {"--resume=" + folder, "--steps=1000000", "--save_every=10",
                                        "--set=keep_checkpoints=1"});
  ASSERT_TRUE(running.WaitFor([&] {
    return !Checkpoints(folder).empty() && Checkpoints(folder)[0] != CheckpointName(10);
  })) << running.Err();
  // A save opens the manifests of older checkpoints for a moment, and the folder that it removes.
  EXPECT_TRUE(running.WaitFor([&] {
    const std::vector<std::string> open = running.OpenFiles();
    return std::none_of(open.begin(), open.end(), [](const std::string& file) {
      return file.find(CheckpointName(10) + "/") != std::string::npos;
    });
  }));
}

// Another process that trains there may remove the checkpoint or save a newer one.
TEST(ResumeTest, AResumeTakesTheLockBeforeItChoosesACheckpoint) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + folder})).code, 0);
  fs::remove(folder + "/checkpoints/" + CheckpointName(20) + "/manifest.json");
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  const Result result = RunProgram(GptProgram(), {"--resume=" + folder, "--steps=30"});
  close(fd);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("another process is training in " + folder));
}

TEST(ResumeTest, AFailedResumeLeavesNoFolderAndMeasuresNothing) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + folder + "/old"})).code, 0);
  const Result result =
      RunProgram(GptProgram(), {"--resume=" + folder + "/old", "--out=" + folder + "/new",
                                "--steps=30", "--set=model.layers=2"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("a run cannot be resumed with another shape of its state"));
  EXPECT_EQ(result.out, "");
  EXPECT_FALSE(fs::exists(folder + "/new"));
}

// 2^32 + 1, narrowed to int, is 1.
TEST(ResumeTest, KeepsAsManyCheckpointsAsAreAskedFor) {
  const std::string folder = NewFolder();
  const Result result =
      RunProgram(GptProgram(),
                 Tiny({"--out=" + folder, "--save_every=5", "--set=keep_checkpoints=4294967297"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Checkpoints(folder).size(), 4);
}

TEST(ResumeTest, EvaluateAndSampleTrainNothing) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + folder, "--save_every=10"})).code, 0);
  const auto before = CheckpointFiles(folder, 20);
  const Result evaluated = RunProgram(GptProgram(), {"--resume=" + folder, "--mode=evaluate"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  char expected[64];
  snprintf(expected, sizeof(expected), "step 20: eval_loss %.4f",
           Metrics(folder).back()["eval_loss"].get<double>());
  EXPECT_THAT(evaluated.out, HasSubstr(expected));

  const std::vector<std::string> sample = {"--resume=" + folder, "--mode=sample",
                                           "--prompt=Line 12",   "--sample_tokens=50",
                                           "--temperature=0.7",  "--top_k=20"};
  const Result sampled = RunProgram(GptProgram(), sample);
  EXPECT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_THAT(sampled.out, ::testing::StartsWith("--- prompt\nLine 12\n--- sample: 50 tokens, "
                                                 "temperature 0.7, top_k 20, seed 1\n"));
  EXPECT_EQ(RunProgram(GptProgram(), sample).out, sampled.out) << "it draws the same again";
  std::vector<std::string> other_seed = sample;
  other_seed.push_back("--seed=77");
  EXPECT_THAT(RunProgram(GptProgram(), other_seed).out, Not(HasSubstr(sampled.out)));

  // A single checkpoint can be resumed as well, also one on another device.
  const Result older =
      RunProgram(GptProgram(), {"--resume=" + folder + "/checkpoints/" + CheckpointName(10),
                                "--mode=evaluate", "--device=reference"});
  EXPECT_EQ(older.code, 0) << older.err;
  EXPECT_THAT(older.out, HasSubstr("step 10: eval_loss "));
  EXPECT_THAT(older.out, HasSubstr("note: the checkpoint holds f32, this device keeps f64"));
  EXPECT_EQ(CheckpointFiles(folder, 20), before);
  ExpectStepsTo(20, folder);
}

}  // namespace
}  // namespace tessera
