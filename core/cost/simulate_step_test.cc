// Times of small Programs, computed by hand. Time runs from left to right, a column each second.
#include "core/cost/simulate_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/ids/table.h"

namespace tessera {

bool operator==(const TimeSpan& a, const TimeSpan& b) {
  return a.begin == b.begin && a.end == b.end;
}
std::ostream& operator<<(std::ostream& out, const TimeSpan& span) {
  return out << "{" << span.begin << ", " << span.end << "}";
}

namespace {

using ::testing::ElementsAre;

// A Program of instructions that have streams, waits and times, and compute nothing.
class Steps {
 public:
  Steps() { program_.streams = {"compute", "gradients", "parameters"}; }

  Steps& Compute(double seconds, const std::vector<int>& waits = {}, int stream = 0) {
    Instruction instruction;
    instruction.stream = StreamId(stream);
    for (const int earlier : waits) instruction.waits.emplace_back(earlier);
    program_.instructions.push_back(std::move(instruction));
    works_.push_back({seconds});
    return *this;
  }
  Steps& Communicate(const Work& work, int stream, const std::vector<int>& waits = {},
                     const std::string& axis = "data") {
    Compute(0, waits, stream);
    works_.back() = work;
    Instruction& instruction = program_.instructions.back();
    instruction.kind = InstructionKind::kCollective;
    instruction.collective = program_.FindOrAddCollective({.elements = 8, .mesh_axes = {axis}});
    return *this;
  }

  const Program& program() const { return program_; }
  Table<InstructionId, TimeSpan> Run(IssueOrder order = IssueOrder::kThread) const {
    return SimulateStep(program_, works_, order);
  }
  Overlap overlap() const { return OverlapOf(program_, Run()); }

