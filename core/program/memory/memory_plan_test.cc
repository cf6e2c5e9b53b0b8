#include "core/program/memory/memory_plan.h"

#include "gtest/gtest.h"

namespace tessera {
namespace {

int64_t BytesAtPeak(const MemoryReport& report, Category category) {
  return report.bytes_at_peak[static_cast<size_t>(category)];
}

// Regression: a buffer that a gradient took over counted as gradients even while it held an
// activation.
TEST(ReportMemory, CountsAReusedBufferAsWhatItHoldsAtThePeak) {
  Program program;
  program.instructions.resize(4);
  Buffer reused;
  reused.bytes = 64;
  reused.first = 0;
  reused.last = 3;
  reused.changes = {{2, Category::kGradients}};
  Buffer other;
  other.bytes = 128;
  for (const int32_t peak : {1, 2}) {
    other.first = other.last = peak;
    program.buffers = {reused, other};
    const MemoryReport report = ReportMemory(program);
    EXPECT_EQ(report.peak_instruction, peak);
    EXPECT_EQ(BytesAtPeak(report, Category::kActivations), peak == 1 ? 192 : 128);
    EXPECT_EQ(BytesAtPeak(report, Category::kGradients), peak == 1 ? 0 : 64);
    EXPECT_EQ(LiveBytesByTime(program)[peak + 1], report.bytes_at_peak);
  }
}

TEST(LiveBytesByTime, FollowsLiveRangesAndChanges) {
  Program program;
  program.instructions.resize(2);
  Buffer state;
  state.bytes = 100;  // aligned: 128
  state.category = Category::kParameters;
  state.first = -1;
  state.last = 2;
  Buffer reused;
  reused.bytes = 64;
  reused.first = 0;
  reused.last = 1;
  reused.changes = {{1, Category::kGradients}};
  Buffer offloaded = state;
  offloaded.space = MemorySpace::kOffloadHost;
  program.buffers = {state, reused, offloaded};
  const auto live = LiveBytesByTime(program);
  ASSERT_EQ(live.size(), 4);
  const auto at = [&live](int32_t time, Category category) {
    return live[time + 1][static_cast<size_t>(category)];
  };
  for (int32_t time = -1; time <= 2; ++time) {
    EXPECT_EQ(at(time, Category::kParameters), 128) << time;
    EXPECT_EQ(at(time, Category::kActivations), time == 0 ? 64 : 0) << time;
    EXPECT_EQ(at(time, Category::kGradients), time == 1 ? 64 : 0) << time;
  }
  EXPECT_EQ(LiveBytesByTime(program, MemorySide::kHost)[1][0], 128);
}

Program OneState(absl::string_view name, int64_t bytes, MemorySpace space) {
  Program program;
  program.name = std::string(name);
  Buffer state;
  state.path = "w";
  state.bytes = bytes;
  state.space = space;
  state.state = true;
  state.first = -1;
  Buffer other;
  other.path = "h";
  other.bytes = 128;
  program.buffers = {state, other};
  return program;
}

TEST(PlanMemory, AStateThatOneProgramSharesLiesInSharedMemoryInAll) {
  Program initialise = OneState("initialise", 100, MemorySpace::kDevice);
  Program train = OneState("train", 100, MemorySpace::kShared);
  StateLayout states;
  ASSERT_TRUE(states.Add(initialise).ok());
  EXPECT_EQ(states.AddressOf("w"), (ArenaAddress{MemorySpace::kDevice, 0}));
  ASSERT_TRUE(states.Add(train).ok());
  for (Program* program : {&initialise, &train}) {
    PlanMemory(states, *program);
    EXPECT_EQ(program->buffers[BufferId(0)].space, MemorySpace::kShared);
    EXPECT_EQ(program->arenas[MemorySpace::kShared], 128);
    EXPECT_EQ(program->arenas[MemorySpace::kDevice], 128);
    EXPECT_EQ(program->buffers[BufferId(1)].offset, 0);  // each space has its own arena
  }
}

// Regression: two buffers that are live at different times took separate memory if a collective
// touched only one of them.
TEST(PlanMemory, AProgramThatCommunicatesHasOneArena) {
  Program program = OneState("train", 64, MemorySpace::kDevice);
  program.buffers[BufferId(1)].first = program.buffers[BufferId(1)].last = 0;
  Buffer gathered = program.buffers[BufferId(1)];
  gathered.space = MemorySpace::kShared;
  gathered.first = gathered.last = 1;
  program.buffers.push_back(gathered);
  program.instructions.resize(2);
  program.instructions[InstructionId(1)].collective = CollectiveId(0);
  program.instructions[InstructionId(1)].kind = InstructionKind::kCollective;
  Program evaluate = OneState("evaluate", 64, MemorySpace::kDevice);
  StateLayout states;
  ASSERT_TRUE(states.Add(program).ok());
  ASSERT_TRUE(states.Add(evaluate).ok());
  for (Program* each : {&program, &evaluate}) {
    PlanMemory(states, *each);
    EXPECT_EQ(each->arenas[MemorySpace::kShared], 128);
    EXPECT_EQ(each->arenas[MemorySpace::kDevice], 64);  // the state
  }
}

TEST(PlanMemory, AStateOfTwoSizesIsRefused) {
  StateLayout states;
  ASSERT_TRUE(states.Add(OneState("train", 100, MemorySpace::kDevice)).ok());
  EXPECT_EQ(states.Add(OneState("evaluate", 96, MemorySpace::kDevice)).message(),
            "state 'w' has 96 bytes in program 'evaluate' and 100 in another");
}

}  // namespace
}  // namespace tessera
