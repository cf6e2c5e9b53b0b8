#include "core/cost/step_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/cost/cluster.h"
#include "core/ids/table.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

// A cluster with 1 FLOP and 1 byte a second, and no latency.
Cluster SlowCluster() {
  Cluster cluster;
  cluster.set_f32_flops_per_second(1);
  cluster.set_memory_bytes_per_second(1);
  cluster.mutable_within_host()->set_bytes_per_second(100);
  cluster.mutable_between_hosts()->set_bytes_per_second(10);
  return cluster;
}

CollectiveRequest Request(CollectiveOperation operation, int64_t elements,
                          std::vector<std::string> axes) {
  CollectiveRequest request;
  request.operation = operation;
  request.elements = elements;
  request.mesh_axes = std::move(axes);
  return request;
}

// A Program of instructions that compute nothing.
class Steps {
 public:
  explicit Steps(Mesh mesh) {
    program_.mesh = std::move(mesh);
    program_.streams = {"compute", "gradients"};
  }

  Steps& Compute(OpCost cost, Phase phase, bool recomputed = false) {
    Instruction instruction;
    instruction.cost = cost;
    instruction.phase = phase;
    instruction.recomputed = recomputed;
    program_.instructions.push_back(std::move(instruction));
    return *this;
  }
  Steps& Communicate(const CollectiveRequest& request, const std::vector<int>& waits = {}) {
    Instruction instruction;
    instruction.kind = InstructionKind::kCollective;
    instruction.stream = StreamId(1);
    for (const int earlier : waits) instruction.waits.emplace_back(earlier);
    instruction.collective = program_.FindOrAddCollective(request);
    program_.instructions.push_back(std::move(instruction));
    return *this;
  }
  Program& program() { return program_; }

 private:
  Program program_;
};

const StepCost::Collective& Entry(const StepCost& cost, int i) { return cost.collectives(i); }

TEST(StepCostTest, TimesByCategory) {
  Steps steps{Mesh()};
  steps.Compute({.flops = 5}, Phase::kForward)
      .Compute({.flops = 5}, Phase::kForward, /*recomputed=*/true)
      .Compute({.flops = 1, .bytes = 7}, Phase::kBackward)
      .Compute({.bytes = 2}, Phase::kUpdate);
  const StepCost cost = EstimateStep(steps.program(), SlowCluster());
  EXPECT_EQ(cost.step_seconds(), 19);
  EXPECT_EQ(cost.computation_seconds(), 19);
  EXPECT_EQ(cost.exposed_seconds(), 0);
  ASSERT_EQ(cost.times_size(), 4);
  std::vector<std::string> names;
  std::vector<double> seconds;
  for (const StepCost::Time& time : cost.times()) {
    names.push_back(time.category());
    seconds.push_back(time.seconds());
  }
  EXPECT_THAT(names, ElementsAre("forward", "backward", "update", "recomputation"));
  EXPECT_THAT(seconds, ElementsAre(5, 7, 2, 5));
}

TEST(StepCostTest, CollectivesByOperationAndAxes) {
  const auto sum = Request(CollectiveOperation::kAllReduce, 10000, {"data"});
  const auto other_sum = Request(CollectiveOperation::kAllReduce, 20000, {"data"});
  const auto gather = Request(CollectiveOperation::kAllGather, 1000, {"data"});
  const auto along_model = Request(CollectiveOperation::kAllReduce, 8, {"model"});
  Steps steps(*Mesh::Create({{"data", 2}, {"model", 2}}));
  steps.Communicate(sum).Communicate(other_sum).Communicate(sum).Communicate(gather).Communicate(
      along_model);
  const StepCost cost = EstimateStep(steps.program(), SlowCluster());
  ASSERT_EQ(cost.collectives_size(), 3);
  EXPECT_EQ(Entry(cost, 0).operation(), "all-reduce");
  EXPECT_THAT(Entry(cost, 0).mesh_axes(), ElementsAre("data"));
  EXPECT_EQ(Entry(cost, 0).calls(), 3);
  EXPECT_EQ(Entry(cost, 0).bytes(), 2 * 40000 + 80000);
  EXPECT_DOUBLE_EQ(Entry(cost, 0).seconds(), 1600);
  EXPECT_DOUBLE_EQ(Entry(cost, 0).exposed_seconds(), 1600);
  EXPECT_EQ(Entry(cost, 1).operation(), "all-gather");
  EXPECT_EQ(Entry(cost, 1).bytes(), 2000);
  EXPECT_THAT(Entry(cost, 2).mesh_axes(), ElementsAre("model"));
  EXPECT_EQ(Entry(cost, 2).bytes(), 32);
  EXPECT_DOUBLE_EQ(cost.step_seconds(), 1600 + 20 + 0.32);
  EXPECT_DOUBLE_EQ(cost.exposed_seconds(), cost.step_seconds());
}

