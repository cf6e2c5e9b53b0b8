// Runs whose ranks are threads of one process (--backend=fake).
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> OnThreads(const std::vector<std::string>& more) {
  std::vector<std::string> flags =
      Tiny({"--backend=fake", "--nproc=4",
            "--plan=" +
                std::filesystem::absolute("docs/plans/data_tensor_parallel.textproto").string()});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST(ThreadRanks, TrainSaveAndResumeAsOneProcessDoes) {
  const std::string alone = NewFolder(), folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--steps=6", "--out=" + alone})).code, 0);
  const Result first = RunProgram(GptProgram(), OnThreads({"--steps=4", "--out=" + folder}));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("4 ranks, fake"));
  const Result second =
      RunProgram(GptProgram(), {"--backend=fake", "--nproc=4", "--resume=" + folder, "--steps=6"});
  ASSERT_EQ(second.code, 0) << second.err;
  const auto expected = Metrics(alone), metrics = Metrics(folder);
  ASSERT_EQ(metrics.back()["step"], 6);
  EXPECT_NEAR(metrics.back()["loss"].get<double>(), expected.back()["loss"].get<double>(), 1e-4);
}

TEST(ThreadRanks, RankThatFailsIsReportedOnce) {
  const Result result = RunProgram(GptProgram(), OnThreads({"--memory_limit=1KiB"}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("error: "));
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
}

TEST(ThreadRanks, NumberOfRanksIsNeeded) {
  const Result result = RunProgram(GptProgram(), Tiny({"--backend=fake"}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("--nproc=N says how many"));
}

}  // namespace
}  // namespace tessera
