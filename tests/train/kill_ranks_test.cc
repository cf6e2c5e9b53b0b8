// Kills a job that mostly saves sharded checkpoints, by kill -9 at random moments.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

constexpr int kRanks = 2;

// Waits until no rank of the job is left. The launcher ends before its ranks only if it is killed.
bool AllEnd(const std::string& mark) {
  for (int i = 0; i < 2000; ++i) {
    if (ProcessOf(0, mark) == 0 && ProcessOf(1, mark) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// Kills one rank, all ranks or the launcher.
void KillSome(uint32_t what, const std::string& mark, RunningProgram& running) {
  const pid_t ranks[kRanks] = {ProcessOf(0, mark), ProcessOf(1, mark)};
  if (what == kRanks + 1) running.Signal(SIGKILL);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    if ((what == rank || what == kRanks) && ranks[rank] > 0) kill(ranks[rank], SIGKILL);
  }
}

// Starts the job, lets it save, and kills it at a random moment between two saves.
void RunAndKill(const std::vector<std::string>& flags, const std::string& folder,
                std::mt19937& random) {
  const int64_t saved = NewestStep(folder);
  RunningProgram running(GptProgram(), flags);
  ASSERT_TRUE(running.WaitFor([&] { return NewestStep(folder) > saved; })) << running.Err();
  const int64_t first = NewestStep(folder);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(running.WaitFor([&] { return NewestStep(folder) > first; })) << running.Err();
  const std::chrono::duration<double> period = std::chrono::steady_clock::now() - begin;
  std::this_thread::sleep_for(period * std::uniform_real_distribution<double>()(random));
  KillSome(random() % (kRanks + 2), folder, running);
  const Result killed = running.Wait();
  ASSERT_NE(killed.code, 0);
  ASSERT_TRUE(AllEnd(folder));
  // It resumed from the newest complete checkpoint.
  ASSERT_EQ(StepGoneOnFrom(killed.out), saved > 0 ? saved : -1) << killed.out;
}

// TESSERA_KILLS=N sets the number of kills.
TEST(KillRanksTest, KillsLoseNothingThatWasSaved) {
  const char* const kills = std::getenv("TESSERA_KILLS");
  const std::string folder = NewFolder() + "/run";
  // Dropout is drawn by step: a repeated or missing step changes the result.
  const std::vector<std::string> config = {"--set=model.dropout=0.2", "--eval_every=0"};
  const auto on_ranks = [&](std::vector<std::string> more) {
    more.insert(more.end(), config.begin(), config.end());
    return OnRanks(kRanks, DocumentedPlan("fully_sharded"), more);
  };
  std::vector<std::string> flags =
      on_ranks({"--save_every=1", "--steps=1000000", "--out=" + folder});
  std::mt19937 random(7);
  int unfinished = 0;  // kills that left a checkpoint half-written
  for (int kill = 0; kill < (kills == nullptr ? 8 : std::atoi(kills)); ++kill) {
    RunAndKill(flags, folder, random);
    if (HasFatalFailure()) return;
    if (HoldsSomethingUnfinished(folder)) ++unfinished;
    flags = {"--nproc=2", "--resume=" + folder};
  }
  EXPECT_GT(unfinished, 0);
  std::cout << unfinished << " kills left a checkpoint half-written\n";

  const int64_t saved = NewestStep(folder);
  const std::string steps = "--steps=" + std::to_string(saved + 3);
  const Result result = RunProgram(GptProgram(), {"--nproc=2", "--resume=" + folder, steps});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(StepGoneOnFrom(result.out), saved);
  EXPECT_FALSE(HoldsSomethingUnfinished(folder));
  EXPECT_EQ(Checkpoints(folder).size(), 3u);  // keep_checkpoints

  const std::string unbroken = NewFolder() + "/run";
  const Result at_once =
      RunProgram(GptProgram(), on_ranks({"--save_every=0", steps, "--out=" + unbroken}));
  ASSERT_EQ(at_once.code, 0) << at_once.err;
  ASSERT_EQ(Checkpoints(folder)[0], Checkpoints(unbroken)[0]);
  const std::string last = "/checkpoints/" + Checkpoints(unbroken)[0];
  const auto expected = FilesIn(unbroken + last);
  int shards = 0;
  for (const auto& [name, bytes] : FilesIn(folder + last)) {
    if (!name.ends_with(".safetensors")) continue;
    EXPECT_EQ(bytes, expected.at(name)) << name;
    ++shards;
  }
  EXPECT_GE(shards, 2 * kRanks);  // parameters and optimizer state of each rank
  ExpectSameMetrics(folder, unbroken);
}

}  // namespace
}  // namespace tessera