TEST(StepCostTest, ThePartBesideComputationIsHidden) {
  Steps steps(*Mesh::Create({{"data", 2}}));
  steps.Compute({.flops = 10}, Phase::kBackward)
      .Communicate(Request(CollectiveOperation::kAllReduce, 1000, {"data"}), {0})  // 40 s
      .Compute({.flops = 25}, Phase::kBackward);
  const StepCost cost = EstimateStep(steps.program(), SlowCluster());
  EXPECT_DOUBLE_EQ(cost.step_seconds(), 50);
  EXPECT_DOUBLE_EQ(cost.computation_seconds(), 35);
  EXPECT_DOUBLE_EQ(cost.exposed_seconds(), 15);
  EXPECT_DOUBLE_EQ(Entry(cost, 0).seconds(), 40);
  EXPECT_DOUBLE_EQ(Entry(cost, 0).exposed_seconds(), 15);
}

// The rank that sends the most is the same one in all calls.
TEST(StepCostTest, BytesAreThoseOfOneRank) {
  const auto small_sum = Request(CollectiveOperation::kAllReduce, 5000, {"data"});
  Steps steps(*Mesh::Create({{"data", 3}}));
  steps.Communicate(small_sum).Communicate(
      Request(CollectiveOperation::kReduceScatter, 3000, {"data"}));
  const StepCost cost = EstimateStep(steps.program(), SlowCluster());
  // Parts of 1728 = 27 * 64 elements: rank 0 sends two of others and 2 * 1728 of its own.
  EXPECT_EQ(Entry(cost, 0).bytes(), 4 * (5000 - 1728 + 2 * 1728));
  EXPECT_EQ(Entry(cost, 1).bytes(), 4 * 2000);
}

TEST(StepCostTest, HostsDecideWhatIsSent) {
  Steps steps(*Mesh::Create({{"data", 4}}));
  steps.Communicate(Request(CollectiveOperation::kAllGather, 40000, {"data"}));
  const StepCost one = EstimateStep(steps.program(), SlowCluster());
  EXPECT_EQ(Entry(one, 0).bytes(), 3 * 40000);
  EXPECT_DOUBLE_EQ(one.step_seconds(), 1200);
  Cluster cluster = SlowCluster();
  cluster.set_ranks_per_host(2);
  const StepCost two = EstimateStep(steps.program(), cluster);
  EXPECT_EQ(Entry(two, 0).bytes(), 3 * 40000);  // 40000 between hosts, 2 * 40000 within
  EXPECT_DOUBLE_EQ(two.step_seconds(), 4000 + 800);
}

TEST(StepCostTest, MessagesBetweenTwoRanks) {
  CollectiveRequest send = Request(CollectiveOperation::kSend, 100, {"data"});
  send.shift = 1;
  CollectiveRequest receive = send;
  receive.operation = CollectiveOperation::kReceive;
  Steps steps(*Mesh::Create({{"data", 4}}));
  steps.Communicate(send).Communicate(receive);
  const StepCost cost = EstimateStep(steps.program(), SlowCluster());
  EXPECT_EQ(Entry(cost, 0).operation(), "send");
  EXPECT_EQ(Entry(cost, 0).bytes(), 400);
  EXPECT_EQ(Entry(cost, 1).bytes(), 0);
}

