#include "core/train/measure/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/compile/compile.h"
#include "core/ids/table.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"

namespace tessera {
namespace {

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Graph graph("train");
    const Tensor x = graph.Input("x", {DType::kF32, {2, 3}});
    const Tensor w = graph.Input("w", {DType::kF32, {4, 3}});
    graph.SetOutput("y", Exp(MatMul(x, w, false, true)));
    auto run = CompileRun({graph}, Plan(), *backend_);
    ASSERT_TRUE(run.ok()) << run.status();
    run_ = *std::move(run);
    ASSERT_EQ(program().instructions.size(), 2);
  }

  const Program& program() const { return run_.programs[0]; }

  // Adds a stream and a request to the Program, and returns an instruction that all-reduces there.
  static Instruction AddAllReduce(Program& program) {
    program.streams.push_back("gradients");
    program.collectives.push_back(
        {CollectiveOperation::kAllReduce, 8, DType::kF64, Reduction::kSum, {"data"}});
    Instruction all_reduce = program.instructions[InstructionId(0)];
    all_reduce.kind = InstructionKind::kCollective;
    all_reduce.stream = StreamId(1);
    all_reduce.collective = CollectiveId(0);
    return all_reduce;
  }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  CompiledRun run_;
};

TEST_F(TraceTest, HasASliceForEachInstruction) {
  const Table<InstructionId, InstructionTime> ran = {{1'000'000, 3'000'000},
                                                     {4'000'000, 4'500'000}};
  const StepTimes times = {500'000, 5'500'000, ran};
  const nlohmann::json trace = nlohmann::json::parse(TraceToJson(program(), times));
  std::vector<nlohmann::json> slices, outer, counters;
  bool named = false;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") (event["cat"] == "phase" ? outer : slices).push_back(event);
    if (event["ph"] == "C") counters.push_back(event);
    named = named || (event["ph"] == "M" && event["args"]["name"] == "compute");
  }
  EXPECT_TRUE(named);
  ASSERT_EQ(slices.size(), 2);
  EXPECT_EQ(slices[0]["name"], "matmul");
  EXPECT_EQ(slices[0]["ts"], 500);
  EXPECT_EQ(slices[0]["dur"], 2000);
  EXPECT_EQ(slices[0]["args"]["op"], "matmul");
  EXPECT_EQ(slices[0]["args"]["inputs"], (std::vector<std::string>{"f64[2, 3]", "f64[4, 3]"}));
  EXPECT_EQ(slices[0]["args"]["outputs"], (std::vector<std::string>{"f64[2, 4]"}));
  EXPECT_EQ(slices[0]["args"]["flops"], 2 * 2 * 3 * 4);
  EXPECT_DOUBLE_EQ(slices[0]["args"]["GFLOP/s"], 48.0 / 2'000'000);
  EXPECT_EQ(slices[0]["args"]["kernel"], "loops");
  EXPECT_GT(slices[0]["args"]["bytes"], 0);
  EXPECT_EQ(slices[1]["name"], "exp");
  ASSERT_EQ(outer.size(), 2);
  EXPECT_EQ(outer[0]["name"], "step");
  EXPECT_EQ(outer[0]["ts"], 0);
  EXPECT_EQ(outer[0]["dur"], 5000);
  EXPECT_EQ(outer[1]["name"], "forward");
  EXPECT_EQ(outer[1]["ts"], 500);
  EXPECT_EQ(outer[1]["dur"], 3500);
  ASSERT_EQ(counters.size(), 2);
  EXPECT_GT(counters[0]["args"]["bytes"], 0);
  EXPECT_LE(counters[0]["args"]["bytes"], run_.arena_bytes());

  EXPECT_DOUBLE_EQ(ShareOutsideKernels(program(), times), 0.5);
}

TEST_F(TraceTest, PhasesNest) {
  Program program = this->program();
  const Instruction one = program.instructions[InstructionId(0)];
  program.instructions.assign(6, one);
  program.instructions[InstructionId(1)].phase = Phase::kBackward;
  program.instructions[InstructionId(2)].phase = Phase::kForward;
  program.instructions[InstructionId(2)].recomputed = true;
  program.instructions[InstructionId(3)].phase = Phase::kForward;  // of the second micro-batch
  program.instructions[InstructionId(4)].phase = Phase::kBackward;
  program.instructions[InstructionId(5)].phase = Phase::kUpdate;
  Table<InstructionId, InstructionTime> ran;
  for (int64_t i = 0; i < 6; ++i) ran.push_back({1000 * i, 1000 * i + 900});
  const nlohmann::json trace = nlohmann::json::parse(TraceToJson(program, {0, 6000, ran}));
  std::vector<std::string> names;
  std::vector<int64_t> ends;  // in nanoseconds
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] != "phase") continue;
    names.push_back(event["name"]);
    ends.push_back(std::llround(1e3 * (event["ts"].get<double>() + event["dur"].get<double>())));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"step", "forward", "backward", "forward", "backward",
                                             "update"}));
  EXPECT_EQ(ends, (std::vector<int64_t>{6000, 900, 2900, 3900, 4900, 5900}));
}

