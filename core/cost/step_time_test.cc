#include "core/cost/step_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ids/table.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

// Measured times need not be in the Program's order, and may have gaps in which nothing runs.
TEST(StepTimeTest, OverlapOfMeasuredTimes) {
  Program program;
  for (const bool communicates : {true, false, false, true, false}) {
    Instruction instruction;
    if (communicates) {
      instruction.kind = InstructionKind::kCollective;
      instruction.collective = program.FindOrAddCollective({.elements = 8, .mesh_axes = {"data"}});
    }
    program.instructions.push_back(std::move(instruction));
  }
  const Table<InstructionId, TimeSpan> times = {{1, 6}, {4, 5}, {2, 3}, {8, 9}, {2, 2.5}};
  const Overlap overlap = OverlapOf(program, times);
  EXPECT_EQ(overlap.computation_seconds, 2);
  EXPECT_THAT(overlap.exposed_seconds, ElementsAre(3, 0, 0, 1, 0));
  const std::vector<TimeSpan> spans = CommunicatingSpans(program, times);
  ASSERT_EQ(spans.size(), 2);
  EXPECT_EQ(spans[0].begin, 1);
  EXPECT_EQ(spans[0].end, 6);
  EXPECT_EQ(spans[1].seconds(), 1);
  EXPECT_EQ(StepSeconds(times), 9);
}

TEST(StepTimeTest, AStepOfNothing) {
  EXPECT_EQ(StepSeconds({}), 0);
  EXPECT_EQ(OverlapOf(Program(), {}).computation_seconds, 0);
}

}  // namespace
}  // namespace tessera
