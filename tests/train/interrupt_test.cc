// Checks runs of one rank that SIGINT or SIGTERM stops.
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

TEST(InterruptTest, CtrlCSavesAndSaysHowToGoOn) {
  for (int signal : {SIGINT, SIGTERM}) {
    const std::string folder = NewFolder() + "/a folder";
    RunningProgram running(GptProgram(), Tiny({"--out=" + folder, "--steps=1000000"}));
    ASSERT_TRUE(running.WaitFor([&] {
      return running.Out().find("step       1/1000000") != std::string::npos;
    })) << running.Err();
    running.Signal(signal);
    const Result stopped = running.Wait();
    EXPECT_EQ(stopped.code, 128 + signal);
    EXPECT_THAT(stopped.err, HasSubstr("another signal, a second later, stops at once"));
    const size_t command_at = stopped.out.find("go on with\n  ");
    ASSERT_NE(command_at, std::string::npos) << stopped.out;
    std::string command = stopped.out.substr(command_at + 13);
    command.resize(command.find('\n'));

    const std::vector<std::string> checkpoints = Checkpoints(folder);
    ASSERT_EQ(checkpoints.size(), 1);
    const int64_t step = std::stoll(checkpoints[0].substr(5));
    EXPECT_GE(step, 1);
    ExpectStepsTo(step, folder);
    const Result result = Shell(command + " --steps=" + std::to_string(step + 3));
    ASSERT_EQ(result.code, 0) << command << "\n" << result.err;
    EXPECT_EQ(CheckpointFiles(folder, step + 3), FilesOfUnbrokenRun(step + 3, {}));
  }
}

TEST(InterruptTest, ASecondCtrlCEndsAtOnce) {
  const std::string folder = NewFolder();
  // One step of this takes long.
  RunningProgram running(GptProgram(),
                         Tiny({"--out=" + folder, "--device=reference", "--batch=32768"}));
  ASSERT_TRUE(running.WaitFor([&] { return fs::exists(folder + "/metrics.jsonl"); }));
  // The file is made before the step begins; a signal in between ends the run before any step.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  running.Signal(SIGINT);
  ASSERT_TRUE(running.WaitFor([&] { return running.Err().find("stopping") != std::string::npos; }));
  running.Signal(SIGINT);  // a copy of the first
  std::this_thread::sleep_for(std::chrono::milliseconds(1010));
  siginfo_t ended = {};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(running.pid()), &ended, WEXITED | WNOHANG | WNOWAIT),
            0);
  EXPECT_EQ(ended.si_pid, 0) << "the copy has ended it";
  running.Signal(SIGINT);
  EXPECT_EQ(running.Wait().code, 130);
  EXPECT_THAT(Checkpoints(folder), ElementsAre());
}

TEST(InterruptTest, CtrlCInTheLastEvaluationIsNoSuccess) {
  const std::string folder = NewFolder();
  WriteFile(folder + "/long.txt", std::string(4 << 20, 'x'));
  RunningProgram running(GptProgram(), Tiny({"--out=" + folder + "/run", "--steps=1", "--batch=1",
                                             "--data=" + folder + "/long.txt",
                                             "--set=eval_batches=0", "--device=reference"}));
  ASSERT_TRUE(running.WaitFor([&] { return running.Out().find("step 1/1 ") != std::string::npos; }))
      << running.Out();
  running.Signal(SIGINT);
  const Result result = running.Wait();
  EXPECT_EQ(result.code, 130) << result.out;
  EXPECT_THAT(result.out, HasSubstr("stopped in the evaluation after step 1, the last; evaluate"));
  EXPECT_THAT(result.out, HasSubstr("--mode=evaluate\n"));
  EXPECT_FALSE(Metrics(folder + "/run").back().contains("eval_loss"));
  EXPECT_THAT(Checkpoints(folder + "/run"), ElementsAre(CheckpointName(1)));
}

TEST(InterruptTest, CtrlCInTheLastSampleIsNoSuccess) {
  const std::string folder = NewFolder();
  RunningProgram running(GptProgram(), Tiny({"--out=" + folder + "/run", "--steps=1",
                                             "--sample_tokens=1000000000", "--prompt=L"}));
  ASSERT_TRUE(running.WaitFor([&] {
    return running.Out().find("--- sample") != std::string::npos;
  })) << running.Out();
  running.Signal(SIGINT);
  const Result result = running.Wait();
  EXPECT_EQ(result.code, 130) << result.out;
  EXPECT_THAT(result.out, HasSubstr("\nrun folder: "));
  EXPECT_THAT(Checkpoints(folder + "/run"), ElementsAre(CheckpointName(1)));
}

}  // namespace
}  // namespace tessera
