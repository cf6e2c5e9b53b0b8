// Kills a program that mostly saves, by kill -9 at random moments.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

// Kills during a save test the most. Every start of the program takes half a second, so the test
// ends after enough such kills.
constexpr int kKills = 25;
constexpr int kKillsWithinASave = 10;
constexpr int kMostKills = 100;

TEST(KillTest, KillsLoseNothingThatWasSaved) {
  const std::string folder = NewFolder() + "/run";
  // Dropout is drawn by step: a repeated or missing step changes the result.
  const std::vector<std::string> config =
      Tiny({"--set=model.dropout=0.2", "--save_every=1", "--eval_every=0"});
  std::vector<std::string> flags = config;
  flags.insert(flags.end(), {"--steps=1000000", "--out=" + folder});

  std::mt19937 random(7);
  int64_t saved = 0;
  int unfinished = 0;  // kills that left a checkpoint half-written
  for (int kill = 0; kill < kKills || (unfinished < kKillsWithinASave && kill < kMostKills);
       ++kill) {
    RunningProgram running(GptProgram(), flags);
    ASSERT_TRUE(running.WaitFor([&] { return NewestStep(folder) > saved; })) << running.Err();
    // Kills at a random moment between two saves, however long that takes on this machine.
    const int64_t first = NewestStep(folder);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(running.WaitFor([&] { return NewestStep(folder) > first; })) << running.Err();
    const std::chrono::duration<double> period = std::chrono::steady_clock::now() - begin;
    std::this_thread::sleep_for(period * std::uniform_real_distribution<double>()(random));
    running.Signal(SIGKILL);
    const Result killed = running.Wait();
    ASSERT_EQ(killed.signal, SIGKILL) << killed.err;
    if (kill > 0) {
      ASSERT_GE(StepGoneOnFrom(killed.out), saved) << killed.out;
    }
    unfinished += static_cast<int>(HoldsSomethingUnfinished(folder));
    // A folder with a checkpoint's name is complete: the next run continues from it.
    ASSERT_GT(NewestStep(folder), saved);
    saved = NewestStep(folder);
    flags = {"--resume=" + folder};
  }
  EXPECT_GE(unfinished, kKillsWithinASave);

  const std::string steps = "--steps=" + std::to_string(saved + 3);
  const Result result = RunProgram(GptProgram(), {"--resume=" + folder, steps});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(StepGoneOnFrom(result.out), saved);

  const std::string other = NewFolder() + "/run";
  std::vector<std::string> at_once = config;
  at_once.insert(at_once.end(), {"--save_every=0", steps, "--out=" + other});
  ASSERT_EQ(RunProgram(GptProgram(), at_once).code, 0);
  ASSERT_EQ(Checkpoints(folder)[0], Checkpoints(other)[0]);
  const std::string last = "/checkpoints/" + Checkpoints(other)[0];
  const auto expected = FilesIn(other + last);
  for (const auto& [name, bytes] : FilesIn(folder + last)) {
    if (!name.ends_with(".safetensors")) continue;
    EXPECT_EQ(bytes, expected.at(name)) << name;
  }
  const std::vector<nlohmann::json> metrics = Metrics(folder);
  ASSERT_EQ(static_cast<int64_t>(metrics.size()), saved + 3);
  for (size_t i = 0; i < metrics.size(); ++i) EXPECT_EQ(metrics[i]["step"], i + 1);
}

}  // namespace
}  // namespace tessera
