// Checks ranks as other launchers start them: each is a process of its own, with the variables that
// torchrun, mpirun and srun set.
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRanks = 2;

using Variables = std::map<std::string, std::string>;

// Returns a port derived from the process number, which other tests are unlikely to use.
std::string Port() { return std::to_string(20000 + getpid() % 10000); }

Variables Torchrun(int rank) {
  const std::string number = std::to_string(rank);
  return {{"RANK", number},
          {"WORLD_SIZE", "2"},
          {"LOCAL_RANK", number},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", Port()},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RUN_ID", Port()}};
}

Variables ByHand(int rank) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", Port()}};
}

Variables OpenMpi(int rank) {
  const std::string number = std::to_string(rank);
  return {{"OMPI_COMM_WORLD_RANK", number},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", number},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_NAMESPACE", "prterun-" + Port()}};
}

Variables Srun(int rank) {
  const std::string number = std::to_string(rank);
  return {
      {"SLURM_JOB_ID", Port()},           {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", number},
      {"SLURM_LOCALID", number},          {"SLURM_NTASKS", "2"},  {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_STEP_TASKS_PER_NODE", "2"}, {"SLURM_NODEID", "0"},  {"SLURM_STEP_NODELIST", "node1"}};
}

struct Launcher {
  std::string name;
  Variables (*variables)(int rank);
};

// Flags of every rank: another launcher has started it, so there is no --nproc.
std::vector<std::string> RankFlags(const std::string& folder) {
  return Tiny({"--plan=" + DocumentedPlan("fully_sharded"), "--out=" + folder});
}

std::vector<Result> RunRanks(Variables (*variables)(int rank),
                             const std::vector<std::vector<std::string>>& flags) {
  std::vector<std::unique_ptr<RunningProgram>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    RunOptions options;
    options.environment = variables(rank);
    ranks.push_back(std::make_unique<RunningProgram>(GptProgram(), flags[rank], options));
  }
  std::vector<Result> results;
  for (const auto& rank : ranks) results.push_back(rank->Wait());
  return results;
}

class LaunchersTest : public ::testing::TestWithParam<Launcher> {};

TEST_P(LaunchersTest, RanksTrainTogether) {
  const std::string folder = NewFolder();
  const std::vector<std::string> flags = RankFlags(folder);
  const std::vector<Result> results = RunRanks(GetParam().variables, {flags, flags});
  for (const Result& result : results) EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(results[0].out, HasSubstr("; 2 ranks, shm"));
  EXPECT_EQ(results[1].out, "");
  EXPECT_EQ(Checkpoints(folder).size(), 1u);
  EXPECT_EQ(Field(folder, "loss").size(), 20u);
}

// No launcher ends the other ranks here, so each may wait for the one that reports.
TEST_P(LaunchersTest, ErrorsAreOneLine) {
  const std::string folder = NewFolder() + "/run";
  std::vector<std::string> flags = RankFlags(folder), other = flags;
  other.push_back("--lr=0.5");
  std::vector<Result> results = RunRanks(GetParam().variables, {flags, other});
  EXPECT_EQ(results[0].err,
            "error: rank 1 differs from rank 0 in optimizer.lr: 0.5, and rank 0 has "
            "0.001; all ranks need the same flags, files, processor and threads\n");
  EXPECT_EQ(results[1].err, "");
  flags.push_back("--plan=" + PlanFile("mesh { name: 'data' size: 3 }"));
  results = RunRanks(GetParam().variables, {flags, flags});
  EXPECT_THAT(results[0].err, HasSubstr("error: the Plan's mesh: "));
  EXPECT_EQ(results[1].err, "");
  for (const Result& result : results) EXPECT_EQ(result.code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

// Regression: a shell that is a job of one rank (`srun --pty`) was told to leave out --nproc.
TEST_P(LaunchersTest, TheOnlyRankOfAJobMayStartRanks) {
  RunOptions options;
  options.environment = GetParam().variables(0);
  for (auto& [name, value] : options.environment) {
    if (value == "2") value = "1";
  }
  const std::string folder = NewFolder();
  const Result processes =
      RunProgram(GptProgram(), OnRanksBy("ddp", 2, {"--out=" + folder}), options);
  ASSERT_EQ(processes.code, 0) << processes.err;
  EXPECT_THAT(processes.out, HasSubstr("; 2 ranks, shm"));
  const Result threads = RunProgram(
      GptProgram(), OnRanksBy("ddp", 2, {"--backend=fake", "--out=" + NewFolder()}), options);
  EXPECT_EQ(threads.code, 0) << threads.err;
}

INSTANTIATE_TEST_SUITE_P(Launchers, LaunchersTest,
                         ::testing::Values(Launcher{"torchrun", Torchrun},
                                           Launcher{"by_hand", ByHand}, Launcher{"mpirun", OpenMpi},
                                           Launcher{"srun", Srun}),
                         [](const auto& launcher) { return launcher.param.name; });

}  // namespace
}  // namespace tessera
