// Each pass that moves collectives on a small Program, before and after.
#include "core/program/passes/communication.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/program/passes/pass.h"
#include "core/program/stream_names.h"
#include "core/program/testing/communication_fixture.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

void InsertGather(TestProgram& made, InstructionId position, ProgramValueId from, ProgramValueId to,
                  const char* axis) {
  made.InsertCollective(position,
                        {.operation = CollectiveOperation::kAllGather,
                         .elements = NumElements(made.program.value(to).type.shape),
                         .dtype = DType::kF64,
                         .mesh_axes = {axis}},
                        from, to, kParameterStream);
}

// Three parameters, w0 to w2, each gathered right before it is read.
class GatherTest : public CommunicationTest {
 protected:
  TestProgram GatherThreeParameters() {
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
      InsertGather(made, InstructionId(2 * i), part, gathered, "data");
    }
    return made;
  }
};

TEST_F(GatherTest, AGatherRunsBesideTheGroupBefore) {
  TestProgram made = GatherThreeParameters();
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
  TestProgram made = GatherThreeParameters();
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
      InsertGather(made, position, part, gathered, "data");
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
  InsertGather(made, InstructionId(0), made.Value("x"), inner, "inner");
  InsertGather(made, InstructionId(1), inner, outer, "outer");
  made.Insert(InstructionId(2), InstructionKind::kCopy, outer, used, "compute");
  const std::string before = Lines(made.program);
  LimitGathers(1, made.program);
  EXPECT_EQ(Lines(made.program), before);
}

// Three gradients, each reduced as soon as it is computed, over `axes` axes one after the other,
// and read at the end.
class ReductionTest : public CommunicationTest {
 protected:
  TestProgram ReduceThreeGradients(int axes) {
    Tensor x = graph_.Input("x", F64({kElements}));
    const Tensor gradients[] = {Exp(x), Square(x), Negate(x)};
    graph_.SetOutput("y", Add(Add(gradients[0], gradients[1]), gradients[2]));
    TestProgram made(graph_, *backend_);
    InstructionId position(0);
    for (std::string path : {"exp", "square", "negate"}) {
      position += 1;
      for (int axis = 0; axis < axes; ++axis) {
        Communicate(made, CollectiveOperation::kReduceScatter, path, kElements, kGradientStream,
                    position);
        position += 1;
        path += ".reduced";
      }
    }
    return made;
  }
};

TEST_F(ReductionTest, AGradientWaitsForTheReductionOfAnEarlierOne) {
  TestProgram made = ReduceThreeGradients(/*axes=*/1);
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

// Regression: the reduction over a second axis counted as that of one more group, and half as many
// groups were reduced at a time.
TEST_F(ReductionTest, AReductionOverTwoAxesCountsOnce) {
  TestProgram made = ReduceThreeGradients(/*axes=*/2);
  LimitReductions(2, made.program);
  EXPECT_EQ(Lines(made.program),
            "exp = exp(x)\n"
            "exp.reduced = reduce-scatter(exp)\n"
            "exp.reduced.reduced = reduce-scatter(exp.reduced)\n"
            "square = square(x)\n"
            "square.reduced = reduce-scatter(square)\n"
            "square.reduced.reduced = reduce-scatter(square.reduced)\n"
            "negate = negate(x) after exp.reduced\n"
            "negate.reduced = reduce-scatter(negate)\n"
            "negate.reduced.reduced = reduce-scatter(negate.reduced)\n"
            "add = add(exp.reduced.reduced, square.reduced.reduced)\n"
            "add_1 = add(add, negate.reduced.reduced)\n");
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

// Regression: with micro-batches, reduced gradients are added to sums, which frees their memory. It
// was done at once, so nothing was computed while gradients were reduced.
TEST_F(CommunicationTest, OrderReadsReducedGradientsWhenTwoLaterOnesAreReduced) {
  for (const bool limited : {false, true}) {
    Graph graph("test");
    Tensor x = graph.Input("x", F64({kElements})), s = graph.Input("s", F64({kElements}));
    const char* const paths[] = {"exp", "square", "negate", "sqrt"};
    const Tensor gradients[] = {Exp(x), Square(x), Negate(x), Sqrt(x)};
    for (int i = 0; i < 4; ++i) graph.SetOutput(absl::StrCat("y", i), Add(gradients[i], s));
    TestProgram made(graph, *backend_);
    for (int i = 0; i < 4; ++i) {
      Communicate(made, CollectiveOperation::kReduceScatter, paths[i], kElements, kGradientStream,
                  InstructionId(1 + 2 * i));
    }
    if (limited) LimitReductions(2, made.program);
    KernelChooser chooser(backend_.get(), {});
    ASSERT_TRUE(OrderPass(chooser, made.program).ok());
    // Or right before what waits for the reduction anyway: then two gradients are in memory.
    EXPECT_EQ(Lines(made.program), limited ? "exp = exp(x)\n"
                                             "exp.reduced = reduce-scatter(exp)\n"
                                             "square = square(x)\n"
                                             "square.reduced = reduce-scatter(square)\n"
                                             "add = add(exp.reduced, s)\n"
                                             "negate = negate(x) after exp.reduced\n"
                                             "negate.reduced = reduce-scatter(negate)\n"
                                             "add_1 = add(square.reduced, s)\n"
                                             "sqrt = sqrt(x) after square.reduced\n"
                                             "sqrt.reduced = reduce-scatter(sqrt)\n"
                                             "add_2 = add(negate.reduced, s)\n"
                                             "add_3 = add(sqrt.reduced, s)\n"
                                           : "exp = exp(x)\n"
                                             "exp.reduced = reduce-scatter(exp)\n"
                                             "square = square(x)\n"
                                             "square.reduced = reduce-scatter(square)\n"
                                             "negate = negate(x)\n"
                                             "negate.reduced = reduce-scatter(negate)\n"
                                             "add = add(exp.reduced, s)\n"
                                             "sqrt = sqrt(x)\n"
                                             "sqrt.reduced = reduce-scatter(sqrt)\n"
                                             "add_1 = add(square.reduced, s)\n"
                                             "add_2 = add(negate.reduced, s)\n"
                                             "add_3 = add(sqrt.reduced, s)\n");
  }
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
    InsertGather(made, InstructionId(i), part, inner, "model");
    InsertGather(made, InstructionId(i + 1), inner, outer, "data");
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
