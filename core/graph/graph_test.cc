#include "core/graph/graph.h"

#include <string>

#include "core/graph/testing/operators.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing_operators::Halve;
using testing_operators::Plus;
using testing_operators::Round;
using testing_operators::Times;

const TensorType& Four() {
  static const TensorType* const type = new TensorType{DType::kF32, {4}};
  return *type;
}

Value FourNamed(const std::string& path) {
  Value value;
  value.path = path;
  value.type = Four();
  return value;
}

std::string PathOf(Tensor tensor) { return tensor.graph()->value(tensor.id()).path; }

// --- Recording -----------------------------------------------------------------------------------

TEST(GraphTest, PathsComeFromScopes) {
  Graph graph("g");
  const Tensor x = graph.Input("x", Four(), 0);
  {
    Scope outer(&graph, "blocks.0", Scope::kBlock);
    EXPECT_EQ(PathOf(Round(x)), "blocks.0.round");
    {
      Scope inner(&graph, "mlp");
      EXPECT_EQ(PathOf(graph.Parameter("weight", {4}, Initializer::Constant(0))),
                "blocks.0.mlp.weight");
      EXPECT_EQ(PathOf(Round(x)), "blocks.0.mlp.round");
    }
    EXPECT_EQ(PathOf(Round(x)), "blocks.0.round_1");
    EXPECT_EQ(PathOf(Round(x)), "blocks.0.round_2");
  }
  EXPECT_EQ(PathOf(Round(x)), "round");
  EXPECT_THAT(graph.blocks(), ElementsAre("blocks.0"));
}

TEST(GraphTest, ABlockIsAScopeThatWasMarked) {
  Graph graph("g");
  const Tensor x = graph.Input("x", Four());
  const auto block_of = [&](Tensor value) {
    return graph.op(graph.value(value.id()).producer).block;
  };
  {
    Scope block(&graph, "blocks.0", Scope::kBlock);
    Scope inner(&graph, "mlp");
    EXPECT_EQ(block_of(Round(x)), BlockId(0));
  }
  {
    Scope block(&graph, "blocks.1", Scope::kBlock);
    EXPECT_EQ(block_of(Round(x)), BlockId(1));
  }
  EXPECT_EQ(block_of(Round(x)), kNone);
  // A scope that is not a block does not put ops into a block, even if it has a block's path.
  Scope plain(&graph, "blocks.0");
  EXPECT_EQ(block_of(Round(x)), kNone);
}

TEST(GraphTest, OutputsHaveNames) {
  Graph graph("g");
  const std::vector<Tensor> halves = Halve(graph.Input("x", Four()));
  EXPECT_EQ(PathOf(halves[0]), "halve.low");
  EXPECT_EQ(PathOf(halves[1]), "halve.high");
  EXPECT_EQ(graph.op(OpId(0)).path, "halve");
  EXPECT_EQ(graph.value(halves[1].id()).output_index, 1);
  EXPECT_EQ(graph.value(halves[1].id()).producer, OpId(0));
  EXPECT_EQ(graph.FindValue("halve.high"), halves[1].id());
  EXPECT_EQ(graph.FindValue("halve"), kNone);
}

TEST(GraphTest, PathsOfOperatorsWithNamedOutputsAreUnique) {
  Graph graph("g");
  const Tensor x = graph.Input("x", Four());
  const std::vector<Tensor> first = Halve(x), second = Halve(x);
  EXPECT_EQ(graph.op(OpId(0)).path, "halve");
  EXPECT_EQ(graph.op(OpId(1)).path, "halve_1");
  EXPECT_EQ(PathOf(first[0]), "halve.low");
  EXPECT_EQ(PathOf(second[0]), "halve_1.low");
  // A rewriting gets unique paths, too.
  Graph to("to");
  to.AppendInput(graph.value(x.id()), kNone, "x");
  for (const char* output : {"a", "b"}) {
    const Op& op = graph.op(OpId(0));
    to.AppendOp(op, {FourNamed(output)});
  }
  EXPECT_EQ(to.op(OpId(0)).path, "halve");
  EXPECT_EQ(to.op(OpId(1)).path, "halve_1");
}

TEST(GraphTest, AUseThatDoesNotFitReturnsNoHandles) {
  Graph graph("g");
  EXPECT_TRUE(Halve(graph.Input("odd", {DType::kF32, {5}})).empty());
  EXPECT_FALSE(graph.status().ok());
  EXPECT_FALSE(Plus(graph.Input("x", Four()), Tensor()).valid());
}

TEST(GraphTest, AnOperatorTakesTheNameThatItIsGiven) {
  Graph graph("g");
  const Tensor x = graph.Input("x", Four());
  const Operator& kind = *graph.op(graph.value(Round(x).id()).producer).kind;
  EXPECT_EQ(PathOf(graph.Record1(kind, {x}, {}, "nearest")), "nearest");
}

