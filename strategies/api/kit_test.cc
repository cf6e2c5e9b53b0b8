// Checks what the kit adds to the messages: the description of a model, and the builder of Plans.
#include "strategies/api/kit.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "strategies/api/signature.h"

namespace tessera::strategy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Adds a value, and returns its id.
int AddValue(const std::string& path, int producer, GraphProto& graph) {
  GraphProto::Value& value = *graph.add_values();
  value.set_path(path);
  value.set_producer(producer);
  return graph.values_size() - 1;
}

GraphProto::Op& AddOp(const std::string& path, std::initializer_list<int> inputs,
                      GraphProto& graph) {
  GraphProto::Op& op = *graph.add_ops();
  op.set_path(path);
  op.set_block(-1);
  for (const int input : inputs) op.add_inputs(input);
  return op;
}

GraphProto::State& AddState(const std::string& path, GraphProto::Role role,
                            std::initializer_list<int> shape, GraphProto& graph) {
  GraphProto::State& state = *graph.add_states();
  state.set_path(path);
  state.set_role(role);
  for (const int size : shape) state.mutable_type()->add_shape(size);
  state.set_input(AddValue(path, -1, graph));
  state.set_updated(state.input());
  return state;
}

// Returns the Graph of a model with a parameter "b.0.w" of 4 x 8, which an operator multiplies by
// the input "x", and another one updates together with "b.0.w.m", the number of steps and a
// running statistic.
RunGraphs SmallGraphs() {
  RunGraphs graphs;
  GraphProto& graph = *graphs.add_graphs();
  graph.set_name("train");
  graph.add_blocks("b.0");
  GraphProto::Input& input = *graph.add_inputs();
  input.set_value(AddValue("x", -1, graph));
  input.set_batch_dim(0);
  GraphProto::State& weight = AddState("b.0.w", GraphProto::PARAMETER, {4, 8}, graph);
  weight.set_trainable(true);
  AddOp("b.0.matmul", {input.value(), weight.input()}, graph).set_block(0);
  AddState("b.0.w.m", GraphProto::OPTIMIZER_STATE, {4, 8}, graph);
  AddState("step", GraphProto::OPTIMIZER_STATE, {}, graph);
  AddState("b.0.w.average", GraphProto::RUNNING_STATISTIC, {4, 8}, graph);
  AddOp("b.0.w.update", {weight.input()}, graph).set_phase(GraphProto::UPDATE);
  for (GraphProto::State& state : *graph.mutable_states()) {
    state.set_updated(AddValue(state.path() + ".updated", 1, graph));
  }
  return graphs;
}

TEST(KitTest, AModelIsDescribedByItsGraphs) {
  const ModelInfo model = DescribeModel(SmallGraphs());
  EXPECT_EQ(model.graph, "train");
  EXPECT_THAT(model.blocks, ElementsAre("b.0"));
  ASSERT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.inputs[0].batch_dim, 0);
  ASSERT_EQ(model.parameters.size(), 1u);
  const ParameterInfo& weight = model.parameters[0];
  EXPECT_EQ(weight.bytes, 128);
  EXPECT_EQ(model.BlockOf(weight), "b.0");
  EXPECT_THAT(model.TrainablePathsIn(0), ElementsAre("b.0.w"));
  // The number of steps has another shape, so it is nobody's; a running statistic is no parameter.
  ASSERT_EQ(weight.optimizer_states.size(), 1u);
  EXPECT_EQ(weight.optimizer_states[0].path, "b.0.w.m");
  EXPECT_EQ(weight.optimizer_states[0].bytes, 128);
  EXPECT_THAT(weight.split_dimensions, IsEmpty());
}

OperatorDescriptions Describe(const std::vector<std::string>& of_matmul) {
  OperatorDescriptions operators;
  OperatorDescriptions::Operator& matmul = *operators.add_operators();
  matmul.set_path("b.0.matmul");
  for (const std::string& signature : of_matmul) matmul.add_signatures(signature);
  OperatorDescriptions::Operator& update = *operators.add_operators();
  update.set_path("b.0.w.update");
  update.add_signatures("S(0) -> S(0), S(0)");
  update.add_signatures("S(1) -> S(1), S(1)");
  return operators;
}

