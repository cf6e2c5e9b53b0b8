// A batch system signals every process of a job at once: ranks, launchers, and what stands between
// them. However the signals arrive, the run is saved and continues with the same bits.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/installed_launchers.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr int kRanks = 4;

// Moments at which each launcher's job is stopped, from the environment: bazel test
// --test_env=TESSERA_STOPS=50.
int Stops() {
  const char* const text = std::getenv("TESSERA_STOPS");
  return text == nullptr ? 2 : std::atoi(text);
}

unsigned Seed() {
  const char* const text = std::getenv("TESSERA_SEED");
  return text == nullptr ? std::random_device()() : static_cast<unsigned>(std::atoll(text));
}

// Returns the children of a process.
std::vector<pid_t> ChildrenOf(pid_t process) {
  std::vector<pid_t> children;
  std::error_code gone;
  const fs::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : fs::directory_iterator(tasks, gone)) {
    std::ifstream list(task.path() / "children");
    for (pid_t child; list >> child;) children.push_back(child);
  }
  return children;
}

// Returns a process and all its descendants.
std::vector<pid_t> JobOf(pid_t process) {
  std::vector<pid_t> job = {process};
  for (size_t i = 0; i < job.size(); ++i) {
    for (const pid_t child : ChildrenOf(job[i])) job.push_back(child);
  }
  return job;
}

struct Way {
  std::string name;
  InstalledLauncher launcher;  // without a name: --nproc
};

class StoppedJobsTest : public ::testing::TestWithParam<Way> {
 protected:
  std::string Program() const { return IsOurs() ? GptProgram() : GetParam().launcher.program; }
  std::vector<std::string> Arguments(const std::vector<std::string>& training) const {
    if (!IsOurs()) return GetParam().launcher.Arguments(kRanks, training);
    std::vector<std::string> arguments = {"--nproc=" + std::to_string(kRanks)};
    arguments.insert(arguments.end(), training.begin(), training.end());
    return arguments;
  }
  bool IsOurs() const { return GetParam().launcher.name.empty(); }

  // Sends the signal to all processes of the job, in a random order.
  void SignalAll(const RunningProgram& running, int signal) {
    std::vector<pid_t> job = JobOf(running.pid());
    std::shuffle(job.begin(), job.end(), random_);
    for (const pid_t process : job) kill(process, signal);
  }

  std::mt19937 random_{Seed()};
};

TEST_P(StoppedJobsTest, ASignalToEveryProcessSavesTheRun) {
  if (Program().empty()) GTEST_SKIP() << GetParam().name << " is not installed";
  constexpr int kSignals[] = {SIGTERM, SIGUSR1, SIGHUP, SIGUSR2, SIGXCPU};
  for (int i = 0; i < Stops(); ++i) {
    const std::string folder = NewFolder();
    // Launchers other than ours know SIGTERM only.
    const int signal = IsOurs() && i % 2 == 1 ? kSignals[random_() % 5] : SIGTERM;
    RunningProgram running(
        Program(), Arguments(Tiny({"--strategy=fsdp", "--out=" + folder, "--steps=1000000"})),
        InstalledLauncherOptions());
    ASSERT_TRUE(running.WaitFor([&] { return running.Out().find("| loss ") != std::string::npos; }))
        << running.Err();
    std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 500));
    SignalAll(running, signal);
    const Result stopped = running.Wait();
    if (IsOurs()) {
      EXPECT_EQ(stopped.code, 128 + signal) << stopped.err;
      EXPECT_THAT(stopped.err, Not(HasSubstr("error")));
    }
    ASSERT_EQ(Checkpoints(folder).size(), 1) << stopped.out << stopped.err;
    EXPECT_FALSE(HoldsSomethingUnfinished(folder));
    // It continues as if it had not been stopped.
    const std::string steps = "--steps=" + std::to_string(NewestStep(folder) + 3);
    const std::string nproc = "--nproc=" + std::to_string(kRanks);
    const Result resumed = RunProgram(GptProgram(), {nproc, "--resume=" + folder, steps});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    const std::string unbroken = NewFolder();
    ASSERT_EQ(
        RunProgram(GptProgram(), Tiny({nproc, "--strategy=fsdp", "--out=" + unbroken, steps})).code,
        0);
    ExpectSameMetrics(folder, unbroken);
    const std::string newest = "/checkpoints/" + Checkpoints(unbroken)[0];
    for (const auto& [name, contents] : FilesIn(unbroken + newest)) {
      if (name.find(".safetensors") == std::string::npos) continue;
      EXPECT_EQ(ReadFile(folder + newest + "/" + name), contents) << name;
    }
  }
}

// Before training nothing can be saved.
TEST_P(StoppedJobsTest, ASignalBeforeTheFirstStepEndsTheJob) {
  if (Program().empty()) GTEST_SKIP() << GetParam().name << " is not installed";
  for (int i = 0; i < Stops(); ++i) {
    const std::string folder = NewFolder();
    RunningProgram running(
        Program(), Arguments(Tiny({"--strategy=ddp", "--out=" + folder, "--steps=1000000"})),
        InstalledLauncherOptions());
    std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 1500));
    SignalAll(running, SIGTERM);
    const Result stopped = running.Wait();
    if (IsOurs()) {
      EXPECT_TRUE(stopped.code == 128 + SIGTERM || stopped.signal == SIGTERM)
          << stopped.code << " " << stopped.out << stopped.err;
      EXPECT_THAT(stopped.err, Not(HasSubstr("error"))) << stopped.out;
    }
    EXPECT_FALSE(HoldsSomethingUnfinished(folder));
    if (Checkpoints(folder).empty()) continue;
    const std::string steps = "--steps=" + std::to_string(NewestStep(folder) + 3);
    const Result resumed = RunProgram(
        GptProgram(), {"--nproc=" + std::to_string(kRanks), "--resume=" + folder, steps});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
  }
}

std::vector<Way> Ways() {
  std::vector<Way> ways = {{"nproc", {}}};
  for (const InstalledLauncher& launcher : InstalledLaunchers()) {
    ways.push_back({launcher.name, launcher});
  }
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Launchers, StoppedJobsTest, ::testing::ValuesIn(Ways()),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace tessera
