// Checks signals, file-size limits and closed pipes during a run.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// Returns a field of a status file in /proc; "" if the file or the field does not exist.
std::string StatusField(const std::string& file, const std::string& name) {
  std::ifstream status(file);
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":\t", 0) == 0) return line.substr(name.size() + 2);
  }
  return "";
}

bool Blocks(const std::string& mask, int signal) {
  return (std::stoull(mask, nullptr, 16) >> (signal - 1) & 1) != 0;
}

bool HasTrained(const RunningProgram& running) {
  return running.Out().find("| loss ") != std::string::npos;
}

// Expects that one thread of a process takes signals, and that all others, of which there are
// `others` or more, block them.
void ExpectOneThreadTakesSignals(pid_t process, int others) {
  const bool thread_sanitizer = getenv("OMP_THREAD_LIMIT") != nullptr;
  int blocking = 0, taking = 0;
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    const std::string status = task.path().string() + "/status";
    const std::string mask = StatusField(status, "SigBlk");
    if (mask.empty()) continue;
    if (StatusField(status, "Name") == "signals") {
      ++taking;
      continue;
    }
    ++blocking;
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGPROF, SIGQUIT}) {
      EXPECT_TRUE(Blocks(mask, signal)) << "signal " << signal << " in " << status;
    }
    // ThreadSanitizer's own thread blocks everything.
    if (!thread_sanitizer) {
      EXPECT_FALSE(Blocks(mask, SIGSEGV)) << status;
    }
  }
  EXPECT_EQ(taking, 1);
  // ThreadSanitizer's tests have one thread for OpenMP.
  EXPECT_GE(blocking, thread_sanitizer ? 1 : others);
}

// oneDNN's kernels make the stack pointer point into the heap, so a signal handler's frame would
// overwrite the heap.
TEST(SignalsTest, OnlyTheSignalThreadTakesSignalsDuringAStep) {
  const std::string folder = NewFolder();
  RunningProgram running(GptProgram(), Tiny({"--out=" + folder, "--steps=1000000", "--threads=3"}));
  ASSERT_TRUE(running.WaitFor([&] { return HasTrained(running); })) << running.Err();
  ExpectOneThreadTakesSignals(running.pid(), 3);
}

TEST(SignalsTest, OnlyTheSignalThreadsOfRanksTakeSignalsDuringAStep) {
  for (const char* backend : {"shm", "tcp"}) {
    SCOPED_TRACE(backend);
    const std::string folder = NewFolder();
    RunningProgram running(GptProgram(),
                           OnRanksBy("ddp", 2,
                                     {"--out=" + folder, "--steps=1000000", "--threads=3",
                                      std::string("--backend=") + backend}));
    ASSERT_TRUE(running.WaitFor([&] { return HasTrained(running); })) << running.Err();
    for (const int rank : {0, 1}) {
      const pid_t process = ProcessOf(rank, folder);
      ASSERT_GT(process, 0);
      // Two more of OpenMP, and the one that communicates.
      ExpectOneThreadTakesSignals(process, 4);
    }
    running.Signal(SIGINT);
    EXPECT_EQ(running.Wait().code, 128 + SIGINT);
  }
}

TEST(SignalsTest, UnhandledSignalsEndTheRunAsTheyAlwaysDo) {
  for (int signal : {SIGALRM, SIGKILL}) {
    RunningProgram running(GptProgram(), Tiny({"--out=" + NewFolder(), "--steps=1000000"}));
    ASSERT_TRUE(running.WaitFor([&] { return HasTrained(running); })) << running.Err();
    running.Signal(signal);
    EXPECT_EQ(running.Wait().signal, signal);
  }
}

TEST(SignalsTest, AnInterruptEndsAPlanAtOnce) {
  // Planning takes seconds, during which no run could be saved.
  RunningProgram running(GptProgram(), {"--set=model.layers=2000", "--plan_only"});
  ASSERT_TRUE(running.WaitFor([&] {
    return !StatusField("/proc/" + std::to_string(running.pid()) + "/status", "SigBlk").empty() &&
           Blocks(StatusField("/proc/" + std::to_string(running.pid()) + "/status", "SigBlk"),
                  SIGINT);
  }));
  running.Signal(SIGINT);
  EXPECT_EQ(running.Wait().signal, SIGINT);
}

TEST(SignalsTest, ALostTerminalSavesTheRun) {
  const std::string folder = NewFolder();
  RunningProgram running(GptProgram(), Tiny({"--out=" + folder, "--steps=1000000"}));
  ASSERT_TRUE(running.WaitFor([&] { return HasTrained(running); })) << running.Err();
  running.Signal(SIGHUP);
  EXPECT_EQ(running.Wait().code, 128 + SIGHUP);
  EXPECT_EQ(Checkpoints(folder).size(), 1);
}

void ExpectOneLine(const Result& result, const std::string& part) {
  EXPECT_EQ(result.code, 1) << result.out << result.err << "signal " << result.signal;
  EXPECT_THAT(result.err, StartsWith("error: "));
  EXPECT_THAT(result.err, HasSubstr(part));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

// Returns the program's own exit code if the reader of its output ends after one line.
Result IntoAClosedPipe(const std::vector<std::string>& flags) {
  std::string command = "{ " + GptProgram();
  for (const std::string& flag : flags) command += " '" + flag + "'";
  const std::string code = NewFolder() + "/code";
  Result result = Shell(command + "; echo $? >" + code + "; } | head -n 1");
  result.code = std::stoi(ReadFile(code));
  return result;
}

TEST(SignalsTest, AClosedPipeIsALineAndSavesTheRun) {
  const std::string folder = NewFolder();
  const Result result = IntoAClosedPipe(Tiny({"--out=" + folder, "--steps=1000000"}));
  ExpectOneLine(result, "cannot write to stdout: Broken pipe; the last checkpoint is of step ");
  EXPECT_EQ(Checkpoints(folder).size(), 1);
  EXPECT_EQ(RunProgram(GptProgram(), {"--resume=" + folder, "--mode=evaluate"}).code, 0);
}

TEST(SignalsTest, AFileThatMayNotGrowIsALine) {
  const std::string folder = NewFolder();
  RunOptions options;
  options.file_limit = 8 << 10;  // less than the parameters
  ExpectOneLine(RunProgram(GptProgram(), Tiny({"--out=" + folder}), options),
                "cannot save step 20: ");
}

TEST(SignalsTest, TooManyThreadsInTheEnvironmentAreALine) {
  RunOptions options;
  options.environment["OMP_NUM_THREADS"] = "99999";
  std::vector<std::string> flags;
  for (const std::string& flag : Tiny({"--out=" + NewFolder() + "/run"})) {
    if (flag != "--threads=1") flags.push_back(flag);
  }
  ExpectOneLine(RunProgram(GptProgram(), flags, options),
                "OMP_NUM_THREADS is 99999: it must be at most 4096");
  ExpectOneLine(RunProgram(GptProgram(), Tiny({"--threads=99999"})),
                "threads is 99999: it must be at most 4096");
}

}  // namespace
}  // namespace tessera
