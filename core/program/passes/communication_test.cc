// Each pass on a small Program, before and after.
#include "core/program/passes/communication.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/program/passes/pass.h"
#include "core/program/stream_names.h"
#include "core/program/testing/test_program.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kElements = 12;

TensorType F64(Shape shape) { return {DType::kF64, std::move(shape)}; }

// Returns a line "y = add(x, w)" for each instruction. Values within another one are
// "tensor[offset]".
std::string Lines(const Program& program) {
  const auto name = [&](ProgramValueId id) {
    const ProgramValue& value = program.value(id);
    if (value.within == kNone) return value.path;
    return absl::StrCat(program.value(value.within).path, "[",
                        value.offset / SizeOf(value.type.dtype), "]");
  };
  const auto names = [&](const std::vector<ProgramValueId>& ids) {
    return absl::StrJoin(
        ids, ", ", [&](std::string* out, ProgramValueId id) { absl::StrAppend(out, name(id)); });
  };
  std::string text;
  for (const Instruction& instruction : program.instructions) {
    absl::StrAppend(&text, names(instruction.outputs), " = ", program.OperationOf(instruction), "(",
                    names(instruction.inputs), ")");
    if (!instruction.after.empty()) absl::StrAppend(&text, " after ", names(instruction.after));
    absl::StrAppend(&text, "\n");
  }
  return text;
}

