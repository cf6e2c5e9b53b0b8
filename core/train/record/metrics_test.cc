#include "core/train/record/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "core/posix/testing/obstacles.h"
#include "core/train/record/testing/read_events.h"

namespace tessera {
namespace {

std::string PathFor(const std::string& name) { return ::testing::TempDir() + "/" + name; }

// Opens the file of PathFor.
absl::StatusOr<std::unique_ptr<MetricsLog>> OpenLog(const std::string& name, int64_t last_step) {
  const absl::StatusOr<Folder> folder = Folder::Open(::testing::TempDir());
  EXPECT_TRUE(folder.ok()) << folder.status();
  return MetricsLog::Open(*folder, name, last_step);
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

StepMetrics Step(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 1.0 / 3;
  metrics.lr = 1e-3;
  metrics.peak_bytes = int64_t{1} << 40;
  return metrics;
}

TEST(MetricsTest, WritesOneObjectALine) {
  const std::string name = "objects.jsonl", path = PathFor(name);
  auto log = OpenLog(name, 0);
  ASSERT_TRUE(log.ok()) << log.status();
  StepMetrics second = Step(2);
  second.eval_loss = 2.5;
  second.grad_norm = NAN;
  second.communication = {4096, 0.5, 0.25};
  ASSERT_TRUE((*log)->Append(Step(1)).ok());
  ASSERT_TRUE((*log)->Append(second).ok());

  std::istringstream lines(Contents(path));
  std::string line;
  std::getline(lines, line);
  nlohmann::json entry = nlohmann::json::parse(line);
  EXPECT_EQ(entry["step"], 1);
  EXPECT_EQ(entry["loss"], 1.0 / 3);
  EXPECT_EQ(entry["peak_bytes"], int64_t{1} << 40);
  EXPECT_FALSE(entry.contains("eval_loss"));
  EXPECT_FALSE(entry.contains("bytes_sent"));
  std::getline(lines, line);
  entry = nlohmann::json::parse(line);
  EXPECT_EQ(entry["bytes_sent"], 4096);
  EXPECT_EQ(entry["communication_seconds"], 0.5);
  EXPECT_EQ(entry["exposed_communication_seconds"], 0.25);
  EXPECT_EQ(entry["eval_loss"], 2.5);
  EXPECT_TRUE(entry["grad_norm"].is_null());
}

TEST(MetricsTest, IsCutBackToTheStepThatItGoesOnFrom) {
  const std::string name = "cut.jsonl", path = PathFor(name);
  {
    auto log = OpenLog(name, 0);
    ASSERT_TRUE(log.ok());
    for (int step = 1; step <= 5; ++step) ASSERT_TRUE((*log)->Append(Step(step)).ok());
  }
  const std::string five_steps = Contents(path);
  std::ofstream(path, std::ios::app) << "{\"step\": 4, \"lo";  // an incomplete line
  ASSERT_TRUE(OpenLog(name, 9).ok());
  EXPECT_EQ(Contents(path), five_steps);

  auto log = OpenLog(name, 3);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(Contents(path), five_steps.substr(0, five_steps.size() / 5 * 3));
  ASSERT_TRUE((*log)->Append(Step(4)).ok());
  ASSERT_TRUE((*log)->Append(Step(5)).ok());
  EXPECT_EQ(Contents(path), five_steps);
}

// A power failure may leave a gigabyte of zeros, which must not be read into memory as one line.
TEST(MetricsTest, TruncatesZerosAtTheEnd) {
  const std::string name = "zeros.jsonl", path = PathFor(name);
  {
    auto log = OpenLog(name, 0);
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE((*log)->Append(Step(1)).ok());
  }
  const std::string one_step = Contents(path);
  std::filesystem::resize_file(path, 1 << 30);
  ASSERT_TRUE(OpenLog(name, 9).ok());
  EXPECT_EQ(Contents(path), one_step);
}

// Regression test: the summary of a resumed run ignored evaluations before the resume.
TEST(MetricsTest, AResumedRunKnowsTheEvaluationsBeforeIt) {
  const std::string name = "evaluations.jsonl";
  std::filesystem::remove(PathFor(name));
  {
    const auto log = OpenLog(name, 0);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_TRUE((*log)->earlier_evaluations().empty());
    for (int64_t step = 1; step <= 6; ++step) {
      StepMetrics metrics;
      metrics.step = step;
      if (step % 2 == 0) metrics.eval_loss = 1.0 / static_cast<double>(step);
      ASSERT_TRUE((*log)->Append(metrics).ok());
    }
  }
  const auto log = OpenLog(name, 4);
  ASSERT_TRUE(log.ok()) << log.status();
  const std::vector<std::pair<int64_t, double>> expected = {{2, 0.5}, {4, 0.25}};
  EXPECT_EQ((*log)->earlier_evaluations(), expected);
}

// Each number of metrics.jsonl is also in the event file.
TEST(MetricsTest, WritesTheSameForTensorBoard) {
  const std::string path = PathFor("tensorboard");
  std::filesystem::remove_all(path);
  std::filesystem::create_directory(path);
  const absl::StatusOr<Folder> folder = Folder::Open(path);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto log = MetricsLog::Open(*folder, "metrics.jsonl", 11);
  ASSERT_TRUE(log.ok()) << log.status();
  StepMetrics metrics;
  metrics.step = 12;
  metrics.loss = 2.5;
  metrics.grad_norm = 0.75;
  metrics.lr = 0.125;
  metrics.step_seconds = 0.5;
  metrics.unit = "token";
  metrics.units_per_second = 4096;
  metrics.model_flops_per_second = 3e12;
  metrics.mfu = 0.25;
  metrics.peak_bytes = int64_t{3} << 29;
  metrics.ranks = 4;
  std::map<std::string, float> expected = {{"loss_metrics/global_avg_loss", 2.5},
                                           {"grad_norm", 0.75},
                                           {"lr", 0.125},
                                           {"time_metrics/end_to_end(s)", 0.5},
                                           {"throughput(tps)", 1024},
                                           {"tflops", 3},
                                           {"mfu(%)", 25},
                                           {"memory/max_active(GiB)", 1.5}};
  ASSERT_TRUE((*log)->Append(metrics).ok());
  const auto last = [&path] {
    const ReadEvents read = ReadEventFile(EventFilesIn(path).at(0));
    EXPECT_EQ(read.fault, "");
    return read.events.back();
  };
  EXPECT_EQ(last().step(), 12);
  EXPECT_EQ(ScalarsIn(last()), expected);

  metrics.communication = {4096, 0.25, 0.0625};
  metrics.eval_loss = 3.5;
  expected["communication/bytes_sent"] = 4096;
  expected["communication/seconds"] = 0.25;
  expected["communication/exposed_seconds"] = 0.0625;
  expected["validation_metrics/loss"] = 3.5;
  ASSERT_TRUE((*log)->Append(metrics).ok());
  EXPECT_EQ(ScalarsIn(last()), expected);

  std::istringstream lines(Contents(path + "/metrics.jsonl"));
  std::string line;
  while (std::getline(lines, line)) {
    const auto entry = nlohmann::json::parse(line);
    const bool evaluated = entry.contains("eval_loss");
    EXPECT_EQ(entry.size(), 1 + expected.size() - (evaluated ? 0 : 4));
  }
}

// Regression: a link to another file truncated that file, and a FIFO was waited for.
TEST(MetricsTest, NamesAnEntryThatIsNoFileOfARun) {
  const std::string name = "prepared.jsonl", victim = PathFor("victim");
  std::filesystem::remove_all(victim);
  MakeVictim(victim);
  const std::string before = Snapshot(victim);
  for (const Obstacle obstacle : AllObstacles()) {
    if (obstacle == Obstacle::kSocket) continue;  // its path may be too long
    SCOPED_TRACE(NameOf(obstacle));
    Put(obstacle, PathFor(name), victim);
    const auto log = OpenLog(name, 0);
    ASSERT_FALSE(log.ok());
    EXPECT_NE(std::string(log.status().message()).find(name), std::string::npos) << log.status();
    EXPECT_EQ(Snapshot(victim), before);
    std::filesystem::remove_all(PathFor(name));
  }
}

}  // namespace
}  // namespace tessera
