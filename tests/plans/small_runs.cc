#include "tests/plans/small_runs.h"

#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "gtest/gtest.h"
#include "strategies/conformance/compare_training.h"

namespace tessera {

Plan StagePlan(const std::string& stage) {
  return ParsePlan(absl::StrCat("stages { ", stage, " }"));
}

TrainingRun OnCpu(TrainingRun run) {
  run.backend = [] { return MakeCpuBackend(1); };
  return run;
}

void ExpectSame(const TrainingRun& run, const Plan& plan, const std::vector<int>& ranks,
                double tolerance) {
  const auto alone = Train(run, Plan(), 1);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_GT(alone->states.size(), 4u);
  EXPECT_TRUE(alone->outputs[0].contains("loss"));
  EXPECT_GT(alone->outputs[0].size(), 7u);  // gradients
  for (const int count : ranks) {
    const auto result = Train(run, plan, count);
    ASSERT_TRUE(result.ok()) << count << " ranks: " << result.status();
    const Difference difference = Compare(*alone, *result);
    EXPECT_LE(difference.relative, tolerance) << count << " ranks: " << difference.where;
  }
}

void ExpectSame(const TrainingRun& run, const std::string& plan_file, const std::vector<int>& ranks,
                double tolerance) {
  ExpectSame(run, ReadPlanFile(plan_file), ranks, tolerance);
}

}  // namespace tessera
