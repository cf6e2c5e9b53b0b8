// Tests that waits between streams are derived, and that the verifier refuses a missing one.
#include "core/program/hazards/waits.h"

#include <memory>
#include <string>

#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/program/testing/test_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kElements = 100;
const TensorType kType = {DType::kF64, {kElements}};

// y = sum over ranks of exp(x) * square(x), where square runs during the sum.
class WaitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Tensor x = graph_.Input("x", {DType::kF32, {kElements}});
    Tensor a = Exp(x);
    Tensor b = Square(x);
    graph_.SetOutput("y", Multiply(a, b));
    made_ = std::make_unique<TestProgram>(graph_, *backend_);
    const ProgramValueId exp = made_->Value("exp");
    const ProgramValueId sum = made_->AddValue("exp.sum", kType);
    made_->InsertCollective(InstructionId(1),
                            {.elements = kElements, .dtype = DType::kF64, .mesh_axes = {"data"}},
                            exp, sum, "gradients");
    made_->ReplaceReads(exp, sum, InstructionId(2));
  }

  Program& program() { return made_->program; }
  std::string Error() { return VerifyProgram(program()).ToString(); }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  Graph graph_{"test"};
  std::unique_ptr<TestProgram> made_;
};

TEST_F(WaitsTest, FollowFromWhatInstructionsReadAndWrite) {
  ASSERT_TRUE(made_->Finish().ok()) << Error();
  ASSERT_EQ(program().instructions.size(), 4u);
  EXPECT_THAT(program().instructions[InstructionId(0)].waits, IsEmpty());
  EXPECT_THAT(program().instructions[InstructionId(1)].waits,
              ElementsAre(InstructionId(0)));                              // the sum, for exp
  EXPECT_THAT(program().instructions[InstructionId(2)].waits, IsEmpty());  // square runs beside it
  EXPECT_THAT(program().instructions[InstructionId(3)].waits,
              ElementsAre(InstructionId(1)));  // the product, for the sum
  EXPECT_THAT(program().ToString(),
              HasSubstr("[1] %exp.sum: f64[100] in #1 = all-reduce of 100 f64 (sum) over data(%exp)"
                        " on gradients waits for 0\n"));
  EXPECT_THAT(program().ToString(), HasSubstr(" streams=compute,gradients\n"));
}

TEST_F(WaitsTest, AReadWithoutAWaitIsRefused) {
  ASSERT_TRUE(made_->Finish().ok());
  program().instructions[InstructionId(3)].waits.clear();
  EXPECT_THAT(Error(),
              HasSubstr("program 'test', instruction 3 (multiply, on compute): reads "
                        "exp.sum without a wait for instruction 1 (exp.sum, on gradients)"));
}

TEST_F(WaitsTest, ACollectiveThatDoesNotWaitForItsInputIsRefused) {
  ASSERT_TRUE(made_->Finish().ok());
  program().instructions[InstructionId(1)].waits.clear();
  EXPECT_THAT(Error(), HasSubstr("instruction 1 (exp.sum, on gradients): reads exp without a wait "
                                 "for instruction 0 (exp, on compute)"));
}

TEST_F(WaitsTest, AWaitForALaterInstructionIsRefused) {
  ASSERT_TRUE(made_->Finish().ok());
  program().instructions[InstructionId(1)].waits = {InstructionId(0), InstructionId(2)};
  EXPECT_THAT(Error(), HasSubstr("waits for no earlier instruction of another one"));
}

// The sum needs no wait of its own, because it comes after a collective that has waited already.
TEST_F(WaitsTest, AreNotRepeatedOnAStream) {
  const ProgramValueId second = made_->AddValue("exp.max", kType);
  made_->InsertCollective(InstructionId(2),
                          {.elements = kElements,
                           .dtype = DType::kF64,
                           .reduction = Reduction::kMax,
                           .mesh_axes = {"data"}},
                          made_->Value("exp"), second, "gradients");
  program().outputs.push_back({"max", second});
  ASSERT_TRUE(made_->Finish().ok()) << Error();
  EXPECT_THAT(program().instructions[InstructionId(1)].waits, ElementsAre(InstructionId(0)));
  EXPECT_THAT(program().instructions[InstructionId(2)].waits, IsEmpty());
}

// negate writes in place over exp while the collective may still read it.
TEST_F(WaitsTest, AnOverwriteWhileAnotherStreamReadsIsRefused) {
  Graph graph("test");
  Tensor x = graph.Input("x", {DType::kF32, {kElements}});
  Tensor a = Exp(x);
  graph.SetOutput("y", Negate(a));
  TestProgram made(graph, *backend_);
  const ProgramValueId sum = made.AddValue("exp.sum", kType);
  made.InsertCollective(InstructionId(1),
                        {.elements = kElements, .dtype = DType::kF64, .mesh_axes = {"data"}},
                        made.Value("exp"), sum, "gradients");
  made.program.outputs.push_back({"sum", sum});
  ASSERT_TRUE(made.Finish().ok());
  const InstructionId negate = made.Find("negate");
  ASSERT_EQ(made.program.value(made.Value("negate")).buffer,
            made.program.value(made.Value("exp")).buffer);
  EXPECT_THAT(made.program.instructions[negate].waits, ElementsAre(InstructionId(1)));
  made.program.instructions[negate].waits.clear();
  EXPECT_THAT(VerifyProgram(made.program).ToString(),
              HasSubstr("instruction 2 (negate, on compute): overwrites bytes with negate without "
                        "a wait for instruction 1 (exp.sum, on gradients)"));
}