TEST(GraphTest, RolesAndPhasesFollowTheRecording) {
  Graph graph("g");
  const Tensor x = graph.Input("x", Four());
  const Tensor forward = Round(x);
  graph.set_phase(Phase::kBackward);
  const Tensor backward = Round(x);
  graph.set_phase(Phase::kUpdate);
  const Tensor update = Round(x);
  EXPECT_EQ(graph.value(x.id()).role, Role::kInput);
  EXPECT_EQ(graph.value(forward.id()).role, Role::kActivation);
  EXPECT_EQ(graph.value(backward.id()).role, Role::kGradient);
  EXPECT_EQ(graph.value(update.id()).role, Role::kActivation);
  EXPECT_EQ(graph.op(OpId(0)).phase, Phase::kForward);
  EXPECT_EQ(graph.op(OpId(1)).phase, Phase::kBackward);
  EXPECT_EQ(graph.op(OpId(2)).phase, Phase::kUpdate);
}

TEST(GraphTest, HandlesHaveADTypeAndAShape) {
  Graph graph("g");
  const Tensor x = graph.Input("x", {DType::kI32, {2, 3}});
  EXPECT_EQ(x.rank(), 2);
  EXPECT_EQ(x.dtype(), DType::kI32);
  EXPECT_EQ(x.dim(1), 3);
  EXPECT_EQ(x.dim(-2), 2);
  EXPECT_EQ(x.dim(2), 1);
  const Tensor invalid;
  EXPECT_FALSE(invalid.valid());
  EXPECT_EQ(invalid.rank(), 0);
  EXPECT_EQ(invalid.dim(0), 1);
}

TEST(GraphTest, ACopyIsAGraphOfItsOwn) {
  Graph graph("g");
  Round(graph.Input("x", Four()));
  Graph copy = graph;
  copy.set_name("copy");
  Round(copy.tensor(copy.FindValue("x")));
  EXPECT_EQ(graph.ops().size(), 1u);
  EXPECT_EQ(copy.ops().size(), 2u);
  EXPECT_EQ(copy.value(copy.op(OpId(1)).outputs[0]).path, "round_1");
}

// --- State ---------------------------------------------------------------------------------------

TEST(GraphStateTest, ATiedWeightIsOneValue) {
  Graph graph("g");
  const Tensor first = graph.Parameter("wte.weight", {5, 4}, Initializer::Normal(0, 0.02));
  const Tensor again = graph.Parameter("wte.weight", {5, 4}, Initializer::Normal(0, 0.02));
  EXPECT_EQ(first.id(), again.id());
  EXPECT_EQ(graph.states().size(), 1u);
  EXPECT_TRUE(graph.status().ok());
}

TEST(GraphStateTest, TwoShapesOfOneStateAreAnError) {
  Graph graph("g");
  graph.Parameter("wte.weight", {5, 4}, Initializer::Constant(0));
  EXPECT_FALSE(graph.Parameter("wte.weight", {4, 5}, Initializer::Constant(0)).valid());
  EXPECT_EQ(graph.status().message(),
            "state 'wte.weight' is declared as f32[5, 4] and again as f32[4, 5]");
}

TEST(GraphStateTest, KeepsItsInputValueUnlessSet) {
  Graph graph("g");
  const Tensor w = graph.Parameter("w", {4}, Initializer::Constant(1));
  EXPECT_EQ(graph.FindState("w")->updated, w.id());
  const Tensor next = Plus(w, w);
  graph.SetState("w", next);
  EXPECT_EQ(graph.FindState("w")->input, w.id());
  EXPECT_EQ(graph.FindState("w")->updated, next.id());
  EXPECT_EQ(graph.value(next.id()).role, Role::kParameter);
  EXPECT_EQ(graph.FindState("v"), nullptr);
}

TEST(GraphStateTest, MayBeWrittenWithoutBeingRead) {
  Graph graph("initialize");
  const State like{"w",  Four(), Role::kParameter, Initializer::Constant(2),
                   true, false,  ValueId(0)};
  graph.WriteState(like, testing_operators::Constant(graph, Four(), 2));
  const State* state = graph.FindState("w");
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->input, kNone);
  EXPECT_EQ(state->updated, graph.FindValue("constant"));
}

TEST(GraphStateTest, IsRefusedAsSoonAsItExceedsTheLimit) {
  Graph graph("g");
  graph.LimitState({.count = 2, .bytes = 40});
  const Tensor fits = graph.Parameter("a", {4}, Initializer::Constant(0));
  EXPECT_TRUE(fits.valid());
  EXPECT_TRUE(graph.Parameter("few", {100}, Initializer::Constant(0)).valid()) << "two states";
  const Tensor b = graph.Parameter("b", {7}, Initializer::Constant(0));
  EXPECT_FALSE(b.valid());
  Plus(b, b);
  EXPECT_TRUE(graph.ops().empty());
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(graph.status().message(),
            "the state up to 'b' takes 444 bytes, more than the limit of 40");
}

