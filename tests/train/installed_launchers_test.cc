// Starts ranks with other launchers that are installed, and trains under strategies.
#include "tests/train/installed_launchers.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> TrainingFlags(const std::string& folder) {
  return Tiny({"--optimizer=sgd", "--lr=0.1", "--batch=8", "--clip_norm=0",
               "--set=model.layers=2,model.dropout=0.1", "--out=" + folder});
}

class InstalledLaunchersTest : public ::testing::TestWithParam<InstalledLauncher> {};

TEST_P(InstalledLaunchersTest, TrainsByStrategiesAsOneProcessDoes) {
  const InstalledLauncher& launcher = GetParam();
  if (launcher.program.empty()) GTEST_SKIP() << launcher.name << " is not installed";
  const std::string alone = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), TrainingFlags(alone)).code, 0);
  const std::vector<double> expected = Field(alone, "loss");
  ASSERT_EQ(expected.size(), 20u);
  for (const char* strategy : {"ddp", "fsdp"}) {
    const std::string folder = NewFolder();
    std::vector<std::string> training = TrainingFlags(folder);
    training.push_back(std::string("--strategy=") + strategy);
    const Result result =
        RunProgram(launcher.program, launcher.Arguments(2, training), InstalledLauncherOptions());
    ASSERT_EQ(result.code, 0) << strategy << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr("; 2 ranks, shm"));
    const std::vector<double> losses = Field(folder, "loss");
    ASSERT_EQ(losses.size(), expected.size()) << strategy;
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << strategy << ", step " << i + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Launchers, InstalledLaunchersTest,
                         ::testing::ValuesIn(InstalledLaunchers()),
                         [](const auto& launcher) { return launcher.param.name; });

}  // namespace
}  // namespace tessera