// Collectives overlap the kernels of their phase, and those of the next one.
TEST_F(TraceTest, CommunicationIsNoPartOfPhases) {
  Program program = this->program();
  Instruction all_reduce = AddAllReduce(program);
  all_reduce.phase = Phase::kBackward;
  Instruction update = program.instructions[InstructionId(1)];
  update.phase = Phase::kUpdate;
  program.instructions = {program.instructions[InstructionId(0)], all_reduce, update};
  const Table<InstructionId, InstructionTime> ran = {{0, 2000}, {1000, 7000}, {6000, 8000}};
  const StepTimes times = {0, 8000, ran};
  EXPECT_DOUBLE_EQ(ShareOutsideKernels(program, times), 0.5);
  std::vector<std::string> phases;
  const nlohmann::json trace = nlohmann::json::parse(TraceToJson(program, times));
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "phase") phases.push_back(event["name"]);
    if (event["ph"] == "X" && event["cat"] == "all-reduce") {
      EXPECT_EQ(event["tid"], 2);
    }
  }
  EXPECT_EQ(phases, (std::vector<std::string>{"step", "forward", "update"}));
}

// Slices of one thread that overlap without nesting are not shown where they were.
TEST_F(TraceTest, CollectivesThatOverlapHaveThreadsOfTheirOwn) {
  Program program = this->program();
  const Instruction all_reduce = AddAllReduce(program);
  program.instructions = {program.instructions[InstructionId(0)], all_reduce, all_reduce,
                          all_reduce};
  const Table<InstructionId, InstructionTime> ran = {
      {0, 1000}, {1000, 5000}, {3000, 7000}, {5000, 8000}};
  const nlohmann::json trace = nlohmann::json::parse(TraceToJson(program, {0, 8000, ran}));
  std::vector<int> threads;
  std::vector<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") names.push_back(event["args"]["name"]);
    if (event["ph"] == "X" && event["cat"] == "all-reduce") threads.push_back(event["tid"]);
  }
  EXPECT_EQ(threads, (std::vector<int>{2, 3, 2}));
  EXPECT_EQ(names, (std::vector<std::string>{"compute", "gradients", "gradients 2"}));
}

TEST_F(TraceTest, EachRankIsAProcess) {
  const Table<InstructionId, InstructionTime> ran = {{1'000'000, 3'000'000},
                                                     {4'000'000, 4'500'000}};
  std::vector<std::string> events;
  for (const int rank : {0, 1}) {
    const StepTimes times = {500'000, 5'500'000, ran};
    events.push_back(TraceEvents(program(), times, {rank, 2, 100'000 - 1'000'000 * rank}));
  }
  std::vector<std::string> names;
  std::vector<double> begins;
  const nlohmann::json trace = nlohmann::json::parse(JoinTraces(events));
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
    if (event["name"] != "matmul") continue;
    begins.push_back(event["ts"]);
    EXPECT_EQ(event["pid"], static_cast<int>(begins.size()));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"rank 0: tessera train", "rank 1: tessera train"}));
  EXPECT_EQ(begins, (std::vector<double>{900, 1900}));
}

// Rank 0 of 2: the predicted step stands below the measured one, and begins with it.
TEST_F(TraceTest, ThePredictedStepIsAProcessOfItsOwn) {
  const Table<InstructionId, InstructionTime> ran = {{1'000, 2'000}, {2'000, 3'000}};
  const StepTimes times = {1'000, 3'000, ran};
  const TracedRank rank = {.rank = 0, .size = 2, .zero_ns = 500};
  const std::string text =
      JoinTraces({TraceEvents(program(), times, rank),
                  PredictedTraceEvents(program(), {{0, 2e-6}, {2e-6, 5e-6}}, times, rank)});
  std::vector<std::string> names;
  std::vector<int> order;
  double end = 0;
  const nlohmann::json trace = nlohmann::json::parse(text);
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
    if (event["name"] == "process_sort_index") order.push_back(event["args"]["sort_index"]);
    if (event["ph"] != "X" || event["pid"] != 3) continue;
    EXPECT_GE(event["ts"], 0.5);
    end =
        std::max<double>(end, static_cast<double>(event["ts"]) + static_cast<double>(event["dur"]));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"rank 0: tessera train",
                                             "rank 0: tessera train, predicted"}));
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
  EXPECT_DOUBLE_EQ(end, 5.5);
}

}  // namespace
}  // namespace tessera
