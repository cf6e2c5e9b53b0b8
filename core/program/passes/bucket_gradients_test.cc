#include <string>

#include "core/ops/ops.h"
#include "core/program/passes/communication.h"
#include "core/program/stream_names.h"
#include "core/program/testing/communication_fixture.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Four gradients of 96 bytes: exp, square, negate, sqrt. Each is reduced as soon as it is computed,
// and all are read at the end.
class BucketTest : public CommunicationTest {
 protected:
  TestProgram ReduceFourGradients() {
    Tensor x = graph_.Input("x", F64({kElements}));
    const Tensor gradients[] = {Exp(x), Square(x), Negate(x), Sqrt(x)};
    Tensor sum = gradients[0];
    for (int i = 1; i < 4; ++i) sum = Add(sum, gradients[i]);
    graph_.SetOutput("y", sum);
    TestProgram made(graph_, *backend_);
    InstructionId position(1);
    for (const char* path : {"exp", "square", "negate", "sqrt"}) {
      Communicate(made, CollectiveOperation::kAllReduce, path, kElements, kGradientStream,
                  position);
      position += 2;
    }
    return made;
  }
};

TEST_F(BucketTest, GradientsAreReducedTogether) {
  TestProgram made = ReduceFourGradients();
  EXPECT_EQ(Lines(made.program),
            "exp = exp(x)\n"
            "exp.reduced = all-reduce(exp)\n"
            "square = square(x)\n"
            "square.reduced = all-reduce(square)\n"
            "negate = negate(x)\n"
            "negate.reduced = all-reduce(negate)\n"
            "sqrt = sqrt(x)\n"
            "sqrt.reduced = all-reduce(sqrt)\n"
            "add = add(exp.reduced, square.reduced)\n"
            "add_1 = add(add, negate.reduced)\n"
            "add_2 = add(add_1, sqrt.reduced)\n");
  BucketGradients({.cap_bytes = 300, .first_bytes = 96}, made.program);
  EXPECT_EQ(Lines(made.program),
            "exp = exp(x)\n"
            "exp.reduced = all-reduce(exp)\n"
            "gradients.bucket.1[0] = square(x)\n"
            "gradients.bucket.1[12] = negate(x)\n"
            "gradients.bucket.1[24] = sqrt(x)\n"
            "gradients.bucket.1.all_reduce = all-reduce(gradients.bucket.1)\n"
            "add = add(exp.reduced, gradients.bucket.1.all_reduce[0])\n"
            "add_1 = add(add, gradients.bucket.1.all_reduce[12])\n"
            "add_2 = add(add_1, gradients.bucket.1.all_reduce[24])\n");
  const absl::Status finished = made.Finish();
  EXPECT_TRUE(finished.ok()) << finished;
  // The bucket is reduced in place.
  EXPECT_EQ(made.program.AddressOf(made.Value("gradients.bucket.1")).offset,
            made.program.AddressOf(made.Value("gradients.bucket.1.all_reduce")).offset);
}

TEST_F(BucketTest, ABucketEndsBeforeAMemberIsRead) {
  TestProgram made = ReduceFourGradients();
  // The sum of exp is read before negate is computed.
  Program& program = made.program;
  const ProgramValueId early = made.AddValue("early", F64({kElements}));
  made.Insert(InstructionId(4), InstructionKind::kCopy, made.Value("exp.reduced"), early,
              "compute");
  BucketGradients({.cap_bytes = 1000, .first_bytes = 1000}, program);
  EXPECT_EQ(Lines(program),
            "gradients.bucket.0[0] = exp(x)\n"
            "gradients.bucket.0[12] = square(x)\n"
            "gradients.bucket.0.all_reduce = all-reduce(gradients.bucket.0)\n"
            "early = copy-bytes(gradients.bucket.0.all_reduce[0])\n"
            "gradients.bucket.1[0] = negate(x)\n"
            "gradients.bucket.1[12] = sqrt(x)\n"
            "gradients.bucket.1.all_reduce = all-reduce(gradients.bucket.1)\n"
            "add = add(gradients.bucket.0.all_reduce[0], gradients.bucket.0.all_reduce[12])\n"
            "add_1 = add(add, gradients.bucket.1.all_reduce[0])\n"
            "add_2 = add(add_1, gradients.bucket.1.all_reduce[12])\n");
}

// Regression: the results became members of the next bucket too, and were never written there.
TEST_F(BucketTest, ResultsThatAreReducedAgainStayInTheirBucket) {
  TestProgram made = ReduceFourGradients();
  InstructionId position(8);
  for (const char* path : {"sqrt.reduced", "negate.reduced"}) {
    Communicate(made, CollectiveOperation::kAllReduce, path, kElements, kGradientStream, position);
    ++position;
  }
  BucketGradients({.cap_bytes = 1000, .first_bytes = 1000}, made.program);
  EXPECT_EQ(Lines(made.program),
            "gradients.bucket.0[0] = exp(x)\n"
            "gradients.bucket.0[12] = square(x)\n"
            "gradients.bucket.0[24] = negate(x)\n"
            "gradients.bucket.0[36] = sqrt(x)\n"
            "gradients.bucket.0.all_reduce = all-reduce(gradients.bucket.0)\n"
            "sqrt.reduced.reduced = all-reduce(gradients.bucket.0.all_reduce[36])\n"
            "negate.reduced.reduced = all-reduce(gradients.bucket.0.all_reduce[24])\n"
            "add = add(gradients.bucket.0.all_reduce[0], gradients.bucket.0.all_reduce[12])\n"
            "add_1 = add(add, negate.reduced.reduced)\n"
            "add_2 = add(add_1, sqrt.reduced.reduced)\n");
}

TEST_F(BucketTest, ResultsOfTheStepKeepTheirBuffers) {
  Tensor x = graph_.Input("x", F64({kElements}));
  Tensor a = Exp(x);
  Tensor b = Square(x);
  graph_.SetOutput("a", a);
  graph_.SetOutput("b", b);
  TestProgram made(graph_, *backend_);
  Communicate(made, CollectiveOperation::kAllReduce, "exp", kElements, kGradientStream,
              InstructionId(1));
  Communicate(made, CollectiveOperation::kAllReduce, "square", kElements, kGradientStream,
              InstructionId(3));
  const std::string before = Lines(made.program);
  BucketGradients({}, made.program);
  EXPECT_EQ(Lines(made.program), before);
}

TEST_F(BucketTest, WhatNothingReadsIsNotMoved) {
  TestProgram made = ReduceFourGradients();
  const std::string before = Lines(made.program);
  // A copy of a gathered value that nothing reads. Neither the copy nor the gather is needed.
  Communicate(made, CollectiveOperation::kAllGather, "x", kElements, kGradientStream,
              InstructionId(0));
  const ProgramValueId copied = made.AddValue("copied", F64({2 * kElements}));
  made.ReplaceReads(made.Value("x.gathered"), made.Value("x"), InstructionId(1));
  made.Insert(InstructionId(1), InstructionKind::kCopy, made.Value("x.gathered"), copied,
              "compute");
  EXPECT_NE(Lines(made.program), before);
  RemoveUnreadTransfers(made.program);
  EXPECT_EQ(Lines(made.program), before);
}

}  // namespace
}  // namespace tessera
