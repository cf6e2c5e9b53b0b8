// Checks runs, as a user starts them, with ranks that are killed, stopped or preempted.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

bool HasTrained(const RunningProgram& running) {
  return running.Out().find("| loss ") != std::string::npos;
}

// Returns all processes of the ranks of the job whose command line contains `mark`.
std::vector<pid_t> ProcessesOf(int ranks, const std::string& mark) {
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t process = ProcessOf(rank, mark);
    if (process > 0) processes.push_back(process);
  }
  return processes;
}

TEST(RankFailuresTest, ASignalToOneRankStopsAllAndSaves) {
  const std::string folder = NewFolder();
  RunningProgram running(GptProgram(), OnRanks(2, PlanFile(),
                                               {"--out=" + folder, "--steps=1000000",
                                                "--max_restarts=1", "--timeout=50"}));
  ASSERT_TRUE(running.WaitFor([&] { return HasTrained(running); })) << running.Err();
  const pid_t second = ProcessOf(1, folder);
  ASSERT_GT(second, 0);
  kill(second, SIGTERM);
  const Result stopped = running.Wait();
  EXPECT_EQ(stopped.code, 128 + SIGTERM) << stopped.err;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("stopping, as rank 1 has got SIGTERM"),
                                 HasSubstr(" ended with exit code 143, as SIGTERM asks"),
                                 Not(HasSubstr("error")), Not(HasSubstr("again"))));
  EXPECT_THAT(stopped.out, AllOf(ContainsRegex("(^|\n)[0-9]+ steps?, .* tokens in "),
                                 HasSubstr("\nstopped after step "),
                                 // Flags that the checkpoint does not hold are repeated.
                                 HasSubstr(" --nproc=2 --max_restarts=1 --timeout=50 --resume=")));
  ASSERT_EQ(Checkpoints(folder).size(), 1);
  // The run continues with the Plan of its checkpoint.
  const std::string steps = "--steps=" + std::to_string(NewestStep(folder) + 3);
  const Result result = RunProgram(GptProgram(), {"--nproc=2", "--resume=" + folder, steps});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string alone = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({steps, "--out=" + alone})).code, 0);
  ExpectSameMetrics(folder, alone);
}

// A scheduler may stop all processes of a job for longer than the time-out and continue them later.
TEST(RankFailuresTest, ASuspendedJobGoesOn) {
  const std::string folder = NewFolder();
  RunningProgram running(
      GptProgram(),
      OnRanks(2, PlanFile(), {"--out=" + folder, "--steps=1000000", "--timeout=0.5"}));
  ASSERT_TRUE(running.WaitFor([&] { return HasTrained(running); })) << running.Err();
  const std::vector<pid_t> ranks = ProcessesOf(2, folder);
  ASSERT_EQ(ranks.size(), 2);
  for (const pid_t rank : ranks) kill(rank, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  for (const pid_t rank : ranks) kill(rank, SIGCONT);
  const auto steps = [&] { return CountOf("| loss ", running.Out()); };
  const int before = steps();
  EXPECT_TRUE(running.WaitFor([&] { return steps() > before + 1; })) << running.Err();
  running.Signal(SIGINT);
  EXPECT_EQ(running.Wait().code, 128 + SIGINT);
}

// Regression: the rank left the others in the middle of a step, and the run was lost.
TEST(RankFailuresTest, DataThatOneRankCannotReadSaveTheRun) {
  for (const std::string backend : {"shm", "tcp"}) {
    const std::string folder = NewFolder();
    const std::string data = folder + "/rank";  // each rank has a copy
    for (const char* rank : {"0", "1", "2"}) WriteFile(data + rank, ReadFile(TextFile()));
    const std::string gpt =
        CommandOf(GptProgram(), Tiny({"--strategy=fsdp", "--backend=" + backend,
                                      "--out=" + folder + "/run", "--steps=1000000"}));
    RunningProgram running(fs::absolute("tools/launch/launch").string(),
                           {"--nproc=3", "sh", "-c", gpt + " --data=" + data + "$RANK"});
    ASSERT_TRUE(running.WaitFor([&] { return HasTrained(running); })) << running.Err();
    fs::resize_file(data + "1", 0);
    const Result ended = running.Wait();
    ExpectOneError(ended,
                   "[0] error: rank 1: " + data + "1: the file was changed while it was in ");
    ASSERT_EQ(Checkpoints(folder + "/run").size(), 1) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("; the last checkpoint is of step " +
                                     std::to_string(NewestStep(folder + "/run"))));
    const std::string steps = "--steps=" + std::to_string(NewestStep(folder + "/run") + 3);
    const Result resumed = RunProgram(
        GptProgram(), {"--nproc=3", "--resume=" + folder + "/run", steps, "--data=" + data + "0"});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    const std::string unbroken = NewFolder();
    ASSERT_EQ(RunProgram(GptProgram(), OnRanksBy("fsdp", 3, {steps, "--out=" + unbroken})).code, 0);
    ExpectSameMetrics(folder + "/run", unbroken);
  }
}

