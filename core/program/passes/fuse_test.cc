// Fusion on small Programs, before and after.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/cpu/backend.h"
#include "core/layout/mesh_layout.h"
#include "core/ops/ops.h"
#include "core/program/passes/pass.h"
#include "core/program/testing/program_lines.h"
#include "core/program/testing/test_program.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }
TensorType BF16(Shape shape) { return {DType::kBF16, std::move(shape)}; }

class FuseTest : public ::testing::Test {
 protected:
  Program Lowered() { return TestProgram(graph_, *backend_).program; }

  // Returns the lines of a Program after fusion. The Program can be planned and is correct.
  std::string Fused(TestProgram made) {
    EXPECT_TRUE(FusePass(chooser_, made.program).ok());
    std::string lines = Lines(made.program);
    const absl::Status finished = made.Finish();
    EXPECT_TRUE(finished.ok()) << finished;
    return lines;
  }
  std::string Fused() { return Fused(TestProgram(graph_, *backend_)); }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend(1);
  KernelChooser chooser_{backend_.get(), {}};
  Graph graph_{"test"};
};

TEST_F(FuseTest, JoinsBiasAndActivation) {
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

TEST_F(FuseTest, JoinsAConvolutionWithItsBiasAndActivation) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Graph graph("test");
    Tensor x = graph.Input("x", {dtype, {2, 8, 8, 16}});
    Tensor w = graph.Input("w", {dtype, {32, 3, 3, 16}});
    Tensor b = graph.Input("b", {dtype, {32}});
    graph.SetOutput("y", Relu(Conv2d(x, w, b, {.padding = {1, 1}})));
    EXPECT_EQ(Fused(TestProgram(graph, *backend_)), "relu = convolution+add+relu(x, w, b)\n");
  }
}

