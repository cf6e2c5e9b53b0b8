// Trains a network with batch norm as a user would: running statistics in checkpoints, under other
// strategies, and in evaluation.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr char kNormalized[] = "--set=model.batch_norm=true";

// Returns flags of a small network on random pictures, and more flags.
std::vector<std::string> Small(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {
      "--set=model.height=8,model.width=6,model.channels=3,model.layers=[5;0;6;0]",
      "--set=model.hidden=7,model.classes=4,model.dropout=0",
      "--set=optimizer.schedule=constant,optimizer.warmup_steps=0,eval_batches=2",
      "--data=synthetic",
      "--batch=8",
      "--threads=1",
      "--save_every=0",
      "--eval_every=0",
      "--steps=6"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

Result Train(const std::vector<std::string>& flags) {
  return RunProgram(fs::absolute("models/vgg/train").string(), flags);
}

std::string Line(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return "";
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

TEST(BatchNormProgramTest, StatisticsAreNoParameters) {
  const Result plain = Train(Small({"--plan_only"}));
  ASSERT_EQ(plain.code, 0) << plain.err;
  const Result result = Train(Small({kNormalized, "--plan_only"}));
  ASSERT_EQ(result.code, 0) << result.err;
  // A weight and a bias of each channel, and no bias of the convolution.
  EXPECT_THAT(plain.out, HasSubstr("539 parameters"));
  EXPECT_THAT(result.out, HasSubstr("550 parameters"));
  EXPECT_THAT(Line(result.out, "running statistics"), HasSubstr("B"));
  EXPECT_THAT(plain.out, Not(HasSubstr("running statistics")));
}

// Convolutions by output channels, or as a pair; batch norm and its statistics by channel, or as
// they come.
constexpr char kByChannel[] =
    "stages { mesh { name: 'model' } "
    "store { path: 'features.*.weight|features.*.norm.*' layout: 'model: S(0)' } "
    "compute { path: 'features.*.convolution' signature: 'model: B, S(0) -> S(3)' } }";
constexpr char kPairs[] =
    "stages { mesh { name: 'data' size: 2 } mesh { name: 'model' } "
    "store { path: 'pictures|labels' layout: 'data: S(0)' } "
    "store { path: 'features.0.weight' layout: 'model: S(0)' } "
    "compute { path: 'features.0.convolution' signature: 'model: B, S(0) -> S(3)' } "
    "store { path: 'features.1.weight' layout: 'model: S(3)' } "
    "compute { path: 'features.1.convolution' signature: 'model: S(3), S(3) -> P' } }";

std::string PlanFile(const char* text) {
  std::string path = NewFolder() + "/plan.textproto";
  std::ofstream(path) << text;
  return path;
}

TEST(BatchNormProgramTest, AnyStrategyContinuesWithTheStatisticsOfAnother) {
  struct Job {
    std::string name;
    std::vector<std::string> flags;
  };
  const std::vector<Job> jobs = {{"one process", {"--nproc=1"}},
                                 {"ddp", {"--nproc=2", "--strategy=ddp"}},
                                 {"fsdp", {"--nproc=2", "--strategy=fsdp"}},
                                 {"osdp", {"--nproc=2", "--strategy=osdp"}},
                                 {"by channel", {"--nproc=2", "--plan=" + PlanFile(kByChannel)}},
                                 {"pairs", {"--nproc=4", "--plan=" + PlanFile(kPairs)}}};
  std::vector<double> expected;  // the losses of steps 5 and 6, and of the evaluation
  std::vector<std::string> folders;
  for (const Job& job : jobs) {
    SCOPED_TRACE(job.name);
    folders.push_back(NewFolder());
    std::vector<std::string> flags = Small(job.flags);
    flags.insert(flags.end(),
                 {kNormalized, "--save_every=4", "--eval_every=6", "--out=" + folders.back()});
    const Result result = Train(flags);
    ASSERT_EQ(result.code, 0) << result.err;
    const std::string manifest = CheckpointFiles(folders.back(), 4).at("manifest.json");
    EXPECT_THAT(manifest, HasSubstr(R"({"path":"features.0.norm.running_mean","role":"statistic",)"
                                    R"("dtype":"f32","shape":[5])"));
    const std::vector<nlohmann::json> metrics = Metrics(folders.back());
    ASSERT_EQ(metrics.size(), 6u);
    if (expected.empty()) {
      expected = {metrics[4]["loss"], metrics[5]["loss"], metrics[5]["eval_loss"]};
    }
  }
  for (size_t from = 0; from < jobs.size(); ++from) {
    for (const Job& to : jobs) {
      SCOPED_TRACE(jobs[from].name + ", resumed as " + to.name);
      const std::string folder = NewFolder() + "/run";
      std::vector<std::string> flags = to.flags;
      flags.insert(flags.end(),
                   {"--resume=" + folders[from] + "/checkpoints/step_00000004", "--out=" + folder});
      const Result result = Train(flags);
      ASSERT_EQ(result.code, 0) << result.err;
      const std::vector<nlohmann::json> metrics = Metrics(folder);
      ASSERT_EQ(metrics.size(), 2u);
      EXPECT_NEAR(metrics[0]["loss"].get<double>(), expected[0], 1e-4);
      EXPECT_NEAR(metrics[1]["loss"].get<double>(), expected[1], 1e-4);
      EXPECT_NEAR(metrics[1]["eval_loss"].get<double>(), expected[2], 1e-4);
    }
  }
}

TEST(BatchNormProgramTest, ACheckpointIsEvaluatedByItsStatistics) {
  const std::string folder = NewFolder();
  const Result trained =
      Train(Small({kNormalized, "--save_every=6", "--eval_every=6", "--out=" + folder}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Result evaluated = Train({"--resume=" + folder, "--mode=evaluate"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr(Line(trained.out, "step 6: eval_loss").substr(0, 24)));
}

TEST(BatchNormProgramTest, ACheckpointWithoutStatisticsIsRefused) {
  const std::string folder = NewFolder();
  const Result trained = Train(Small({"--save_every=6", "--out=" + folder}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(CheckpointFiles(folder, 6).at("manifest.json"), HasSubstr("\"format_version\": 3"));
  const Result result = Train({"--resume=" + folder, kNormalized, "--steps=8"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("has no state 'features.0.norm."));
}

TEST(BatchNormProgramTest, MicroBatchesThatCutAGroupAreOneLine) {
  const Result result = Train(Small({kNormalized, "--micro_batches=2"}));
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("'features.0.norm.batch_norm_sum' (batch_norm_sum): 2 micro-batches would "
                        "cut its groups of rows (1 of 8); use a multiple of 2 groups, of equal "
                        "size, or 1 micro-batch"));
  const Result grouped =
      Train(Small({kNormalized, "--set=model.batch_norm_groups=4", "--micro_batches=2"}));
  EXPECT_EQ(grouped.code, 0) << grouped.err;
}

// The smallest batches have fewer rows than groups, and no number of rows suits 5 micro-batches.
TEST(BatchNormProgramTest, ASearchedBatchHasRowsForAllGroups) {
  const auto searched = [](const std::string& micro_batches) {
    std::vector<std::string> flags;
    for (const std::string& flag : Small({kNormalized, "--set=model.batch_norm_groups=12",
                                          "--strategy=osdp", "--batch=search"})) {
      if (flag != "--batch=8") flags.push_back(flag);
    }
    // For a cluster, the search is the same on every machine.
    flags.insert(flags.end(), {"--plan_only", "--ranks=2", "--cluster=ethernet_1g",
                               "--memory_limit=1MiB", "--micro_batches=" + micro_batches});
    return Train(flags);
  };
  for (const char* micro_batches : {"1", "3"}) {
    const Result result = searched(micro_batches);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr(" 128 pictures a step")));  // the default
  }
  const Result impossible = searched("5");
  EXPECT_NE(impossible.code, 0);
  EXPECT_THAT(impossible.err, HasSubstr("5 micro-batches would cut its groups of rows (12 of "));
}

TEST(BatchNormProgramTest, InSixteenBits) {
  const std::string folder = NewFolder();
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const std::string out = folder + "/" + dtype;
    const Result result = Train(Small({kNormalized, std::string("--dtype=") + dtype,
                                       "--save_every=6", "--eval_every=6", "--out=" + out}));
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(CheckpointFiles(out, 6).at("manifest.json"),
                HasSubstr(R"("path":"features.1.norm.running_variance","role":"statistic",)"
                          R"("dtype":"f32")"));
    EXPECT_NEAR(Metrics(out).back()["eval_loss"].get<double>(),
                Metrics(folder + "/f32").back()["eval_loss"].get<double>(), 2e-2);
  }
}

}  // namespace
}  // namespace tessera