struct Fault {
  std::string strategy;
  int signal = SIGKILL;
  int ranks = 2;
  int rank = 0;
  std::string backend;
  // Seconds after the first step, or after the ranks were started.
  double after = 0;
  bool from_start = false;
};

std::string Describe(const Fault& fault) {
  return std::string(fault.signal == SIGKILL ? "SIGKILL" : "SIGSTOP") + " for rank " +
         std::to_string(fault.rank) + " of " + std::to_string(fault.ranks) + " on " +
         fault.backend + " by " + fault.strategy + ", " + std::to_string(fault.after) +
         " s after the " + (fault.from_start ? "start" : "first step");
}

constexpr double kTimeoutSeconds = 2;

// Expects that the newest checkpoint, if there is one, can be read.
void ExpectWholeCheckpoint(const std::string& folder) {
  if (Checkpoints(folder).empty()) return;
  const Result result = RunProgram(GptProgram(), {"--resume=" + folder, "--mode=evaluate"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("step " + std::to_string(NewestStep(folder)) + ": "));
}

// Expects that the job ends in time with an error that names the rank, that no process is left, and
// that its last checkpoint is complete. Returns the job's standard error.
std::string ExpectEnd(const Fault& fault) {
  SCOPED_TRACE(Describe(fault));
  const std::string folder = NewFolder();
  RunningProgram running(
      GptProgram(), OnRanksBy(fault.strategy, fault.ranks,
                              {"--out=" + folder, "--backend=" + fault.backend, "--steps=1000000",
                               "--save_every=2", "--eval_every=3", "--timeout=2", "--batch=8"}));
  EXPECT_TRUE(running.WaitFor([&] {
    return fault.from_start ? ProcessOf(fault.rank, folder) > 0 : HasTrained(running);
  })) << running.Err();
  std::this_thread::sleep_for(std::chrono::duration<double>(fault.after));
  const pid_t process = ProcessOf(fault.rank, folder);
  EXPECT_GT(process, 0) << running.Err();
  if (process <= 0) return "";
  const auto begin = std::chrono::steady_clock::now();
  kill(process, fault.signal);
  const Result ended = running.Wait();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double limit = 1 + (fault.signal == SIGKILL ? 0 : kTimeoutSeconds);
  EXPECT_LT(seconds.count(), limit + 2) << limit << " s, and time for a busy machine";
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("rank " + std::to_string(fault.rank)));
  EXPECT_THAT(ProcessesOf(fault.ranks, folder), ::testing::IsEmpty());
  EXPECT_LE(ErrorsOfRanks(ended.err), 1) << ended.err;
  std::cout << Describe(fault) << ": ended after " << seconds.count() << " s, with "
            << ErrorsOfRanks(ended.err) << " errors of ranks\n";
  ExpectWholeCheckpoint(folder);
  return ended.err;
}

TEST(RankFailuresTest, AKilledRankEndsTheOthersWithALine) {
  for (const std::string strategy : {"ddp", "fsdp"}) {
    for (const std::string backend : {"shm", "tcp"}) {
      const std::string err = ExpectEnd({strategy, SIGKILL, 3, 1, backend, 0.1});
      EXPECT_THAT(err, HasSubstr("error: rank 1 failed first, killed by SIGKILL"));
      EXPECT_THAT(err, AllOf(HasSubstr("rank 1 (process "), HasSubstr(" died; waiting in ")));
    }
  }
}