TEST(KitTest, AParameterMaySplitWhereAllItsReadersHaveASignature) {
  const RunGraphs graphs = SmallGraphs();
  const auto splits = [&](const std::vector<std::string>& of_matmul) {
    ModelInfo model = DescribeModel(graphs);
    EXPECT_TRUE(SetSplitDimensions(graphs.graphs(0), Describe(of_matmul), model).ok());
    return model.parameters[0].split_dimensions;
  };
  EXPECT_THAT(splits({"S(0), B -> S(0)"}), IsEmpty());
  EXPECT_THAT(splits({"B, S(1, 64) -> S(1, 64)"}), ElementsAre(1));
  EXPECT_THAT(splits({"S(1, 2), S(0, 2) -> P", "B, S(1) -> S(1)"}), ElementsAre(0, 1));
  ModelInfo model = DescribeModel(graphs);
  OperatorDescriptions fewer = Describe({});
  fewer.mutable_operators()->RemoveLast();
  EXPECT_THAT(SetSplitDimensions(graphs.graphs(0), fewer, model).message(),
              HasSubstr("not those of the Graph's operators"));
}

TEST(KitTest, ASignatureHasTheLayoutsOfInputsAndOutputs) {
  const Signature signature = ParseSignature("B, S(0, 128), P -> P(lse), S(12)");
  EXPECT_THAT(signature.inputs, ElementsAre("B", "S(0, 128)", "P"));
  EXPECT_THAT(signature.outputs, ElementsAre("P(lse)", "S(12)"));
  EXPECT_EQ(SplitDimension(signature.inputs[1]), 0);
  EXPECT_EQ(SplitDimension(signature.outputs[1]), 12);
  EXPECT_EQ(SplitDimension("B"), -1);
  EXPECT_TRUE(IsPartial(signature.outputs[0]));
  EXPECT_FALSE(IsPartial("S(0)"));
  EXPECT_THAT(ParseSignature("-> S(0)").inputs, IsEmpty());
  EXPECT_THAT(ParseSignature("-> S(0)").outputs, ElementsAre("S(0)"));
  EXPECT_THAT(ParseSignature("B").inputs, ElementsAre("B"));
  EXPECT_THAT(ParseSignature("B").outputs, IsEmpty());
}

TEST(KitTest, TheScopeThatAPatternNames) {
  EXPECT_EQ(ScopeThatMatches("b.*", "b.10.mlp.w"), "b.10");
  EXPECT_EQ(ScopeThatMatches("b.1", "b.10.mlp.w"), "");
  EXPECT_EQ(ScopeThatMatches("b.1*.m*p", "b.10.mlp.w"), "b.10.mlp");
  EXPECT_EQ(ScopeThatMatches("b.*.*.*.*", "b.10.mlp.w"), "");
  EXPECT_EQ(ScopeThatMatches("", "b.10.mlp.w"), "");
  EXPECT_EQ(ScopeThatMatches("c||b.*.mlp|b.*", "b.10.mlp.w"), "b.10.mlp")
      << "the first one decides";
}

TEST(KitTest, APlanIsBuilt) {
  PlanBuilder builder;
  builder.Axis("replica", 2);
  builder.Axis("shard");
  ModelInfo model;
  model.inputs = {{"tokens", 1}, {"mask", -1}};
  builder.SplitBatch(model);
  builder.Batch(32);
  builder.Compute("head", "shard: B");
  builder.Group({"a", "b"}, {"shard"}).set_gather(GroupChoice::ONCE);
  builder.Precision(TypeProto::F32, TypeProto::BF16);
  builder.Logits("train", PlanPart::RECOMPUTED);
  builder.Logits("train", PlanPart::KEPT);
  const Plan plan = builder.Build();
  EXPECT_EQ(plan.batch(), 32);
  ASSERT_EQ(plan.stages_size(), 1);
  const Stage& stage = plan.stages(0);
  ASSERT_EQ(stage.mesh_size(), 2);
  EXPECT_EQ(stage.mesh(0).size(), 2);
  ASSERT_EQ(stage.store_size(), 1) << "an input that is the same for all rows is not split";
  EXPECT_EQ(stage.store(0).layout(), "replica: S(1), shard: S(1)");
  EXPECT_EQ(stage.compute(0).signature(), "shard: B");
  EXPECT_EQ(stage.group(0).path(), "a|b");
  EXPECT_THAT(stage.group(0).over(), ElementsAre("shard"));
  EXPECT_FALSE(stage.precision().has_parameters());
  EXPECT_EQ(stage.precision().reduction(), TypeProto::BF16);
  ASSERT_EQ(stage.parts_size(), 1);
  EXPECT_EQ(stage.parts(0).graph(), "train");
  EXPECT_EQ(stage.parts(0).logits(), PlanPart::KEPT);
  // No precision at all is stated if both are the default.
  PlanBuilder in_f32;
  in_f32.Precision(TypeProto::F32, TypeProto::F32);
  EXPECT_FALSE(in_f32.stage().has_precision());
}

}  // namespace
}  // namespace tessera::strategy