class CommunicationTest : public ::testing::Test {
 protected:
  // Inserts a collective after the instruction that computes `path`, or first if there is none, and
  // makes all later instructions read its output.
  void Communicate(TestProgram& made, CollectiveOperation operation, const std::string& path,
                   int64_t elements, const char* stream, InstructionId position) {
    const bool gather = operation == CollectiveOperation::kAllGather;
    const ProgramValueId output = made.AddValue(path + (gather ? ".gathered" : ".reduced"),
                                                F64({gather ? 2 * elements : elements}));
    made.InsertCollective(position,
                          {.operation = operation,
                           .elements = gather ? 2 * elements : elements,
                           .dtype = DType::kF64,
                           .mesh_axes = {"data"}},
                          made.Value(path), output, stream);
    made.ReplaceReads(made.Value(path), output, position + 1);
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  Graph graph_{"test"};
};

// Four gradients of 96 bytes: exp, square, negate, sqrt. Each is reduced as soon as it is computed,
// and all are read at the end.
class BucketTest : public CommunicationTest {
 protected:
  TestProgram Made() {
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
  TestProgram made = Made();
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
  TestProgram made = Made();
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
  TestProgram made = Made();
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

// Three parameters, w0 to w2, each gathered right before it is read.
class GatherTest : public CommunicationTest {
 protected:
  TestProgram Made() {
    Tensor y = graph_.Input("x", F64({kElements}));
    Tensor parameters[3];
    for (int i = 0; i < 3; ++i) {
      parameters[i] = graph_.DeclareState(absl::StrCat("w", i), F64({kElements}), Role::kParameter,
                                          Initializer::Constant(1));
    }
    for (int i = 0; i < 3; ++i) y = Exp(Multiply(y, parameters[i]));
    graph_.SetOutput("y", y);
    TestProgram made(graph_, *backend_);
    for (int i = 2; i >= 0; --i) {
      const ProgramValueId gathered =
          made.AddValue(absl::StrCat("w", i, ".gathered"), F64({kElements}));
      const ProgramValueId part =
          made.AddValue(absl::StrCat("w", i, ".part"), F64({kElements / 2}));
      made.program.values[part].buffer =
          made.program.value(made.Value(absl::StrCat("w", i))).buffer;
      made.program.values[part].within = made.Value(absl::StrCat("w", i));
      made.ReplaceReads(made.Value(absl::StrCat("w", i)), gathered, InstructionId(0));
      made.InsertCollective(InstructionId(2 * i),
                            {.operation = CollectiveOperation::kAllGather,
                             .elements = kElements,
                             .dtype = DType::kF64,
                             .mesh_axes = {"data"}},
                            part, gathered, kParameterStream);
    }
    return made;
  }
};

TEST_F(BucketTest, WhatNothingReadsIsNotMoved) {
  TestProgram made = Made();
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

TEST_F(GatherTest, AGatherRunsBesideTheGroupBefore) {
  TestProgram made = Made();
  EXPECT_EQ(Lines(made.program),
            "w0.gathered = all-gather(w0[0])\n"
            "multiply = multiply(x, w0.gathered)\n"
            "exp = exp(multiply)\n"
            "w1.gathered = all-gather(w1[0])\n"
            "multiply_1 = multiply(exp, w1.gathered)\n"
            "exp_1 = exp(multiply_1)\n"
            "w2.gathered = all-gather(w2[0])\n"
            "multiply_2 = multiply(exp_1, w2.gathered)\n"
            "exp_2 = exp(multiply_2)\n");
  PrefetchGathers(1, made.program);
  const std::string prefetched =
      "w0.gathered = all-gather(w0[0])\n"
      "w1.gathered = all-gather(w1[0])\n"
      "multiply = multiply(x, w0.gathered)\n"
      "exp = exp(multiply)\n"
      "w2.gathered = all-gather(w2[0])\n"
      "multiply_1 = multiply(exp, w1.gathered)\n"
      "exp_1 = exp(multiply_1)\n"
      "multiply_2 = multiply(exp_1, w2.gathered)\n"
      "exp_2 = exp(multiply_2)\n";
  EXPECT_EQ(Lines(made.program), prefetched);
  const absl::Status finished = made.Finish();
  EXPECT_TRUE(finished.ok()) << finished;
}

TEST_F(GatherTest, AGatherWaitsForTheLastUseOfAnEarlierOne) {
  TestProgram made = Made();
  PrefetchGathers(2, made.program);
  LimitGathers(2, made.program);
  EXPECT_EQ(Lines(made.program),
            "w0.gathered = all-gather(w0[0])\n"
            "w1.gathered = all-gather(w1[0])\n"
            "multiply = multiply(x, w0.gathered)\n"
            "w2.gathered = all-gather(w2[0]) after multiply\n"
            "exp = exp(multiply)\n"
            "multiply_1 = multiply(exp, w1.gathered)\n"
            "exp_1 = exp(multiply_1)\n"
            "multiply_2 = multiply(exp_1, w2.gathered)\n"
            "exp_2 = exp(multiply_2)\n");
  const absl::Status finished = made.Finish();
  EXPECT_TRUE(finished.ok()) << finished;
}

// Regression: the last block of the forward pass was gathered again for the backward pass while its
// first copy was still there.
TEST_F(GatherTest, AGroupThatIsStillGatheredIsNotGatheredAgain) {
  for (const bool written : {false, true}) {
    Graph graph("test");
    Tensor y = graph.Input("x", F64({kElements}));
    const Tensor w =
        graph.DeclareState("w", F64({kElements}), Role::kParameter, Initializer::Constant(1));
    y = Multiply(y, w);
    y = Multiply(Exp(y), w);
    graph.SetOutput("y", y);
    TestProgram made(graph, *backend_);
    const ProgramValueId part = made.AddValue("w.part", F64({kElements / 2}));
    made.program.values[part].buffer = made.program.value(made.Value("w")).buffer;
    made.program.values[part].within = made.Value("w");
    for (const InstructionId position : {InstructionId(2), InstructionId(0)}) {
      const ProgramValueId gathered =
          made.AddValue(absl::StrCat("gathered.", position.index()), F64({kElements}));
      made.ReplaceReads(made.Value("w"), gathered, position);
      made.InsertCollective(position,
                            {.operation = CollectiveOperation::kAllGather,
                             .elements = kElements,
                             .dtype = DType::kF64,
                             .mesh_axes = {"data"}},
                            part, gathered, kParameterStream);
    }
    if (written) made.Insert(InstructionId(1), InstructionKind::kCopy, part, part, "compute");
    SCOPED_TRACE(Lines(made.program));
    PrefetchGathers(1, made.program);
    JoinGathers(made.program);
    EXPECT_EQ(Lines(made.program), written ? "gathered.0 = all-gather(w[0])\n"
                                             "w[0] = copy-bytes(w[0])\n"
                                             "gathered.2 = all-gather(w[0])\n"
                                             "multiply = multiply(x, gathered.0)\n"
                                             "exp = exp(multiply)\n"
                                             "multiply_1 = multiply(exp, gathered.2)\n"
                                           : "gathered.0 = all-gather(w[0])\n"
                                             "multiply = multiply(x, gathered.0)\n"
                                             "exp = exp(multiply)\n"
                                             "multiply_1 = multiply(exp, gathered.0)\n");
  }
}

// Regression: a parameter that two axes split is gathered along one axis after the other. The
// second gather reads the result of the first, and was made to wait for itself.
TEST_F(GatherTest, AGatherOverTwoAxesDoesNotWaitForItself) {
  graph_.SetOutput("y", Exp(graph_.Input("x", F64({kElements}))));
  TestProgram made(graph_, *backend_);
  const ProgramValueId inner = made.AddValue("inner", F64({2 * kElements}));
  const ProgramValueId outer = made.AddValue("outer", F64({4 * kElements}));
  const ProgramValueId used = made.AddValue("used", F64({4 * kElements}));
  const auto gather = [&](InstructionId position, ProgramValueId from, ProgramValueId to,
                          const char* axis) {
    made.InsertCollective(position,
                          {.operation = CollectiveOperation::kAllGather,
                           .elements = NumElements(made.program.value(to).type.shape),
                           .dtype = DType::kF64,
                           .mesh_axes = {axis}},
                          from, to, kParameterStream);
  };
  gather(InstructionId(0), made.Value("x"), inner, "inner");
  gather(InstructionId(1), inner, outer, "outer");
  made.Insert(InstructionId(2), InstructionKind::kCopy, outer, used, "compute");
  const std::string before = Lines(made.program);
  LimitGathers(1, made.program);
  EXPECT_EQ(Lines(made.program), before);
}

// Three gradients. Each is reduced to this rank's part as soon as it is computed, and read at the
// end.
TEST_F(CommunicationTest, AGradientWaitsForTheReductionOfAnEarlierOne) {
  Tensor x = graph_.Input("x", F64({kElements}));
  const Tensor gradients[] = {Exp(x), Square(x), Negate(x)};
  graph_.SetOutput("y", Add(Add(gradients[0], gradients[1]), gradients[2]));
  TestProgram made(graph_, *backend_);
  InstructionId position(1);
  for (const char* path : {"exp", "square", "negate"}) {
    Communicate(made, CollectiveOperation::kReduceScatter, path, kElements, kGradientStream,
                position);
    position += 2;
  }
  LimitReductions(2, made.program);
  EXPECT_EQ(Lines(made.program),
            "exp = exp(x)\n"
            "exp.reduced = reduce-scatter(exp)\n"
            "square = square(x)\n"
            "square.reduced = reduce-scatter(square)\n"
            "negate = negate(x) after exp.reduced\n"
            "negate.reduced = reduce-scatter(negate)\n"
            "add = add(exp.reduced, square.reduced)\n"
            "add_1 = add(add, negate.reduced)\n");
}

// Regression: only the first instruction that writes a group's gradients waited. Another pass let
// the other one run first, and one group more was in memory.
TEST_F(CommunicationTest, AllGradientsOfAGroupWaitForTheReductionOfAnEarlierOne) {
  Tensor x = graph_.Input("x", F64({kElements}));
  const Tensor first = Concat({Exp(x), Square(x)}, 0), second = Concat({Negate(x), Sqrt(x)}, 0);
  graph_.SetOutput("y", Add(first, second));
  TestProgram made(graph_, *backend_);
  InstructionId position(2);
  for (const char* path : {"concat", "concat_1"}) {
    Communicate(made, CollectiveOperation::kReduceScatter, path, 2 * kElements, kGradientStream,
                position);
    position += 3;
  }
  LimitReductions(1, made.program);
  EXPECT_EQ(Lines(made.program),
            "concat[0] = exp(x)\n"
            "concat[12] = square(x)\n"
            "concat.reduced = reduce-scatter(concat)\n"
            "concat_1[0] = negate(x) after concat.reduced\n"
            "concat_1[12] = sqrt(x) after concat.reduced\n"
            "concat_1.reduced = reduce-scatter(concat_1)\n"
            "add = add(concat.reduced, concat_1.reduced)\n");
}

// Two gradients that are reduced later than they could be, and read in the other order.
TEST_F(CommunicationTest, OrderReducesGradientsAtOnceAndReadsThemInThatOrder) {
  Tensor x = graph_.Input("x", F64({kElements}));
  const Tensor first = Exp(x), second = Square(x);
  const Tensor of_second = Negate(second), of_first = Sqrt(first);
  graph_.SetOutput("y", Add(of_second, second));
  graph_.SetOutput("z", Add(of_first, first));
  TestProgram made(graph_, *backend_);
  Communicate(made, CollectiveOperation::kAllReduce, "exp", kElements, kGradientStream,
              InstructionId(2));
  Communicate(made, CollectiveOperation::kAllReduce, "square", kElements, kGradientStream,
              InstructionId(3));
  EXPECT_EQ(Lines(made.program),
            "exp = exp(x)\n"
            "square = square(x)\n"
            "exp.reduced = all-reduce(exp)\n"
            "square.reduced = all-reduce(square)\n"
            "negate = negate(square.reduced)\n"
            "sqrt = sqrt(exp.reduced)\n"
            "add = add(negate, square.reduced)\n"
            "add_1 = add(sqrt, exp.reduced)\n");
  KernelChooser chooser(backend_.get(), {});
  ASSERT_TRUE(OrderPass(chooser, made.program).ok());
  EXPECT_EQ(Lines(made.program),
            "exp = exp(x)\n"
            "exp.reduced = all-reduce(exp)\n"
            "square = square(x)\n"
            "square.reduced = all-reduce(square)\n"
            "sqrt = sqrt(exp.reduced)\n"
            "add_1 = add(sqrt, exp.reduced)\n"
            "negate = negate(square.reduced)\n"
            "add = add(negate, square.reduced)\n");
}

// Regression: a gather over two axes counted from its second collective, so the memory of the first
// was not bounded.
TEST_F(GatherTest, AGatherOverTwoAxesWaitsBeforeItsFirst) {
  Tensor y = graph_.Input("x", F64({kElements}));
  Tensor parameters[2];
  for (int i = 0; i < 2; ++i) {
    parameters[i] = graph_.DeclareState(absl::StrCat("w", i), F64({kElements}), Role::kParameter,
                                        Initializer::Constant(1));
  }
  for (const Tensor& parameter : parameters) y = Multiply(y, parameter);
  graph_.SetOutput("y", y);
  TestProgram made(graph_, *backend_);
  for (int i = 1; i >= 0; --i) {
    const std::string path = absl::StrCat("w", i);
    const ProgramValueId part = made.AddValue(absl::StrCat(path, ".part"), F64({kElements / 4}));
    const ProgramValueId inner = made.AddValue(absl::StrCat(path, ".inner"), F64({kElements / 2}));
    const ProgramValueId outer = made.AddValue(absl::StrCat(path, ".outer"), F64({kElements}));
    made.program.values[part].buffer = made.program.value(made.Value(path)).buffer;
    made.program.values[part].within = made.Value(path);
    made.ReplaceReads(made.Value(path), outer, InstructionId(0));
    const auto gather = [&](InstructionId position, ProgramValueId from, ProgramValueId to,
                            const char* axis) {
      made.InsertCollective(position,
                            {.operation = CollectiveOperation::kAllGather,
                             .elements = NumElements(made.program.value(to).type.shape),
                             .dtype = DType::kF64,
                             .mesh_axes = {axis}},
                            from, to, kParameterStream);
    };
    gather(InstructionId(i), part, inner, "model");
    gather(InstructionId(i + 1), inner, outer, "data");
  }
  PrefetchGathers(1, made.program);
  EXPECT_EQ(Lines(made.program),
            "w0.inner = all-gather(w0[0])\n"
            "w0.outer = all-gather(w0.inner)\n"
            "w1.inner = all-gather(w1[0])\n"
            "w1.outer = all-gather(w1.inner)\n"
            "multiply = multiply(x, w0.outer)\n"
            "multiply_1 = multiply(multiply, w1.outer)\n");
  LimitGathers(1, made.program);
  EXPECT_EQ(Lines(made.program),
            "w0.inner = all-gather(w0[0])\n"
            "w0.outer = all-gather(w0.inner)\n"
            "multiply = multiply(x, w0.outer)\n"
            "w1.inner = all-gather(w1[0]) after multiply\n"
            "w1.outer = all-gather(w1.inner)\n"
            "multiply_1 = multiply(multiply, w1.outer)\n");
}

}  // namespace
}  // namespace tessera