TEST(StepCostTest, MemoryIsThePlanners) {
  Steps steps{Mesh()};
  steps.Compute({}, Phase::kForward).Compute({}, Phase::kForward);
  Program& program = steps.program();
  Buffer parameter;
  parameter.bytes = 640;
  parameter.category = Category::kParameters;
  parameter.first = -1;
  parameter.last = 2;
  Buffer activation;
  activation.bytes = 64;
  activation.first = 0;
  activation.last = 1;
  program.buffers = {parameter, activation};
  program.arenas[MemorySpace::kDevice] = 700;
  program.arenas[MemorySpace::kShared] = 100;
  const StepCost cost = EstimateStep(program, SlowCluster());
  EXPECT_EQ(cost.peak_bytes(), 800);
  ASSERT_EQ(cost.memory_size(), 2);
  EXPECT_EQ(cost.memory(0).category(), "parameters");
  EXPECT_EQ(cost.memory(0).bytes(), 640);
  EXPECT_EQ(cost.memory(1).category(), "activations");
  EXPECT_EQ(cost.memory(1).bytes(), 64);
}

TEST(StepCostTest, CopiesToAndFromTheHost) {
  Steps steps{Mesh()};
  steps.Compute({.bytes = 100}, Phase::kForward);
  Program& program = steps.program();
  program.buffers.resize(2);
  program.buffers[BufferId(1)].space = MemorySpace::kOffloadHost;
  program.buffers[BufferId(1)].bytes = 640;
  program.buffers[BufferId(1)].category = Category::kOptimizerState;
  for (const BufferId buffer : program.buffers.ids()) {
    ProgramValue& value = program.values.emplace_back();
    value.type = {DType::kF32, {10}};
    value.buffer = buffer;
  }
  for (const auto& [from, to] : {std::pair(1, 0), std::pair(0, 1), std::pair(1, 0)}) {
    Instruction& copy = program.instructions.emplace_back();
    copy.kind = InstructionKind::kCopy;
    copy.inputs = {ProgramValueId(from)};
    copy.outputs = {ProgramValueId(to)};
  }
  Cluster cluster = SlowCluster();
  cluster.set_host_bytes_per_second(20);
  const StepCost cost = EstimateStep(program, cluster);
  ASSERT_EQ(cost.host_copies_size(), 2);
  EXPECT_FALSE(cost.host_copies(0).to_host());
  EXPECT_EQ(cost.host_copies(0).calls(), 2);
  EXPECT_EQ(cost.host_copies(0).bytes(), 80);
  EXPECT_TRUE(cost.host_copies(1).to_host());
  EXPECT_EQ(cost.host_copies(1).calls(), 1);
  EXPECT_EQ(cost.host_copies(1).bytes(), 40);
  ASSERT_EQ(cost.times_size(), 2);
  EXPECT_EQ(cost.times(1).category(), "host copies");
  EXPECT_DOUBLE_EQ(cost.times(1).seconds(), 6);
  ASSERT_EQ(cost.memory_size(), 1);
  EXPECT_TRUE(cost.memory(0).on_host());
  EXPECT_EQ(cost.memory(0).bytes(), 640);
}

TEST(StepCostTest, CostOfMeasuredTimes) {
  Steps steps(*Mesh::Create({{"data", 2}}));
  steps.Compute({}, Phase::kForward)
      .Communicate(Request(CollectiveOperation::kAllGather, 100, {"data"}))
      .Compute({}, Phase::kUpdate);
  const Table<InstructionId, TimeSpan> times = {{0, 1}, {1, 4}, {3, 5}};
  const StepCost cost = CostOfTimes(steps.program(), times);
  EXPECT_EQ(cost.step_seconds(), 5);
  EXPECT_EQ(cost.computation_seconds(), 3);
  EXPECT_EQ(cost.exposed_seconds(), 2);
  ASSERT_EQ(cost.collectives_size(), 1);
  EXPECT_EQ(Entry(cost, 0).calls(), 1);
  EXPECT_EQ(Entry(cost, 0).bytes(), 0);
  EXPECT_EQ(Entry(cost, 0).seconds(), 3);
  EXPECT_EQ(Entry(cost, 0).exposed_seconds(), 2);
}

}  // namespace
}  // namespace tessera
