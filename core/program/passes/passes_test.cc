// Each pass on a small Program, before and after.
#include "core/kernels/cpu/backend.h"
#include "core/ops/ops.h"
#include "core/program/passes/pass.h"
#include "core/program/testing/lower_on_one_rank.h"
#include "core/program/testing/program_lines.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

class PassesTest : public ::testing::Test {
 protected:
  Program Lowered() {
    auto program = LowerOnOneRank(graph_, chooser_);
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend(1);
  KernelChooser chooser_{backend_.get(), {}};
  Graph graph_{"test"};
};

TEST_F(PassesTest, OrderMovesWhatFreesMemoryForward) {
  Tensor x = graph_.Input("x", F32({1000}));
  Tensor a = Exp(x);
  Tensor b = Square(x);
  Tensor sum_a = ReduceSum(a, {0});
  Tensor sum_b = ReduceSum(b, {0});
  graph_.SetOutput("y", Add(sum_a, sum_b));
  Program program = Lowered();
  EXPECT_EQ(Lines(program),
            "exp = exp(x)\n"
            "square = square(x)\n"
            "reduce_sum = reduce_sum(exp)\n"
            "reduce_sum_1 = reduce_sum(square)\n"
            "add = add(reduce_sum, reduce_sum_1)\n");
  ASSERT_TRUE(OrderPass(chooser_, program).ok());
  EXPECT_EQ(Lines(program),
            "exp = exp(x)\n"
            "reduce_sum = reduce_sum(exp)\n"
            "square = square(x)\n"
            "reduce_sum_1 = reduce_sum(square)\n"
            "add = add(reduce_sum, reduce_sum_1)\n");
}

TEST_F(PassesTest, OrderKeepsAnOldStateUntilItWasRead) {
  Tensor p = graph_.Parameter("p", {1000}, Initializer::Constant(1));
  Tensor g = Square(p);
  Tensor e = Exp(p);
  graph_.SetState("p", Add(p, g));  // frees g, but would overwrite p before exp reads it
  graph_.SetOutput("y", ReduceSum(e, {0}));
  Program program = Lowered();
  ASSERT_TRUE(OrderPass(chooser_, program).ok());
  EXPECT_EQ(Lines(program),
            "square = square(p)\n"
            "exp = exp(p)\n"
            "add = add(p, square)\n"
            "reduce_sum = reduce_sum(exp)\n");
}

TEST_F(PassesTest, OrderKeepsOrderEdges) {
  Tensor x = graph_.Input("x", F32({1000}));
  Tensor a = Exp(x);
  Tensor sum = ReduceSum(a, {0});
  Tensor late = Square(x);
  graph_.AddOrderEdge(graph_.value(late.id()).producer, graph_.value(sum.id()).producer);
  graph_.SetOutput("y", Add(ReduceSum(late, {0}), sum));
  Program program = Lowered();
  ASSERT_TRUE(OrderPass(chooser_, program).ok());
  EXPECT_EQ(program.instructions[InstructionId(1)].path, "reduce_sum");
  EXPECT_EQ(program.instructions[InstructionId(2)].path, "square");
}

TEST(PassList, UnknownPassNamesThoseThereAre) {
  EXPECT_EQ(FindPass("prefetch").status().message(), "no pass 'prefetch'; there are fuse, order");
}

}  // namespace
}  // namespace tessera