// Regression: the launcher waited for its grace period, and ranks for the store of a stopped rank
// 0.
TEST(RankFailuresTest, AStoppedRankEndsTheOthersWithinTheTimeOut) {
  for (const std::string backend : {"shm", "tcp"}) {
    for (const int rank : {0, 1}) {
      const std::string err = ExpectEnd({"fsdp", SIGSTOP, 2, rank, backend, 0.1});
      EXPECT_THAT(err, HasSubstr(std::string(rank == 0 ? "[1] " : "") + "error: rank " +
                                 std::to_string(1 - rank) + ": "));
      EXPECT_THAT(err, AllOf(HasSubstr("rank " + std::to_string(rank) + " (process "),
                             AnyOf(HasSubstr(" did not come within 2 s"), HasSubstr(" died; ")),
                             HasSubstr("waiting in ")));
    }
  }
}

// TESSERA_FAULTS=N sets the number of faults.
TEST(RankFailuresTest, RanksThatFailAtRandomMoments) {
  const char* const faults = std::getenv("TESSERA_FAULTS");
  std::mt19937 random(11);
  for (int i = 0; i < (faults == nullptr ? 4 : std::atoi(faults)); ++i) {
    Fault fault;
    fault.strategy = i % 2 == 0 ? "fsdp" : "ddp";
    fault.signal = random() % 2 == 0 ? SIGKILL : SIGSTOP;
    fault.ranks = random() % 2 == 0 ? 2 : 4;
    fault.rank = static_cast<int>(random() % fault.ranks);
    fault.backend = random() % 2 == 0 ? "shm" : "tcp";
    fault.from_start = random() % 2 == 0;
    fault.after = std::uniform_real_distribution<double>(0, fault.from_start ? 1 : 0.3)(random);
    ExpectEnd(fault);
  }
}

// Returns the run folder below `here`/runs; "" if there is none yet.
std::string RunIn(const std::string& here) {
  std::error_code missing;
  for (const auto& run : fs::directory_iterator(here + "/runs", missing))
    return run.path().string();
  return "";
}

void ExpectFailedJobGoesOn(const std::string& plan, const std::string& steps) {
  SCOPED_TRACE(plan);
  const std::string here = NewFolder();
  RunOptions options;
  options.folder = here;
  RunningProgram running(
      GptProgram(),
      OnRanks(2, DocumentedPlan(plan),
              {"--max_restarts=2", "--save_every=100", steps, "--set=sample.prompt=" + here}),
      options);
  ASSERT_TRUE(running.WaitFor([&] {
    const std::string run = RunIn(here);
    return !run.empty() && Checkpoints(run).size() >= 2;
  })) << running.Err();
  const std::string folder = RunIn(here);
  const pid_t second = ProcessOf(1, here);
  ASSERT_GT(second, 0);
  kill(second, SIGKILL);
  const Result ended = running.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("note: starting all ranks again, restart 1 of 2\n"));
  EXPECT_THAT(ended.out, AllOf(HasSubstr("this job was started again, and goes on in " + folder),
                               HasSubstr("going on from step ")));
  EXPECT_EQ(std::distance(fs::directory_iterator(here + "/runs"), fs::directory_iterator()), 1);
  const std::string unbroken = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), OnRanks(2, DocumentedPlan(plan),
                                             {steps, "--save_every=100", "--out=" + unbroken}))
                .code,
            0);
  ExpectSameMetrics(folder, unbroken);
}

TEST(RankFailuresTest, AFailedJobGoesOnFromItsLastCheckpoint) {
  ExpectFailedJobGoesOn("data_parallel", "--steps=1500");
  ExpectFailedJobGoesOn("fully_sharded", "--steps=1000");
  ExpectFailedJobGoesOn("tensor_parallel", "--steps=1000");
}

TEST(RankFailuresTest, AJobThatFailsBeforeItsFirstCheckpointStartsAgain) {
  const std::string folder = NewFolder();
  RunningProgram running(
      GptProgram(),
      OnRanks(2, PlanFile(), {"--max_restarts=1", "--steps=2000", "--out=" + folder}));
  ASSERT_TRUE(running.WaitFor([&] { return HasTrained(running); })) << running.Err();
  kill(ProcessOf(0, folder), SIGKILL);
  const Result ended = running.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("restart 1 of 1\n"));
  const std::string alone = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--steps=2000", "--out=" + alone})).code, 0);
  ExpectSameMetrics(folder, alone);
}

}  // namespace
}  // namespace tessera
