// Checks that a run that was saved under one Plan can be resumed under any other Plan.
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

// Every parameter is stored split along its first dimension.
constexpr char kSplitParameters[] = R"plan(
stages {
  mesh { name: "data" }
  store { path: "tokens|targets" layout: "data: S(0)" }
  store { path: "blocks.*.*.*" layout: "data: S(0)" }
  store { path: "blocks.*.*.*.*" layout: "data: S(0)" }
  store { path: "wte.weight|wpe.weight|ln_f.*" layout: "data: S(0)" }
}
)plan";

struct Job {
  std::string name;
  std::vector<std::string> flags;
};

std::vector<Job> Jobs() {
  const std::string split = NewFolder() + "/split.textproto";
  WriteFile(split, kSplitParameters);
  const auto documented = [](const std::string& name) {
    return "--plan=" + fs::absolute("docs/plans/" + name + ".textproto").string();
  };
  return {{"one process", {"--nproc=1"}},
          {"data parallel on 2", {"--nproc=2", documented("data_parallel")}},
          {"tensor parallel on 2", {"--nproc=2", documented("tensor_parallel")}},
          {"fully sharded on 3", {"--nproc=3", documented("fully_sharded")}},
          {"ZeRO-1 on 3", {"--nproc=3", documented("zero1")}},
          {"hybrid sharded on 4", {"--nproc=4", documented("hybrid_sharded")}},
          {"split on 2", {"--nproc=2", "--plan=" + split}}};
}

std::vector<double> LossesFrom(int64_t step, const std::string& folder) {
  std::vector<double> losses;
  for (const nlohmann::json& line : Metrics(folder)) {
    if (line["step"] >= step) losses.push_back(line["loss"]);
  }
  return losses;
}

TEST(ResumeRanksTest, AnyPlanGoesOnFromTheCheckpointOfAnyOther) {
  const std::vector<Job> jobs = Jobs();
  std::vector<std::string> unbroken;  // folders
  for (const Job& job : jobs) {
    SCOPED_TRACE(job.name);
    unbroken.push_back(NewFolder());
    std::vector<std::string> flags = job.flags;
    flags.insert(flags.end(), {"--steps=10", "--save_every=6", "--out=" + unbroken.back()});
    const Result result = RunProgram(GptProgram(), Tiny(flags));
    ASSERT_EQ(result.code, 0) << result.err;
  }
  const std::vector<double> expected = LossesFrom(7, unbroken[0]);
  ASSERT_EQ(expected.size(), 4u);
  for (size_t from = 0; from < jobs.size(); ++from) {
    const std::string checkpoint = unbroken[from] + "/checkpoints/step_00000006";
    // Each rank writes the shards that only it holds.
    const bool replicas =
        jobs[from].name == "one process" || jobs[from].name == "data parallel on 2";
    EXPECT_EQ(fs::exists(checkpoint + "/optimizer-rank00001.safetensors"), !replicas);
    for (size_t to = 0; to < jobs.size(); ++to) {
      SCOPED_TRACE(jobs[from].name + ", resumed as " + jobs[to].name);
      const std::string folder = NewFolder() + "/run";
      std::vector<std::string> flags = jobs[to].flags;
      flags.insert(flags.end(), {"--resume=" + checkpoint, "--out=" + folder});
      const Result result = RunProgram(GptProgram(), flags);
      ASSERT_EQ(result.code, 0) << result.err;
      EXPECT_THAT(result.out, HasSubstr("going on from step 6, "));
      const std::vector<double> losses = LossesFrom(7, folder);
      ASSERT_EQ(losses.size(), expected.size());
      for (size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << "step " << 7 + i;
      }
      if (from == to) {
        EXPECT_EQ(losses, LossesFrom(7, unbroken[to])) << "other bits";
      }
    }
  }
}

// A checkpoint does not record whether state was on the device or on the host.
TEST(ResumeRanksTest, ARunWithOffloadGoesOnWithoutItAndTheReverse) {
  const auto plan = [](const std::string& name) {
    return "--plan=" + fs::absolute("docs/plans/" + name + ".textproto").string();
  };
  const std::string plans[] = {plan("fully_sharded"), plan("offloaded")};
  std::vector<std::string> unbroken;  // folders
  for (const std::string& each : plans) {
    unbroken.push_back(NewFolder());
    const Result result = RunProgram(
        GptProgram(),
        Tiny({"--nproc=2", each, "--steps=10", "--save_every=6", "--out=" + unbroken.back()}));
    ASSERT_EQ(result.code, 0) << result.err;
  }
  const std::vector<double> expected = LossesFrom(1, unbroken[0]);
  EXPECT_EQ(LossesFrom(1, unbroken[1]), expected) << "other bits";
  for (const int from : {0, 1}) {
    const std::string folder = NewFolder() + "/run";
    const Result result =
        RunProgram(GptProgram(), {"--nproc=2", plans[1 - from], "--out=" + folder,
                                  "--resume=" + unbroken[from] + "/checkpoints/step_00000006"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(LossesFrom(7, folder), LossesFrom(7, unbroken[0])) << "saved by " << plans[from];
  }
}

}  // namespace
}  // namespace tessera