// The collective reuses the memory of a value that only kernels use, and so waits for them.
TEST(Reuse, OfAnotherStreamsMemoryNeedsAWait) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  Graph graph("test");
  Tensor x = graph.Input("x", {DType::kF32, {kElements}});
  Tensor w = graph.Input("w", {DType::kF32, {kElements}});
  graph.SetOutput("y", ReduceSum(Exp(x), {0}));
  graph.SetOutput("z", Negate(w));
  TestProgram made(graph, *backend);
  // Otherwise only memory that collectives touch is shared.
  made.program.buffers[made.program.value(made.Value("exp")).buffer].space = MemorySpace::kShared;
  // Inserted between both: the sum of w over ranks, which depends on no computed value.
  const ProgramValueId sum = made.AddValue("w.sum", kType);
  const InstructionId position = made.Find("negate");
  made.InsertCollective(position,
                        {.elements = kElements, .dtype = DType::kF64, .mesh_axes = {"data"}},
                        made.Value("w"), sum, "gather");
  made.ReplaceReads(made.Value("w"), sum, position + 1);
  ASSERT_TRUE(made.Finish().ok()) << VerifyProgram(made.program);
  const Program& program = made.program;
  ASSERT_EQ(program.AddressOf(sum), program.AddressOf(made.Value("exp"))) << program.ToString();
  EXPECT_THAT(program.instructions[position].waits, ElementsAre(made.Find("reduce_sum")));
  made.program.instructions[position].waits.clear();
  EXPECT_THAT(VerifyProgram(program).ToString(),
              HasSubstr("instruction 2 (w.sum, on gather): uses memory again for buffer #"));
  EXPECT_THAT(VerifyProgram(program).ToString(),
              HasSubstr("(w.sum) without a wait for instruction 1 (reduce_sum, on compute)"));
}

// No computation may reuse memory of a collective that is still running.
TEST_F(WaitsTest, ABufferThatNothingWaitsForIsKeptToTheEnd) {
  Graph graph("test");
  Tensor x = graph.Input("x", {DType::kF32, {kElements}});
  graph.SetOutput("y", Square(Negate(x)));
  graph.SetOutput("z", Exp(x));
  TestProgram made(graph, *backend_);
  const ProgramValueId sent = made.Value("exp");
  made.program.outputs.pop_back();
  made.InsertCollective(InstructionId(3),
                        {.operation = CollectiveOperation::kSend,
                         .elements = kElements,
                         .dtype = DType::kF64,
                         .mesh_axes = {"data"},
                         .shift = 1},
                        sent, kNone, "pipeline");
  ASSERT_TRUE(made.Finish().ok());
  // Nothing waits for the send: its buffer is not used again in this step.
  EXPECT_EQ(made.program.buffers[made.program.value(sent).buffer].last, 4);
}

TEST_F(WaitsTest, CollectivesWorkInSharedMemory) {
  ASSERT_TRUE(made_->Finish().ok());
  EXPECT_THAT(program().ToString(), HasSubstr(" of shared, live [0, 4], activations"));
  program().buffers[program().value(made_->Value("exp")).buffer].space = MemorySpace::kDevice;
  EXPECT_THAT(Error(), HasSubstr("exp.sum: cannot work on exp in device memory"));
}

TEST_F(WaitsTest, KernelsDoNotWorkOnOffloadedMemory) {
  ASSERT_TRUE(made_->Finish().ok());
  program().buffers[program().value(made_->Value("x")).buffer].space = MemorySpace::kOffloadHost;
  EXPECT_THAT(Error(), HasSubstr("exp: cannot work on x in offload host memory"));
}

TEST_F(WaitsTest, ACollectiveOfTheWrongSizeIsRefused) {
  ASSERT_TRUE(made_->Finish().ok());
  program().collectives[CollectiveId(0)].elements = 99;
  EXPECT_THAT(Error(), HasSubstr("exp.sum: exp: f64[100] is no contiguous operand of all-reduce of "
                                 "99 f64 (sum) over data"));
}

// A parameter is reduced on another stream, and then updated in place: the update waits, although
// nothing in the step has written what the collective reads.
TEST(StateWaitsTest, AnUpdateWaitsForReadersOfTheStateOnOtherStreams) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  Graph graph("test");
  Tensor x = graph.Parameter("x", {kElements}, Initializer::Constant(0));
  Tensor y = Square(x);
  graph.SetState("x", Exp(x));
  graph.SetOutput("y", y);
  TestProgram made(graph, *backend);
  const ProgramValueId sum = made.AddValue("x.sum", kType);
  made.InsertCollective(InstructionId(0),
                        {.elements = kElements, .dtype = DType::kF64, .mesh_axes = {"data"}},
                        made.Value("x"), sum, "parameters");
  ASSERT_TRUE(made.Finish().ok());
  const InstructionId update = made.Find("exp");
  EXPECT_THAT(made.program.instructions[update].waits, ElementsAre(InstructionId(0)));
  made.program.instructions[update].waits.clear();
  EXPECT_THAT(VerifyProgram(made.program).ToString(),
              HasSubstr("overwrites bytes with exp without a wait for instruction 0 (x.sum, on "
                        "parameters)"));
}

}  // namespace
}  // namespace tessera