// --- Errors --------------------------------------------------------------------------------------

TEST(GraphErrorsTest, TheFirstErrorIsKeptAndInvalidHandlesArePassedOn) {
  Graph graph("g");
  const Tensor x = graph.Input("x", Four());
  Tensor bad;
  {
    Scope scope(&graph, "mlp");
    bad = Plus(x, graph.Parameter("bias", {5}, Initializer::Constant(0)));
  }
  EXPECT_FALSE(bad.valid());
  EXPECT_FALSE(Times(x, bad).valid());
  EXPECT_FALSE(Times(bad, x).valid());
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(graph.status().message(), "mlp.plus (plus): a is f32[4], b f32[5]");
  graph.SetState("mlp.bias", bad);
  graph.SetOutput("y", bad);
  EXPECT_TRUE(graph.ops().empty());
  EXPECT_TRUE(graph.outputs().empty());
}

TEST(GraphErrorsTest, NameWhatIsDeclaredTwice) {
  Graph graph("g");
  graph.Input("x", Four());
  EXPECT_FALSE(graph.Input("x", Four()).valid());
  EXPECT_EQ(graph.status().message(), "input 'x' is declared twice");
  Graph other("other");
  other.Input("x", Four());
  EXPECT_FALSE(other.Parameter("x", {4}, Initializer::Constant(0)).valid());
  EXPECT_EQ(other.status().message(), "state 'x' has the path of another value");
}

TEST(GraphErrorsTest, AStateKeepsItsType) {
  Graph graph("g");
  const Tensor w = graph.Parameter("w", {4}, Initializer::Constant(0));
  graph.SetState("w", Halve(w)[0]);
  EXPECT_EQ(graph.status().message(), "state 'w' is f32[4], its updated value f32[2]");
  Graph other("other");
  other.SetState("w", other.Input("x", Four()));
  EXPECT_EQ(other.status().message(), "no state 'w' to set");
}

// --- Rewriting -----------------------------------------------------------------------------------

TEST(GraphRewritingTest, ValuesGetOtherPaths) {
  Graph graph("g");
  const Tensor y = Round(graph.Input("x", Four()));
  graph.Rename(y.id(), "y");
  EXPECT_EQ(PathOf(y), "y");
  EXPECT_EQ(graph.FindValue("round"), kNone);
  EXPECT_EQ(graph.FindValue("y"), y.id());
  // The op keeps its path, so another use of the operator gets another one.
  EXPECT_EQ(graph.op(OpId(0)).path, "round");
  EXPECT_EQ(PathOf(Round(y)), "round_1");
  graph.Rename(y.id(), "y");
  EXPECT_EQ(graph.FindValue("y"), y.id());
}

TEST(GraphRewritingDeathTest, APathOfTwoValuesFailsACheck) {
  Graph graph("g");
  const Tensor y = Round(graph.Input("x", Four()));
  EXPECT_DEATH(graph.Rename(y.id(), "x"), "path taken: x");
}

TEST(GraphRewritingDeathTest, AnOrderEdgeToALaterOperatorFailsACheck) {
  Graph graph("g");
  const Tensor y = Round(graph.Input("x", Four()));
  Round(y);
  graph.AddOrderEdge(OpId(1), OpId(0));
  EXPECT_THAT(graph.op(OpId(1)).after, ElementsAre(OpId(0)));
  EXPECT_DEATH(graph.AddOrderEdge(OpId(0), OpId(1)), "round after round_1");
}

TEST(GraphRewritingTest, AppendsWithoutCallingTheShapeRule) {
  Graph from("from"), to("to");
  Round(from.Input("x", Four(), 0));
  from.Parameter("w", {4}, Initializer::Constant(0));
  const ValueId x = to.AppendInput(from.value(from.FindValue("x")), 0, "x");
  const ValueId w = to.AppendState(*from.FindState("w"));
  Op op = from.op(OpId(0));
  op.inputs = {w};
  const OpId id = to.AppendOp(op, {FourNamed("y")});
  EXPECT_EQ(to.FindValue("y"), to.op(id).outputs[0]);
  EXPECT_EQ(to.inputs()[0].value, x);
  EXPECT_EQ(to.FindState("w")->input, w);
}

TEST(InScopeTest, ComparesFullNames) {
  EXPECT_TRUE(InScope("blocks.1.ln1", "blocks.1"));
  EXPECT_TRUE(InScope("blocks.1.ln1.weight", "blocks.1"));
  EXPECT_FALSE(InScope("blocks.10.ln1", "blocks.1"));
  EXPECT_FALSE(InScope("blocks.1", "blocks.1"));
}

}  // namespace
}  // namespace tessera
