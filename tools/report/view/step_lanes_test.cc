#include "tools/report/view/step_lanes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

// A Program of instructions that do nothing, on streams that compute and communicate.
class Steps {
 public:
  Steps() {
    program_.mesh = *Mesh::Create({{"data", 2}});
    program_.streams = {"compute", "gradients"};
    CollectiveRequest request;
    request.operation = CollectiveOperation::kAllReduce;
    request.mesh_axes = {"data"};
    collective_ = program_.FindOrAddCollective(request);
  }

  Steps& Compute(Phase phase, double begin, double end) {
    Instruction instruction;
    instruction.phase = phase;
    program_.instructions.push_back(std::move(instruction));
    times_.push_back({begin, end});
    return *this;
  }
  Steps& Communicate(double begin, double end) {
    Instruction instruction;
    instruction.kind = InstructionKind::kCollective;
    instruction.stream = StreamId(1);
    instruction.collective = collective_;
    program_.instructions.push_back(std::move(instruction));
    times_.push_back({begin, end});
    return *this;
  }
  std::vector<StepLane> Lanes(int max_spans = 300) const {
    return LanesOf(program_, times_, max_spans);
  }

 private:
  Program program_;
  CollectiveId collective_;
  Table<InstructionId, TimeSpan> times_;
};

// Returns text like "0-2 5-6".
std::string SpansText(const StepLane& lane) {
  std::string text;
  for (const LaneSpan& span : lane.spans) {
    text += (text.empty() ? "" : " ") + std::to_string(static_cast<int>(span.begin)) + "-" +
            std::to_string(static_cast<int>(span.end));
  }
  return text;
}

TEST(StepLanesTest, KindsOfWork) {
  const std::vector<StepLane> lanes = Steps()
                                          .Compute(Phase::kForward, 0, 1)
                                          .Compute(Phase::kForward, 1, 2)
                                          .Communicate(2, 5)
                                          .Compute(Phase::kBackward, 3, 4)
                                          .Compute(Phase::kForward, 6, 8)
                                          .Lanes();
  ASSERT_EQ(lanes.size(), 4);
  EXPECT_EQ(lanes[0].work, "forward");
  EXPECT_EQ(lanes[0].instructions, 3);
  EXPECT_EQ(SpansText(lanes[0]), "0-2 6-8");
  EXPECT_EQ(lanes[0].seconds, 4);
  EXPECT_EQ(lanes[1].work, "backward");
  EXPECT_EQ(lanes[2].work, "all-reduce");
  EXPECT_EQ(lanes[2].stream, "gradients");
  EXPECT_EQ(SpansText(lanes[2]), "2-5");
  EXPECT_EQ(lanes[3].kind, LaneKind::kExposed);
  EXPECT_EQ(SpansText(lanes[3]), "2-3 4-5");
  EXPECT_EQ(lanes[3].seconds, 2);
}

TEST(StepLanesTest, ManySpansBecomeShares) {
  Steps steps;
  for (int i = 0; i < 100; ++i) {
    steps.Compute(i % 2 == 0 ? Phase::kForward : Phase::kBackward, i, i + 1);
  }
  const std::vector<StepLane> lanes = steps.Lanes(/*max_spans=*/10);
  ASSERT_EQ(lanes.size(), 2);
  for (const StepLane& lane : lanes) {
    ASSERT_EQ(lane.spans.size(), 10);
    EXPECT_EQ(lane.seconds, 50);
    for (const LaneSpan& span : lane.spans) EXPECT_NEAR(span.share, 0.5, 1e-12);
  }
}

TEST(StepLanesTest, IntervalsKeepTheBusySeconds) {
  const std::vector<LaneSpan> intervals =
      InIntervals({{0.5, 1.5, 1}, {1.5, 2.25, 0.5}, {7, 8, 1}}, /*width=*/1);
  ASSERT_EQ(intervals.size(), 4);
  EXPECT_EQ(intervals[0].begin, 0);
  EXPECT_EQ(intervals[0].share, 0.5);
  EXPECT_EQ(intervals[1].share, 0.5 + 0.25);
  EXPECT_EQ(intervals[2].share, 0.125);
  EXPECT_EQ(intervals[3].begin, 7);
  EXPECT_EQ(intervals[3].share, 1);
  EXPECT_TRUE(InIntervals({}, 1).empty());
}

TEST(StepLanesTest, AStepWithoutCommunicationExposesNothing) {
  const std::vector<StepLane> lanes = Steps().Compute(Phase::kUpdate, 0, 1).Lanes();
  ASSERT_EQ(lanes.size(), 1);
  EXPECT_EQ(lanes[0].work, "update");
}

}  // namespace
}  // namespace tessera
