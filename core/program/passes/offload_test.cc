// Tests the pass on small Programs, before and after, and the verifier's errors for faults in its
// result.
#include "core/program/passes/offload.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/program/stream_names.h"
#include "core/program/testing/test_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kElements = 16;
constexpr int64_t kBytes = kElements * 8;  // of a parameter

TensorType Vector() { return {DType::kF64, {kElements}}; }

// Returns a line "y = add(x, w) after z on stream" for each instruction.
std::string Lines(const Program& program) {
  const auto names = [&](absl::Span<const ProgramValueId> ids) {
    return absl::StrJoin(ids, ", ", [&](std::string* out, ProgramValueId id) {
      absl::StrAppend(out, program.value(id).path);
    });
  };
  std::string text;
  for (const Instruction& instruction : program.instructions) {
    absl::StrAppend(&text, names(instruction.outputs), " = ", program.OperationOf(instruction), "(",
                    names(instruction.inputs), ")");
    if (!instruction.after.empty()) absl::StrAppend(&text, " after ", names(instruction.after));
    if (instruction.stream != kFirstStream) {
      absl::StrAppend(&text, " on ", program.streams[instruction.stream]);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

class OffloadTest : public ::testing::Test {
 protected:
  // Records parameters w0, w1, ..., which are read one after the other and then updated in the same
  // order.
  TestProgram Parameters(int count) {
    Tensor y = graph_.Input("x", Vector());
    std::vector<Tensor> parameters;
    for (int i = 0; i < count; ++i) {
      parameters.push_back(graph_.DeclareState(absl::StrCat("w", i), Vector(), Role::kParameter,
                                               Initializer::Constant(1)));
    }
    for (const Tensor& parameter : parameters) y = Multiply(y, parameter);
    graph_.set_phase(Phase::kUpdate);
    for (int i = 0; i < count; ++i) graph_.SetState(absl::StrCat("w", i), Add(parameters[i], y));
    return TestProgram(graph_, *backend_);
  }

  void RunPass(const Offload& offload, TestProgram& made) {
    KernelChooser chooser(backend_.get(), KernelChoices());
    const absl::Status status = OffloadToHost(offload, chooser, made.program);
    EXPECT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  Graph graph_{"test"};
};

TEST_F(OffloadTest, ParametersAreCopiedBeforeUsesAndBackAfterUpdates) {
  TestProgram made = Parameters(4);
  EXPECT_EQ(Lines(made.program),
            "multiply = multiply(x, w0)\n"
            "multiply_1 = multiply(multiply, w1)\n"
            "multiply_2 = multiply(multiply_1, w2)\n"
            "multiply_3 = multiply(multiply_2, w3)\n"
            "add = add(w0, multiply_3)\n"
            "add_1 = add(w1, multiply_3)\n"
            "add_2 = add(w2, multiply_3)\n"
            "add_3 = add(w3, multiply_3)\n");
  RunPass({.parameters = true, .distance = 1}, made);
  EXPECT_EQ(Lines(made.program),
            "w0.staged = copy-bytes(w0) on from_host\n"
            "w1.staged = copy-bytes(w1) on from_host\n"
            "multiply = multiply(x, w0.staged)\n"
            "w2.staged = copy-bytes(w2) on from_host\n"
            "multiply_1 = multiply(multiply, w1.staged)\n"
            "w3.staged = copy-bytes(w3) on from_host\n"
            "multiply_2 = multiply(multiply_1, w2.staged)\n"
            "w0.staged = copy-bytes(w0) on from_host\n"
            "multiply_3 = multiply(multiply_2, w3.staged)\n"
            "w1.staged = copy-bytes(w1) on from_host\n"
            "add = add(w0.staged, multiply_3)\n"
            "add.offloaded = copy-bytes(add) on to_host\n"
            "w2.staged = copy-bytes(w2) on from_host\n"
            "add_1 = add(w1.staged, multiply_3)\n"
            "add_1.offloaded = copy-bytes(add_1) on to_host\n"
            "w3.staged = copy-bytes(w3) on from_host\n"
            "add_2 = add(w2.staged, multiply_3) after add.offloaded\n"
            "add_2.offloaded = copy-bytes(add_2) on to_host\n"
            "add_3 = add(w3.staged, multiply_3) after add_1.offloaded\n"
            "add_3.offloaded = copy-bytes(add_3) on to_host\n");
  const absl::Status finished = made.Finish();
  ASSERT_TRUE(finished.ok()) << finished;
  // Parameters are on the host, at the start of its arena. They are updated in their copies on the
  // device.
  const Program& program = made.program;
  EXPECT_EQ(program.arenas[MemorySpace::kOffloadHost], 4 * kBytes);
  for (const ProgramState& state : program.states) {
    const ArenaAddress address = program.AddressOf(state.input);
    EXPECT_EQ(address.space, MemorySpace::kOffloadHost);
    EXPECT_EQ(program.AddressOf(state.updated), address);
  }
  EXPECT_EQ(program.value(made.Value("add_1")).buffer,
            program.value(program.instructions[made.Find("add_1")].inputs[0]).buffer);
}

// If every parameter is used again within 4 uses, the next copy would begin when the previous one
// is dropped.
TEST_F(OffloadTest, WhatIsUsedAgainSoonStays) {
  TestProgram made = Parameters(4);
  RunPass({.parameters = true, .distance = 3}, made);
  int copies = 0;
  for (const Instruction& instruction : made.program.instructions) {
    if (made.program.streams[instruction.stream] == kFromHostStream) ++copies;
  }
  EXPECT_EQ(copies, 4);
  const absl::Status finished = made.Finish();
  EXPECT_TRUE(finished.ok()) << finished;
}

TEST_F(OffloadTest, DeviceMemoryHoldsAFewParameters) {
  // x, y, and the parameters of a use, of the previous use, and of the next one.
  for (const int count : {10, 20}) {
    graph_ = Graph("test");
    TestProgram made = Parameters(count);
    RunPass({.parameters = true, .distance = 1}, made);
    const absl::Status finished = made.Finish();
    ASSERT_TRUE(finished.ok()) << finished;
    EXPECT_EQ(made.program.arenas[MemorySpace::kOffloadHost], count * kBytes);
    EXPECT_EQ(made.program.arenas[MemorySpace::kDevice], 5 * kBytes) << count;
  }
}

TEST_F(OffloadTest, OtherRolesAndSingleElementsStayOnTheDevice) {
  graph_.DeclareState("step", {DType::kF64, {}}, Role::kOptimizerState, Initializer::Constant(0));
  graph_.SetState("step", Add(graph_.tensor(graph_.FindState("step")->input),
                              graph_.Input("x", {DType::kF64, {}})));
  graph_.DeclareState("w", Vector(), Role::kParameter, Initializer::Constant(0));
  graph_.SetOutput("y", Exp(graph_.tensor(graph_.FindState("w")->input)));
  TestProgram made(graph_, *backend_);
  const std::string before = Lines(made.program);
  RunPass({.gradients = true, .optimizer_state = true}, made);
  EXPECT_EQ(Lines(made.program), before);
  EXPECT_EQ(made.program.streams.size(), 1u);
}

TEST_F(OffloadTest, AStateThatIsOnlyWrittenIsCopiedToTheHost) {
  for (const char* path : {"w", "other"}) {
    graph_.DeclareState(path, Vector(), Role::kParameter, Initializer::Constant(1));
  }
  const Tensor x = graph_.Input("x", Vector());
  graph_.SetState("w", Exp(x));
  graph_.SetState("other", Square(x));
  TestProgram made(graph_, *backend_);
  for (ProgramState& state : made.program.states) state.input = kNone;
  RunPass({.parameters = true}, made);
  EXPECT_EQ(Lines(made.program),
            "exp = exp(x)\n"
            "exp.offloaded = copy-bytes(exp) on to_host\n"
            "square = square(x)\n"
            "square.offloaded = copy-bytes(square) on to_host\n");
  const absl::Status finished = made.Finish();
  EXPECT_TRUE(finished.ok()) << finished;
}

// Six gradients. Each is reduced as soon as it is computed, and read at the end.
class OffloadGradientsTest : public OffloadTest {
 protected:
  TestProgram ReduceSixGradients() {
    Tensor x = graph_.Input("x", Vector());
    const Tensor gradients[] = {Exp(x),  Square(x), Negate(x),
                                Sqrt(x), Log(x),    Gelu(x, GeluKind::kTanh)};
    Tensor sum = gradients[0];
    for (int i = 1; i < 6; ++i) sum = Add(sum, gradients[i]);
    graph_.SetOutput("y", sum);
    TestProgram made(graph_, *backend_);
    InstructionId position(1);
    for (const char* path : {"exp", "square", "negate", "sqrt", "log", "gelu"}) {
      const ProgramValueId reduced = made.AddValue(absl::StrCat(path, ".reduced"), Vector());
      const ProgramValueId gradient = made.Value(path);
      for (const ProgramValueId id : {gradient, reduced}) {
        made.program.values[id].gradient_of = made.Value("x");
      }
      made.InsertCollective(position,
                            {.operation = CollectiveOperation::kAllReduce,
                             .elements = kElements,
                             .dtype = DType::kF64,
                             .mesh_axes = {"data"}},
                            gradient, reduced, kGradientStream);
      made.ReplaceReads(gradient, reduced, position + 1);
      position += 2;
    }
    return made;
  }
};

// The copy of a gradient is issued right before the next collective, so that no copy has to wait
// for its own collective immediately.
TEST_F(OffloadGradientsTest, ReducedGradientsWaitOnTheHost) {
  TestProgram made = ReduceSixGradients();
  RunPass({.gradients = true, .distance = 1}, made);
  EXPECT_EQ(Lines(made.program),
            "exp = exp(x)\n"
            "exp.reduced = all-reduce(exp) on gradients\n"
            "square = square(x)\n"
            "exp.reduced.offloaded = copy-bytes(exp.reduced) on to_host\n"
            "square.reduced = all-reduce(square) on gradients\n"
            "negate = negate(x)\n"
            "square.reduced.offloaded = copy-bytes(square.reduced) on to_host\n"
            "negate.reduced = all-reduce(negate) on gradients\n"
            "sqrt = sqrt(x) after exp.reduced.offloaded\n"
            "negate.reduced.offloaded = copy-bytes(negate.reduced) on to_host\n"
            "sqrt.reduced = all-reduce(sqrt) on gradients\n"
            "log = log(x) after square.reduced.offloaded\n"
            "sqrt.reduced.offloaded = copy-bytes(sqrt.reduced) on to_host\n"
            "log.reduced = all-reduce(log) on gradients\n"
            "gelu = gelu(x) after negate.reduced.offloaded\n"
            "exp.reduced.staged = copy-bytes(exp.reduced.offloaded) on from_host\n"
            "square.reduced.staged = copy-bytes(square.reduced.offloaded) on from_host\n"
            "log.reduced.offloaded = copy-bytes(log.reduced) on to_host\n"
            "gelu.reduced = all-reduce(gelu) on gradients\n"
            "negate.reduced.staged = copy-bytes(negate.reduced.offloaded) on from_host\n"
            "gelu.reduced.offloaded = copy-bytes(gelu.reduced) on to_host\n"
            "add = add(exp.reduced.staged, square.reduced.staged) after sqrt.reduced.offloaded, "
            "log.reduced.offloaded\n"
            "sqrt.reduced.staged = copy-bytes(sqrt.reduced.offloaded) on from_host\n"
            "add_1 = add(add, negate.reduced.staged) after gelu.reduced.offloaded\n"
            "log.reduced.staged = copy-bytes(log.reduced.offloaded) on from_host\n"
            "add_2 = add(add_1, sqrt.reduced.staged)\n"
            "gelu.reduced.staged = copy-bytes(gelu.reduced.offloaded) on from_host\n"
            "add_3 = add(add_2, log.reduced.staged)\n"
            "add_4 = add(add_3, gelu.reduced.staged)\n");
  const absl::Status finished = made.Finish();
  EXPECT_TRUE(finished.ok()) << finished;
}

class OffloadFaultTest : public OffloadTest {
 protected:
  void SetUp() override {
    RunPass({.parameters = true}, made_);
    const absl::Status finished = made_.Finish();
    ASSERT_TRUE(finished.ok()) << finished;
  }
  std::string Error() const { return std::string(VerifyProgram(made_.program).message()); }
  Instruction& At(const char* path) { return made_.program.instructions[made_.Find(path)]; }

  TestProgram made_ = Parameters(4);
};

TEST_F(OffloadFaultTest, ACopyToTheHostThatDoesNotWaitForTheUpdate) {
  At("add.offloaded").waits.clear();
  EXPECT_THAT(Error(), HasSubstr("(add.offloaded, on to_host): reads add without a wait for "
                                 "instruction 10 (add, on compute)"));
}

TEST_F(OffloadFaultTest, AUseThatDoesNotWaitForItsCopy) {
  At("multiply").waits.clear();
  EXPECT_THAT(Error(), HasSubstr("(multiply, on compute): reads w0.staged without a wait for "
                                 "instruction 0 (w0.staged, on from_host)"));
}

TEST_F(OffloadFaultTest, AKernelThatReadsTheHost) {
  At("multiply").inputs[1] = made_.Value("w0");
  EXPECT_THAT(Error(), HasSubstr("multiply: cannot work on w0 in offload host memory"));
}

TEST_F(OffloadFaultTest, AnUpdateThatIsNotCopiedBack) {
  made_.program.states[ProgramStateId(0)].updated = made_.Value("add");
  EXPECT_THAT(Error(),
              HasSubstr("state w0: touches buffer #9 (w0.staged), which is live in [7, 15]"));
}

TEST_F(OffloadFaultTest, AStateThatOnlyOneProgramOffloads) {
  StateLayout states;
  ASSERT_TRUE(states.Add(made_.program).ok());
  Program other = made_.program;
  other.name = "other";
  for (Buffer& buffer : other.buffers) buffer.space = MemorySpace::kDevice;
  EXPECT_EQ(std::string(states.Add(other).message()),
            "state 'w0' lies in device memory in program 'other' and in offload host memory in "
            "another");
}

}  // namespace
}  // namespace tessera
