// Lowering, buffers and the verifier, on Graphs small enough to read.
#include "core/compile/compile.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/program/memory/assign_buffers.h"
#include "core/program/memory/memory_plan.h"
#include "core/program/testing/lower_on_one_rank.h"
#include "core/program/verify/verify.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

class LowerTest : public ::testing::Test {
 protected:
  Program Compile(const Graph& graph) {
    EXPECT_TRUE(graph.status().ok()) << graph.status();
    auto run = CompileRun({graph}, Plan(), *backend_);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->programs[0] : Program();
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  Graph graph_{"test"};
};

TEST_F(LowerTest, ViewsAreValuesAndNoInstructions) {
  Tensor x = graph_.Input("x", F32({2, 6}));
  graph_.SetOutput("y", Exp(Slice(Reshape(x, {2, 3, 2}), 1, 1, 1)));
  const Program program = Compile(graph_);
  ASSERT_EQ(program.instructions.size(), 1u) << program.ToString();
  const ProgramValue& read = program.value(program.instructions[InstructionId(0)].inputs[0]);
  EXPECT_EQ(read.within, program.inputs[0].value);
  EXPECT_EQ(read.offset, 2 * 8);
  EXPECT_EQ(read.strides, Strides({6, 2, 1}));
}

TEST_F(LowerTest, AViewThatStridesCannotSayIsCopied) {
  Tensor x = graph_.Input("x", F32({2, 3}));
  graph_.SetOutput("y", Exp(Reshape(Transpose(x, {1, 0}), {6})));
  const Program program = Compile(graph_);
  ASSERT_EQ(program.instructions.size(), 2u) << program.ToString();
  EXPECT_EQ(program.KernelOf(program.instructions[InstructionId(0)]).request.op, "copy");
}

TEST_F(LowerTest, PartsOfAConcatAreComputedInPlace) {
  Tensor x = graph_.Input("x", F32({4, 3}));
  Tensor a = Exp(x), b = Square(x);
  graph_.SetOutput("y", Concat({a, b, x}, 1));
  const Program program = Compile(graph_);
  // Two parts are computed in place, and the input has to be copied.
  ASSERT_EQ(program.instructions.size(), 3u) << program.ToString();
  EXPECT_EQ(program.KernelOf(program.instructions[InstructionId(2)]).request.op, "copy");
  const ProgramValueId concat = program.outputs[0].value;
  for (const Instruction& instruction : program.instructions) {
    EXPECT_EQ(program.value(instruction.outputs[0]).within, concat);
    EXPECT_EQ(program.value(instruction.outputs[0]).strides, Strides({9, 1}));
  }
}

// Regression: dq, dk and dv were copied into the gradient of qkv.
TEST_F(LowerTest, AReshapedPartOfAConcatIsComputedInPlace) {
  Tensor x = graph_.Input("x", F32({2, 6}));
  Tensor a = Exp(Reshape(x, {2, 3, 2}));
  Tensor b = Square(x);
  graph_.SetOutput("y", Concat({Reshape(a, {2, 6}), b}, 1));
  const Program program = Compile(graph_);
  ASSERT_EQ(program.instructions.size(), 2u) << program.ToString();
  const ProgramValue& moved = program.value(program.instructions[InstructionId(0)].outputs[0]);
  EXPECT_EQ(moved.within, program.outputs[0].value);
  EXPECT_EQ(moved.strides, Strides({12, 2, 1}));
}

TEST_F(LowerTest, AReshapedPartThatIsAResultIsCopied) {
  Tensor x = graph_.Input("x", F32({2, 6}));
  Tensor a = Exp(Reshape(x, {2, 3, 2}));
  graph_.SetOutput("a", a);
  graph_.SetOutput("y", Concat({Reshape(a, {2, 6}), Square(x)}, 1));
  EXPECT_EQ(Compile(graph_).instructions.size(), 3u);
}

TEST_F(LowerTest, APartThatStridesCannotReshapeIsCopied) {
  Tensor x = graph_.Input("x", F32({2, 6}));
  Tensor a = Exp(Reshape(x, {12}));  // one run, which the concat would break in two
  graph_.SetOutput("y", Concat({Reshape(a, {2, 6}), Square(x)}, 1));
  EXPECT_EQ(Compile(graph_).instructions.size(), 3u);
}

TEST_F(LowerTest, APartThatIsInTwoConcatsIsCopiedIntoOne) {
  Tensor x = graph_.Input("x", F32({2}));
  Tensor a = Exp(x);
  graph_.SetOutput("y", Concat({a, x}, 0));
  graph_.SetOutput("z", Concat({x, a}, 0));
  const Program program = Compile(graph_);
  EXPECT_EQ(program.instructions.size(), 4u) << program.ToString();
}

TEST_F(LowerTest, WhatNobodyNeedsIsLeftOut) {
  Tensor x = graph_.Input("x", F32({2}));
  Exp(x);
  graph_.SetOutput("y", Square(x));
  EXPECT_EQ(Compile(graph_).instructions.size(), 1u);
}

TEST_F(LowerTest, ElementwiseOperatorsWorkInPlace) {
  Tensor x = graph_.Input("x", F32({100}));
  graph_.SetOutput("y", Exp(Square(Negate(x))));
  const Program program = Compile(graph_);
  // One buffer for the input, and one for everything else.
  EXPECT_EQ(program.buffers.size(), 2u) << program.ToString();
}

TEST_F(LowerTest, NothingIsWrittenOverAValueThatIsReadLater) {
  Tensor x = graph_.Input("x", F32({100}));
  Tensor a = Negate(x);
  Tensor b = Square(a);
  graph_.SetOutput("y", Multiply(a, b));
  const Program program = Compile(graph_);
  EXPECT_NE(program.value(program.instructions[InstructionId(0)].outputs[0]).buffer,
            program.value(program.instructions[InstructionId(1)].outputs[0]).buffer)
      << program.ToString();
}

TEST_F(LowerTest, AStateIsUpdatedInPlace) {
  Tensor p = graph_.Parameter("p", {3}, Initializer::Constant(0));
  graph_.SetState("p", Add(p, Square(p)));
  const Program program = Compile(graph_);
  const ProgramState& state = program.states[ProgramStateId(0)];
  EXPECT_EQ(program.AddressOf(state.input), program.AddressOf(state.updated));
  EXPECT_EQ(program.instructions.size(), 2u) << program.ToString();
}

TEST_F(LowerTest, AnOldStateThatIsStillReadIsKeptUntilThen) {
  Tensor p = graph_.Parameter("p", {3}, Initializer::Constant(0));
  Tensor next = Square(p);
  graph_.SetState("p", next);
  // Recorded after the new value, but reads the old one.
  graph_.SetOutput("y", Multiply(next, p));
  const Program program = Compile(graph_);
  EXPECT_EQ(program.AddressOf(program.states[ProgramStateId(0)].input),
            program.AddressOf(program.states[ProgramStateId(0)].updated));
  EXPECT_TRUE(VerifyProgram(program).ok());
}

TEST_F(LowerTest, TwoStatesMaySwap) {
  Tensor a = graph_.Parameter("a", {3}, Initializer::Constant(0));
  Tensor b = graph_.Parameter("b", {3}, Initializer::Constant(0));
  graph_.SetState("a", Negate(b));
  graph_.SetState("b", Negate(a));
  EXPECT_TRUE(VerifyProgram(Compile(graph_)).ok());
}

TEST_F(LowerTest, TextForm) {
  Tensor x = graph_.Input("x", F32({2, 3}), 0);
  Tensor w = graph_.Parameter("w", {4, 3}, Initializer::Constant(0));
  Tensor y = Linear(x, w);
  graph_.SetOutput("loss", ReduceSum(y, {0, 1}));
  EXPECT_EQ(Compile(graph_).ToString(), R"(program test threads=1 arena=256
input %x: f64[2, 3] in #1
parameter %w: f64[4, 3] in #0
[0] %matmul: f64[2, 4] in #2 = matmul(%x, %w) {transpose_a=false, transpose_b=true} kernel=loops
[1] %reduce_sum: f64[] in #3 = reduce_sum(%matmul) {axes=[0, 1], keep_dims=false} kernel=loops
output loss = %reduce_sum: f64[] in #3
buffer #0 w 96 bytes at 0, live [-1, 2], parameters
buffer #1 x 48 bytes at 128, live [-1, 0], inputs
buffer #2 matmul 64 bytes at 192, live [0, 1], activations
buffer #3 reduce_sum 8 bytes at 128, live [1, 2], activations
)");
}

// --- The verifier --------------------------------------------------------------------------------

class VerifyTest : public LowerTest {
 protected:
  void SetUp() override {
    Tensor x = graph_.Input("x", F32({100}));
    Tensor p = graph_.Parameter("p", {100}, Initializer::Constant(0));
    Tensor a = Multiply(x, p);
    Tensor b = Exp(a);
    Tensor c = Multiply(a, b);
    graph_.SetOutput("y", ReduceSum(c, {0}));
    graph_.SetState("p", Add(p, c));
    program_ = Compile(graph_);
    ASSERT_TRUE(VerifyProgram(program_).ok()) << VerifyProgram(program_);
  }