TEST_F(FuseTest, KeepsWhatIsReadElsewhere) {
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

TEST_F(FuseTest, JoinsASumThatIsThereBefore) {
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
TEST_F(FuseTest, JoinsASumThatWaits) {
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

// --- A bias that is cast -------------------------------------------------------------------------

// The product and the bias of a linear layer in bf16, in the order in which a Plan's precision
// records them.
class CastBiasTest : public FuseTest {
 protected:
  Tensor Product() {
    return MatMul(graph_.Input("x", BF16({64, 64})), graph_.Input("w", BF16({64, 32})));
  }

  Tensor bias_ = graph_.Input("b", F32({32}));
};

TEST_F(CastBiasTest, IsCastBeforeTheProduct) {
  Tensor product = Product();
  Tensor sum = Add(product, Cast(bias_, DType::kBF16));
  graph_.SetOutput("y", Gelu(sum, GeluKind::kTanh));
  EXPECT_EQ(Lines(Lowered()),
            "matmul = matmul(x, w)\n"
            "cast = cast(b)\n"
            "add = add(matmul, cast)\n"
            "gelu = gelu(add)\n");
  EXPECT_EQ(Fused(),
            "cast = cast(b)\n"
            "gelu = matmul+add+gelu(x, w, cast)\n");
}

TEST_F(CastBiasTest, MovesOverOtherInstructionsAndForOtherReaders) {
  Tensor product = Product();
  Tensor other = Exp(bias_);
  Tensor bias = Cast(bias_, DType::kBF16);
  graph_.SetOutput("y", Add(product, bias));
  graph_.SetOutput("other", other);
  graph_.SetOutput("square", Square(bias));
  EXPECT_EQ(Fused(),
            "cast = cast(b)\n"
            "add = matmul+add(x, w, cast)\n"
            "exp = exp(b)\n"
            "square = square(cast)\n");
}

TEST_F(CastBiasTest, StaysBehindWhatItCasts) {
  Tensor product = Product();
  graph_.SetOutput("y", Add(product, Cast(Exp(bias_), DType::kBF16)));
  EXPECT_EQ(Fused(),
            "matmul = matmul(x, w)\n"
            "exp = exp(b)\n"
            "cast = cast(exp)\n"
            "add = add(matmul, cast)\n");
}

// Its memory would be live while the product is computed.
TEST_F(CastBiasTest, StaysIfItIsLargerThanABias) {
  Tensor full = graph_.Input("full", F32({64, 32}));
  Tensor product = Product();
  graph_.SetOutput("y", Add(product, Cast(full, DType::kBF16)));
  EXPECT_EQ(Fused(),
            "matmul = matmul(x, w)\n"
            "cast = cast(full)\n"
            "add = add(matmul, cast)\n");
}

TEST_F(CastBiasTest, StaysIfItBelongsElsewhere) {
  Tensor product = Product();
  Tensor later = Exp(bias_);
  graph_.SetOutput("y", Add(product, Cast(bias_, DType::kBF16)));
  graph_.SetOutput("later", later);
  const std::string unchanged = Lines(Lowered());
  TestProgram on_stream(graph_, *backend_);
  on_stream.program.instructions[on_stream.Find("cast")].stream = on_stream.Stream("other");
  EXPECT_EQ(Fused(std::move(on_stream)), unchanged);
  TestProgram in_backward(graph_, *backend_);
  in_backward.program.instructions[in_backward.Find("cast")].phase = Phase::kBackward;
  EXPECT_EQ(Fused(std::move(in_backward)), unchanged);
  TestProgram waits(graph_, *backend_);
  waits.program.instructions[waits.Find("cast")].after = {waits.Value("exp")};
  EXPECT_EQ(Fused(std::move(waits)), unchanged);
}

// Casts of several products keep their order, each before its own.
TEST_F(CastBiasTest, OfEachLayerMovesBeforeItsProduct) {
  Tensor x = graph_.Input("x", BF16({64, 64}));
  Tensor b = graph_.Input("second.b", F32({64}));
  for (int i = 0; i < 2; ++i) {
    Tensor product = MatMul(x, graph_.Input(i == 0 ? "w" : "w_1", BF16({64, 64})));
    x = Add(product, Cast(b, DType::kBF16));
  }
  graph_.SetOutput("y", x);
  EXPECT_EQ(Fused(),
            "cast = cast(second.b)\n"
            "add = matmul+add(x, w, cast)\n"
            "cast_1 = cast(second.b)\n"
            "add_1 = matmul+add(add, w_1, cast_1)\n");
}

// --- A result that is cast to f32 ----------------------------------------------------------------

class StoreInF32Test : public FuseTest {
 protected:
  Tensor x_ = graph_.Input("x", BF16({64, 64}));
  Tensor w_ = graph_.Input("w", BF16({64, 64}));
};

TEST_F(StoreInF32Test, WhateverComputesIt) {
  graph_.SetOutput("product", Cast(MatMul(x_, w_), DType::kF32));
  graph_.SetOutput("sum", Cast(Add(x_, w_), DType::kF32));
  graph_.SetOutput("total", Cast(ReduceSum(x_, {0}), DType::kF32));
  EXPECT_EQ(Fused(),
            "cast = matmul+cast(x, w)\n"
            "cast_1 = add+cast(x, w)\n"
            "cast_2 = reduce_sum+cast(x)\n");
}

TEST_F(StoreInF32Test, BetweenAdditions) {
  Tensor row = graph_.Input("row", BF16({64}));
  Tensor earlier = graph_.Input("earlier", F32({64, 64}));
  graph_.SetOutput("y", Add(earlier, Cast(Add(MatMul(x_, w_), row), DType::kF32)));
  EXPECT_EQ(Fused(), "add_1 = matmul+add+cast+add(x, w, row, earlier)\n");
}

// The weight of qkv has a shape of its own: its gradient is reshaped before it is cast.
TEST_F(StoreInF32Test, ThroughAReshape) {
  Tensor gradient = Cast(Reshape(MatMul(x_, w_), {4, 16, 64}), DType::kF32);
  graph_.SetOutput("y", Square(gradient));
  TestProgram made(graph_, *backend_);
  ASSERT_TRUE(FusePass(chooser_, made.program).ok());
  EXPECT_EQ(Lines(made.program),
            "matmul.f32 = matmul+cast(x, w)\n"
            "square = square(cast)\n");
  const ProgramValue& stored = made.program.value(made.Value("matmul.f32"));
  EXPECT_EQ(stored.type, F32({64, 64}));
  EXPECT_EQ(stored.within, made.Value("cast"));
  const absl::Status finished = made.Finish();
  EXPECT_TRUE(finished.ok()) << finished;
}

TEST_F(StoreInF32Test, EachOutputByItself) {
  Tensor weight = graph_.Input("weight", BF16({64})), bias = graph_.Input("bias", BF16({64}));
  Tensor loss = ReduceSum(Square(Cast(LayerNorm(x_, weight, bias, 1e-5), DType::kF32)), {0, 1});
  const auto gradients = RecordGradients(graph_, loss, {x_, weight, bias});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph_.SetOutput("dx", (*gradients)[0]);
  graph_.SetOutput("dweight", Cast((*gradients)[1], DType::kF32));
  graph_.SetOutput("dbias", Cast((*gradients)[2], DType::kF32));
  TestProgram made(graph_, *backend_);
  for (Instruction& instruction : made.program.instructions) instruction.phase = Phase::kBackward;
  ASSERT_TRUE(FusePass(chooser_, made.program).ok());
  const Instruction& last = made.program.instructions.back();
  EXPECT_EQ(made.program.KernelOf(last).request.Key().substr(0, 57),
            "layer_norm_grad+cast[1]{dtype=f32}+cast[2]{dtype=f32} bf1");
  ASSERT_TRUE(made.Finish().ok());
  const Instruction& planned = made.program.instructions.back();
  EXPECT_EQ(made.program.value(planned.outputs[0]).buffer,
            made.program.value(planned.inputs[0]).buffer)
      << "an output without epilogues still overwrites an input";
}

// A result in 16 bits that something else needs is stored as such.
TEST_F(StoreInF32Test, UnlessItIsNeededInFewerBits) {
  Tensor product = MatMul(x_, w_);
  graph_.SetOutput("y", Cast(product, DType::kF32));
  const std::string unchanged = Lines(Lowered());
  Graph read_twice = graph_;
  read_twice.SetOutput("z", Square(read_twice.tensor(product.id())));
  EXPECT_EQ(Fused(TestProgram(read_twice, *backend_)),
            "matmul = matmul(x, w)\n"
            "cast = cast(matmul)\n"
            "square = square(matmul)\n");
  Graph is_output = graph_;
  is_output.SetOutput("z", is_output.tensor(product.id()));
  EXPECT_EQ(Fused(TestProgram(is_output, *backend_)), unchanged);
  Graph is_state = graph_;
  is_state.DeclareState("s", BF16({64, 64}), Role::kCache, Initializer::Constant(0));
  is_state.SetState("s", is_state.tensor(product.id()));
  EXPECT_EQ(Fused(TestProgram(is_state, *backend_)), unchanged);
}

// A view of the product that is not all of it.
TEST_F(StoreInF32Test, UnlessOnlyAPartIsRead) {
  const std::vector<Tensor> halves = Split(MatMul(x_, w_), 0, {32, 32});
  graph_.SetOutput("y", Cast(halves[1], DType::kF32));
  EXPECT_EQ(Fused(),
            "matmul = matmul(x, w)\n"
            "cast = cast(split.1)\n");
}

TEST_F(StoreInF32Test, UnlessItBelongsElsewhere) {
  graph_.SetOutput("y", Square(Cast(MatMul(x_, w_), DType::kF32)));
  const std::string unchanged = Lines(Lowered());
  TestProgram on_stream(graph_, *backend_);
  on_stream.program.instructions[on_stream.Find("cast")].stream = on_stream.Stream("other");
  EXPECT_EQ(Fused(std::move(on_stream)), unchanged);
  TestProgram recomputed(graph_, *backend_);
  recomputed.program.instructions[recomputed.Find("cast")].recomputed = true;
  EXPECT_EQ(Fused(std::move(recomputed)), unchanged);
}

// The kernels of matmul write row-major tensors.
TEST_F(StoreInF32Test, UnlessTheResultHasGaps) {
  for (const bool reshaped : {false, true}) {
    Graph graph("test");
    Tensor product = MatMul(graph.Input("x", BF16({64, 64})), graph.Input("w", BF16({64, 64})));
    if (reshaped) product = Reshape(product, {4, 16, 64});
    graph.SetOutput("y", Square(Cast(product, DType::kF32)));
    const std::string unchanged = Lines(TestProgram(graph, *backend_).program);
    TestProgram strided(graph, *backend_);
    const ProgramValueId result = strided.Value("cast");
    for (int64_t& stride : strided.program.values[result].strides) stride *= 2;
    ASSERT_TRUE(FusePass(chooser_, strided.program).ok());
    EXPECT_EQ(Lines(strided.program), unchanged);
    // On some rank, rows are shorter than the padded ones.
    TestProgram ragged(graph, *backend_);
    const Shape& shape = ragged.program.values[ragged.Value("cast")].type.shape;
    Shape global = shape;
    global.back() = 2 * shape.back() - 1;
    MeshLayout by_columns({AxisLayout::Split(static_cast<int>(shape.size()) - 1)});
    ragged.program.mesh = *Mesh::Create({{"model", 2}});
    ragged.program.values[ragged.Value("cast")].part = ragged.program.parts.push_back(
        {global, Shape(shape.size(), 0), global, std::move(by_columns)});
    ASSERT_TRUE(FusePass(chooser_, ragged.program).ok());
    EXPECT_EQ(Lines(ragged.program), unchanged);
  }
}

// Kernels compute in f32, so a cast to fewer bits, or between formats of 16, is a rounding.
TEST_F(StoreInF32Test, UnlessTheCastRounds) {
  graph_.SetOutput("y", Cast(MatMul(x_, w_), DType::kF16));
  EXPECT_EQ(Fused(), Lines(Lowered()));
}

}  // namespace
}  // namespace tessera
