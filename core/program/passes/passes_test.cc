// Each pass on a small Program, before and after.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/cpu/backend.h"
#include "core/ops/ops.h"
#include "core/program/passes/pass.h"
#include "core/program/testing/lower_on_one_rank.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

// Returns a line "y = matmul+add(x, w, b)" for each instruction.
std::string Lines(const Program& program) {
  std::string text;
  const auto names = [&](const std::vector<ProgramValueId>& ids) {
    return absl::StrJoin(ids, ", ", [&](std::string* out, ProgramValueId id) {
      absl::StrAppend(out, program.value(id).path);
    });
  };
  for (const Instruction& instruction : program.instructions) {
    const KernelRequest& request = program.KernelOf(instruction).request;
    absl::StrAppend(&text, names(instruction.outputs), " = ", request.op);
    for (const Epilogue& epilogue : request.epilogues) {
      absl::StrAppend(&text, "+", epilogue.op);
    }
    absl::StrAppend(&text, "(", names(instruction.inputs), ")\n");
  }
  return text;
}

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

TEST_F(PassesTest, FuseJoinsBiasAndActivation) {
  Tensor x = graph_.Input("x", F32({64, 64}));
  Tensor w = graph_.Input("w", F32({64, 64}));
  Tensor b = graph_.Input("b", F32({64}));
  graph_.SetOutput("y", Gelu(Linear(x, w, b), GeluKind::kTanh));
  Program program = Lowered();
  EXPECT_EQ(Lines(program),
            "matmul = matmul(x, w)\n"
            "add = add(matmul, b)\n"
            "gelu = gelu(add)\n");
  ASSERT_TRUE(FusePass(chooser_, program).ok());
  EXPECT_EQ(Lines(program), "gelu = matmul+add+gelu(x, w, b)\n");
  EXPECT_EQ(program.instructions[InstructionId(0)].fused_paths,
            std::vector<std::string>({"add", "gelu"}));
}

TEST_F(PassesTest, FuseKeepsWhatIsReadElsewhere) {
  Tensor x = graph_.Input("x", F32({64, 64}));
  Tensor w = graph_.Input("w", F32({64, 64}));
  Tensor b = graph_.Input("b", F32({64}));
  Tensor h = Linear(x, w, b);
  graph_.SetOutput("y", Gelu(h, GeluKind::kTanh));
  graph_.SetOutput("h", h);  // as the backward pass would
  Program program = Lowered();
  ASSERT_TRUE(FusePass(chooser_, program).ok());
  EXPECT_EQ(Lines(program),
            "add = matmul+add(x, w, b)\n"
            "gelu = gelu(add)\n");
}

TEST_F(PassesTest, FuseJoinsASumThatIsThereBefore) {
  Tensor x = graph_.Input("x", F32({64, 64}));
  Tensor w = graph_.Input("w", F32({64, 64}));
  Tensor first = MatMul(x, w);
  Tensor second = MatMul(x, w, true);
  // The two are added one after the other: the second product is added to the first, which waits
  // for nothing.
  graph_.SetOutput("sum", Add(first, second));
  Program program = Lowered();
  ASSERT_TRUE(FusePass(chooser_, program).ok());
  EXPECT_EQ(Lines(program),
            "matmul = matmul(x, w)\n"
            "add = matmul+add(x, w, matmul)\n");
}

// Regression: a sum that waits for something else, such as a gradient for an earlier reduction, was
// never joined.
TEST_F(PassesTest, FuseJoinsASumThatWaits) {
  Tensor x = graph_.Input("x", F32({64, 64}));
  Tensor w = graph_.Input("w", F32({64, 64}));
  Tensor earlier = Exp(w);
  Tensor product = MatMul(x, w);
  Tensor later = Square(w);
  graph_.SetOutput("sum", Add(product, x));
  graph_.SetOutput("earlier", earlier);
  graph_.SetOutput("later", later);
  const auto fused_after = [&](const char* path) {
    Program program = Lowered();
    for (const Instruction& instruction : program.instructions) {
      if (instruction.path == path) {
        program.instructions.back().after.push_back(instruction.outputs[0]);
      }
    }
    EXPECT_TRUE(FusePass(chooser_, program).ok());
    return program;
  };
  const Program program = fused_after("exp");
  EXPECT_EQ(Lines(program),
            "exp = exp(w)\n"
            "add = matmul+add(x, w, x)\n"
            "square = square(w)\n");
  EXPECT_EQ(program.instructions[InstructionId(1)].after,
            program.instructions[InstructionId(0)].outputs);
  EXPECT_EQ(Lines(fused_after("square")),
            "exp = exp(w)\n"
            "matmul = matmul(x, w)\n"
            "square = square(w)\n"
            "add = add(matmul, x)\n")
      << "the product is not there before what the sum waits for";
}

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