  std::string Error() { return VerifyProgram(program_).ToString(); }

  Program program_;
};

TEST_F(VerifyTest, FindsALiveRangeThatEndsTooSoon) {
  ProgramValueId a = program_.instructions[InstructionId(0)].outputs[0];
  program_.buffers[program_.value(a).buffer].last = 0;
  EXPECT_THAT(Error(), HasSubstr("which is live in [0, 0]"));
}

TEST_F(VerifyTest, FindsBuffersThatOverlap) {
  const BufferId a = program_.value(program_.instructions[InstructionId(0)].outputs[0]).buffer;
  const BufferId b = program_.value(program_.instructions[InstructionId(1)].outputs[0]).buffer;
  ASSERT_NE(a, b);
  program_.buffers[b].offset = program_.buffers[a].offset + 64;
  program_.arenas[MemorySpace::kDevice] += 1024;
  EXPECT_THAT(Error(), HasSubstr("shares bytes with"));
}

TEST_F(VerifyTest, FindsAReadOfAnOverwrittenValue) {
  const ProgramValueId a = program_.instructions[InstructionId(0)].outputs[0];
  const ProgramValueId b = program_.instructions[InstructionId(1)].outputs[0];
  program_.values[b].buffer = program_.values[a].buffer;  // exp in place, but a is read later
  EXPECT_THAT(Error(), HasSubstr("instruction 2 (multiply_1): reads multiply, but instruction 1 "
                                 "(exp) has left exp in its bytes"));
}

TEST_F(VerifyTest, FindsAReadOfTheOldStateAfterTheNew) {
  std::swap(program_.instructions[InstructionId(0)], program_.instructions.back());
  EXPECT_FALSE(VerifyProgram(program_).ok());
}

TEST_F(VerifyTest, FindsAWrongOrder) {
  std::swap(program_.instructions[InstructionId(0)], program_.instructions[InstructionId(1)]);
  EXPECT_FALSE(VerifyProgram(program_).ok());
}

TEST_F(VerifyTest, FindsAWrongShape) {
  program_.values[program_.instructions[InstructionId(1)].outputs[0]].type.shape = {99};
  EXPECT_THAT(Error(), HasSubstr("exp: output 0 is f64[99]; its kernel has f64[100]"));
  program_.kernels[program_.instructions[InstructionId(1)].kernel].request.outputs[0].shape = {99};
  EXPECT_THAT(Error(), HasSubstr("output 0 should be [100]"));
}

// Regression: an assembled value counted as written after its first part.
TEST_F(LowerTest, TheVerifierFindsAnAssembledValueThatLacksAPartOrHasOneTwice) {
  Tensor x = graph_.Input("x", F32({4, 3}));
  graph_.SetOutput("y", Square(Concat({Exp(x), Negate(x)}, 1)));
  const Program program = Compile(graph_);
  ASSERT_EQ(program.instructions.size(), 3u) << program.ToString();
  Program incomplete = program;
  std::swap(incomplete.instructions[InstructionId(1)], incomplete.instructions[InstructionId(2)]);
  EXPECT_THAT(VerifyProgram(incomplete).ToString(), HasSubstr("which was not written"));
  Program overlapping = program;
  overlapping.values[overlapping.instructions[InstructionId(1)].outputs[0]].offset = 0;
  EXPECT_THAT(VerifyProgram(overlapping).ToString(),
              HasSubstr("writes negate over elements of exp"));
}

TEST_F(VerifyTest, FindsAValueThatLeavesItsBuffer) {
  program_.values[program_.instructions[InstructionId(0)].inputs[0]].offset = 8;
  EXPECT_THAT(Error(), HasSubstr("x: does not lie in its buffer, #1"));
}

TEST_F(LowerTest, TheVerifierFindsAViewThatLeavesItsTensor) {
  Tensor x = graph_.Input("x", F32({4, 3}));
  graph_.SetOutput("y", Exp(Slice(x, 0, 3, 1)));
  Program program = Compile(graph_);
  const ProgramValueId view = program.instructions[InstructionId(0)].inputs[0];
  program.buffers[program.value(view).buffer].bytes += 64;
  program.arenas[MemorySpace::kDevice] += 64;
  program.values[view].offset += 8;
  EXPECT_THAT(VerifyProgram(program).ToString(), HasSubstr("reaches outside of x"));
}

// Regression: this was refused. The second half, which has no rows, begins at the end of a buffer
// of no bytes.
TEST_F(LowerTest, AViewOfNoElementsMayLieBehindItsBuffer) {
  Tensor x = graph_.Input("x", F32({0, 4}));
  graph_.SetOutput("y", Exp(Slice(x, 1, 2, 2)));
  EXPECT_TRUE(VerifyProgram(Compile(graph_)).ok());
}

// --- Several values in one buffer ----------------------------------------------------------------

// y = exp(x) * square(x). Both factors are in one buffer, as gradients are in their bucket.
class BucketTest : public LowerTest {
 protected:
  static constexpr int64_t kBytes = 100 * 8;