 private:
  Program program_;
  Table<InstructionId, Work> works_;
};

TEST(SimulateStepTest, AStreamRunsInOrder) {
  const Steps steps = Steps().Compute(2).Compute(3).Compute(1);
  EXPECT_THAT(steps.Run(), ElementsAre(TimeSpan{0, 2}, TimeSpan{2, 5}, TimeSpan{5, 6}));
  EXPECT_EQ(StepSeconds(steps.Run()), 6);
  EXPECT_EQ(steps.overlap().computation_seconds, 6);
}

// compute    000 22222 33
// gradients     1111
TEST(SimulateStepTest, ACollectiveRunsBesideWhatFollows) {
  const Steps steps = Steps().Compute(3).Communicate({4}, 1, {0}).Compute(5).Compute(2, {1});
  EXPECT_THAT(steps.Run(),
              ElementsAre(TimeSpan{0, 3}, TimeSpan{3, 7}, TimeSpan{3, 8}, TimeSpan{8, 10}));
  EXPECT_THAT(steps.overlap().exposed_seconds, ElementsAre(0, 0, 0, 0));
}

// compute    000 2  ...33
// gradients     1111
TEST(SimulateStepTest, AnInstructionWaitsForACollective) {
  const Steps steps = Steps().Compute(3).Communicate({4}, 1, {0}).Compute(1).Compute(2, {1});
  EXPECT_THAT(steps.Run(),
              ElementsAre(TimeSpan{0, 3}, TimeSpan{3, 7}, TimeSpan{3, 4}, TimeSpan{7, 9}));
  EXPECT_THAT(steps.overlap().exposed_seconds, ElementsAre(0, 3, 0, 0));
  EXPECT_EQ(steps.overlap().computation_seconds, 6);
}

// compute    0 2 4
// gradients   11133335
TEST(SimulateStepTest, TheStreamsNextCollectiveFollowsByItself) {
  const Steps steps = Steps()
                          .Compute(1)
                          .Communicate({3}, 1, {0})
                          .Compute(1)
                          .Communicate({4}, 1, {2})
                          .Compute(1)
                          .Communicate({1}, 1, {4});
  EXPECT_THAT(steps.Run(), ElementsAre(TimeSpan{0, 1}, TimeSpan{1, 4}, TimeSpan{1, 2},
                                       TimeSpan{4, 8}, TimeSpan{2, 3}, TimeSpan{8, 9}));
  EXPECT_EQ(StepSeconds(steps.Run()), 9);
  EXPECT_THAT(steps.overlap().exposed_seconds, ElementsAre(0, 1, 0, 4, 0, 1));
}

// A collective of another group is started when the one before it has ended, and the thread waits
// for that.
// compute    0   3
// gradients   1112222
TEST(SimulateStepTest, TheThreadWaitsWhereGroupsDiffer) {
  const Steps steps =
      Steps().Compute(1).Communicate({3}, 1, {0}).Communicate({4}, 1, {0}, "model").Compute(1);
  EXPECT_THAT(steps.Run(),
              ElementsAre(TimeSpan{0, 1}, TimeSpan{1, 4}, TimeSpan{4, 8}, TimeSpan{4, 5}));
}

// The gather begins after the computation before it in the Program, not at the start of the step.
// compute 00 2 parameters 111
TEST(SimulateStepTest, ACollectiveStartsWhenItIsIssued) {
  const Steps steps = Steps().Compute(2).Communicate({3}, 2).Compute(1);
  EXPECT_THAT(steps.Run(), ElementsAre(TimeSpan{0, 2}, TimeSpan{2, 5}, TimeSpan{2, 3}));
  EXPECT_EQ(StepSeconds(steps.Run()), 5);
  EXPECT_THAT(steps.overlap().exposed_seconds, ElementsAre(0, 2, 0));
}

// The thread computes on all streams.
// compute    00
// parameters   111
TEST(SimulateStepTest, ComputationsRunOneAfterAnother) {
  const Steps steps = Steps().Compute(2).Compute(3, {}, 2);
  EXPECT_THAT(steps.Run(), ElementsAre(TimeSpan{0, 2}, TimeSpan{2, 5}));
}

// Collectives of one group run one after another, on different streams too.
// compute    0         3
// gradients   1111
// parameters      22222
TEST(SimulateStepTest, AGroupRunsInOrder) {
  const Steps steps =
      Steps().Compute(1).Communicate({4}, 1, {0}).Communicate({5}, 2).Compute(1, {1, 2});
  EXPECT_THAT(steps.Run(),
              ElementsAre(TimeSpan{0, 1}, TimeSpan{1, 5}, TimeSpan{5, 10}, TimeSpan{10, 11}));
}

// compute    0     3
// gradients   1111
// parameters  22222
TEST(SimulateStepTest, ExposedTimeIsCountedOnce) {
  const Steps steps = Steps()
                          .Compute(1)
                          .Communicate({4}, 1, {0})
                          .Communicate({.seconds = 5, .between_hosts = true}, 2, {}, "model")
                          .Compute(1, {1, 2});
  EXPECT_THAT(steps.Run(),
              ElementsAre(TimeSpan{0, 1}, TimeSpan{1, 5}, TimeSpan{1, 6}, TimeSpan{6, 7}));
  EXPECT_THAT(steps.overlap().exposed_seconds, ElementsAre(0, 4, 1, 0));
}

// Both groups send over one link: each at half of its rate, until the first has ended.
// compute    0         3
// gradients   44444444
// parameters  555555555
TEST(SimulateStepTest, GroupsShareALink) {
  const Steps steps = Steps()
                          .Compute(1)
                          .Communicate({4}, 1, {0})
                          .Communicate({5}, 2, {}, "model")
                          .Compute(1, {1, 2});
  EXPECT_THAT(steps.Run(),
              ElementsAre(TimeSpan{0, 1}, TimeSpan{1, 9}, TimeSpan{1, 10}, TimeSpan{10, 11}));
}

// Beside computation each of two collectives would advance at half of its rate and take half of the
// time of the computation. They share a link, so each advances at a quarter, and both together take
// half: 4 s of computation take 8 s, in which 2 s of each collective end; the other 2 s take 4 s.
TEST(SimulateStepTest, GroupsThatShareALinkSlowDownComputationOnce) {
  const Work work = {.seconds = 4, .beside_seconds = 8, .taken_seconds = 4};
  const Steps steps = Steps().Communicate(work, 1).Communicate(work, 2, {}, "model").Compute(4);
  EXPECT_THAT(steps.Run(), ElementsAre(TimeSpan{0, 12}, TimeSpan{0, 12}, TimeSpan{0, 8}));
}

TEST(SimulateStepTest, AStepOfNothing) {
  EXPECT_TRUE(Steps().Run().empty());
  EXPECT_EQ(Steps().overlap().computation_seconds, 0);
}

// Beside computation, the collective advances at half of its rate and takes a quarter of the time
// of the computation: 4 s of computation take 4 s + 1/4 of 4, in which 2 s of the collective end.
// The other second follows alone.
TEST(SimulateStepTest, ACollectiveTakesTimeFromComputation) {
  const Steps steps = Steps().Communicate({3, 6, 1.5}, 1).Compute(3).Compute(1, {0});
  EXPECT_THAT(steps.Run(), ElementsAre(TimeSpan{0, 5}, TimeSpan{0, 4}, TimeSpan{5, 6}));
}

// It has ended before the computation has: the rest of that runs at full rate.
TEST(SimulateStepTest, ComputationIsFastAgainAfterTheCollective) {
  const Steps steps = Steps().Communicate({1, 2, 1}, 1).Compute(5);
  EXPECT_THAT(steps.Run(), ElementsAre(TimeSpan{0, 2}, TimeSpan{0, 6}));
}

TEST(SimulateStepTest, ComputationNeverStops) {
  const Steps steps = Steps().Communicate({1, 1, 1}, 1).Compute(1);
  EXPECT_THAT(steps.Run(), ElementsAre(TimeSpan{0, 1}, TimeSpan{0, 1.95}));
}

// On a thread the second computation is issued after the first; streams run by themselves.
TEST(SimulateStepTest, StreamsRunByThemselves) {
  const Steps steps = Steps().Compute(2).Compute(3, {}, 2).Communicate({4}, 1).Compute(1, {2});
  EXPECT_THAT(steps.Run(IssueOrder::kThread),
              ElementsAre(TimeSpan{0, 2}, TimeSpan{2, 5}, TimeSpan{5, 9}, TimeSpan{9, 10}));
  EXPECT_THAT(steps.Run(IssueOrder::kStreams),
              ElementsAre(TimeSpan{0, 2}, TimeSpan{0, 3}, TimeSpan{0, 4}, TimeSpan{4, 5}));
}

}  // namespace
}  // namespace tessera
