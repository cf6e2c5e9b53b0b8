// Starts ranks with other launchers that are installed, and trains under strategies.
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Returns a port derived from the process number, which other tests are unlikely to use.
std::string Port() { return std::to_string(20000 + getpid() % 10000); }

std::string FirstOf(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (std::filesystem::exists(file)) return file;
  }
  return "";
}

// Returns the folder that tests/parity/torch_venv.sh makes.
std::string TorchVenv() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) {
    return std::string(cache) + "/tessera/parity-venv";
  }
  // Bazel does not pass $HOME to tests.
  const passwd* const user = getpwuid(getuid());
  return std::string(user == nullptr ? "" : user->pw_dir) + "/.cache/tessera/parity-venv";
}

struct Launcher {
  std::string name;
  std::vector<std::string> programs;  // the first that exists is used
  std::vector<std::string> flags;     // that start two ranks
};

std::vector<Launcher> Launchers() {
  return {{"torchrun",
           {TorchVenv() + "/bin/torchrun", "/usr/local/bin/torchrun", "/usr/bin/torchrun"},
           {"--no-python", "--nproc_per_node=2", "--master_port=" + Port()}},
          {"mpirun", {"/usr/bin/mpirun", "/usr/local/bin/mpirun"}, {"--oversubscribe", "-n", "2"}}};
}

std::vector<std::string> TrainingFlags(const std::string& folder) {
  return Tiny({"--optimizer=sgd", "--lr=0.1", "--batch=8", "--clip_norm=0",
               "--set=model.layers=2,model.dropout=0.1", "--out=" + folder});
}

class InstalledLaunchersTest : public ::testing::TestWithParam<Launcher> {};

TEST_P(InstalledLaunchersTest, TrainsByStrategiesAsOneProcessDoes) {
  const std::string launcher = FirstOf(GetParam().programs);
  if (launcher.empty()) GTEST_SKIP() << GetParam().name << " is not installed";
  const std::string alone = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), TrainingFlags(alone)).code, 0);
  const std::vector<double> expected = Field(alone, "loss");
  ASSERT_EQ(expected.size(), 20u);
  RunOptions options;
  options.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  for (const char* strategy : {"ddp", "fsdp"}) {
    const std::string folder = NewFolder();
    std::vector<std::string> arguments = GetParam().flags;
    arguments.push_back(GptProgram());
    for (const std::string& flag : TrainingFlags(folder)) arguments.push_back(flag);
    arguments.push_back(std::string("--strategy=") + strategy);
    const Result result = RunProgram(launcher, arguments, options);
    ASSERT_EQ(result.code, 0) << strategy << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr("; 2 ranks, shm"));
    const std::vector<double> losses = Field(folder, "loss");
    ASSERT_EQ(losses.size(), expected.size()) << strategy;
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << strategy << ", step " << i + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Launchers, InstalledLaunchersTest, ::testing::ValuesIn(Launchers()),
                         [](const auto& launcher) { return launcher.param.name; });

}  // namespace
}  // namespace tessera