  void SetUp() override {
    Tensor x = graph_.Input("x", F32({100}));
    Tensor a = Exp(x), b = Square(x);
    graph_.SetOutput("y", Multiply(a, b));
    graph_.SetOutput("z", Negate(a));
    KernelChooser chooser(backend_.get(), {});
    auto program = LowerOnOneRank(graph_, chooser);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *std::move(program);
    a_ = program_.instructions[InstructionId(0)].outputs[0];
    b_ = program_.instructions[InstructionId(1)].outputs[0];
    const BufferId bucket = program_.value(a_).buffer;
    program_.buffers[bucket].bytes = 2 * kBytes;
    program_.values[b_].buffer = bucket;
    program_.values[b_].offset = kBytes;
    ASSERT_TRUE(AssignBuffers(chooser, program_).ok());
    PlanMemory(StateLayout(), program_);
  }

  std::string Error() { return VerifyProgram(program_).ToString(); }

  Program program_;
  ProgramValueId a_, b_;
};

TEST_F(BucketTest, TwoValuesLiveInOneBufferAtATime) {
  EXPECT_TRUE(VerifyProgram(program_).ok()) << Error();
  EXPECT_EQ(program_.value(a_).buffer, program_.value(b_).buffer);
  EXPECT_EQ(program_.AddressOf(b_), program_.AddressOf(a_) + kBytes);
  EXPECT_THAT(program_.ToString(), HasSubstr("%square: f64[100] in #1+800 = square(%x)"));
}

TEST_F(BucketTest, AWriteOverPartOfALiveValueIsRefused) {
  program_.values[b_].offset -= 8;
  EXPECT_THAT(Error(), HasSubstr("instruction 2 (multiply): reads exp, but instruction 1 (square) "
                                 "has left square in its bytes"));
}

TEST_F(BucketTest, AWriteOverAValueThatIsReadNoMoreIsAllowed) {
  // negate reads `a` before square
  std::rotate(program_.instructions.begin() + 1, program_.instructions.begin() + 3,
              program_.instructions.begin() + 4);
  program_.instructions[InstructionId(3)].inputs = {b_, b_};
  program_.values[b_].offset = 0;
  for (Buffer& buffer : program_.buffers) buffer.last = 4;
  for (Buffer& buffer : program_.buffers) buffer.first = -1;
  PlanMemory(StateLayout(), program_);
  EXPECT_TRUE(VerifyProgram(program_).ok()) << Error();
}

TEST_F(BucketTest, AnOutputDoesNotTakeOverALargerBuffer) {
  EXPECT_NE(program_.value(program_.outputs[1].value).buffer, program_.value(a_).buffer);
}

TEST_F(VerifyTest, FindsABufferOutsideOfTheArena) {
  program_.arenas[MemorySpace::kDevice] = 64;
  EXPECT_THAT(Error(), HasSubstr("does not lie in its arena"));
}

TEST_F(VerifyTest, FindsAStateThatMoved) {
  const ProgramState& state = program_.states[ProgramStateId(0)];
  program_.values[state.updated].buffer = program_.value(program_.inputs[0].value).buffer;
  EXPECT_FALSE(VerifyProgram(program_).ok());
}

}  // namespace
}  // namespace tessera
