// Checks the messages of every model's Graphs: reading returns the Graph that was written, and a
// changed message is refused or is another valid Graph.
#include "core/graph/graph_proto.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/ops/operator_list.h"
#include "core/plan/rewrite/rewrite.h"
#include "core/plan/rewrite/slices.h"
#include "core/train/programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/programs/small_models.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Returns the Graphs with their head and embedding in slices.
std::vector<Graph> SlicedGraphs(const std::vector<Graph>& graphs) {
  Stage stage;
  SliceChoice& slice = *stage.add_slice();
  slice.set_path("head.weight|wte.weight");
  slice.set_count(3);
  return SliceGraphs(graphs, FindSlices(stage, graphs).value()).value();
}

// Returns all Graphs of a run: recorded, in slices, and rewritten into 2 micro-batches with
// recomputation and kept logits.
std::vector<Graph> GraphsOf(const std::string& model) {
  RunConfig config;
  config.set_batch(4);
  config.set_sequence(12);
  config.set_micro_batches(2);
  config.set_recompute("block");
  config.mutable_sample()->set_tokens(5);
  config.mutable_optimizer()->set_kind("adamw");
  config.mutable_optimizer()->set_clip_norm(1);
  std::vector<Graph> graphs = RecordRun(*MakeModel(model), config, RunGraphs::kAll).value();
  const Plan plan = PlanOfConfig(config, graphs);
  const size_t recorded = graphs.size();
  for (Graph& sliced : SlicedGraphs(graphs)) graphs.push_back(std::move(sliced));
  for (size_t i = 0; i < recorded; ++i) {
    PlanPart part = plan.stages(0).parts(static_cast<int>(i));
    part.set_logits(PlanPart::KEPT);
    graphs.push_back(RewriteGraph(graphs[i], part).value());
    graphs.push_back(RewriteGraph(graphs[recorded + i], part).value());
    if (part.micro_batches() > 1) {
      graphs.push_back(RewriteGraph(graphs[i], part, {"tokens", "targets"}).value());
    }
  }
  return graphs;
}

TEST(GraphProtoTest, EveryGraphOfEveryModelIsReadAsItWasWritten) {
  int graphs = 0;
  for (const std::string model : {"mlp", "gpt_tied", "gpt_untied", "gpt_dropout"}) {
    for (const Graph& graph : GraphsOf(model)) {
      const std::string bytes = GraphToProto(graph).SerializeAsString();
      GraphProto message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      const absl::StatusOr<Graph> read = GraphFromProto(message, FindOperator);
      ASSERT_TRUE(read.ok()) << model << ": " << read.status();
      EXPECT_EQ(read->ToString(), graph.ToString()) << model;
      EXPECT_EQ(GraphToProto(*read).SerializeAsString(), bytes) << model;
      EXPECT_EQ(read->blocks(), graph.blocks());
      for (const State& state : graph.states()) {
        ASSERT_NE(read->FindState(state.path), nullptr) << state.path;
        EXPECT_EQ(read->FindState(state.path)->origin, state.origin) << state.path;
        EXPECT_EQ(read->FindState(state.path)->updated, state.updated) << state.path;
      }
      for (const OpId i : graph.ops().ids()) {
        const Op& op = graph.ops()[i];
        EXPECT_FALSE(read->PathIsFree(op.path)) << op.path;
        EXPECT_EQ(read->ops()[i].slice_of.str(), op.slice_of.str()) << op.path;
        EXPECT_EQ(read->ops()[i].slice, op.slice) << op.path;
      }
      ++graphs;
    }
  }
  EXPECT_EQ(graphs, 4 * (4 + 4 + 4 + 4 + 2));
}

class BadGraphProto : public ::testing::Test {
 protected:
  std::string Error() {
    const absl::StatusOr<Graph> read = GraphFromProto(message_, FindOperator);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << read.status();
    return std::string(read.status().message());
  }
  GraphProto::Op& OpOf(const std::string& path) {
    for (GraphProto::Op& op : *message_.mutable_ops()) {
      if (op.path() == path) return op;
    }
    ADD_FAILURE() << path;
    return *message_.mutable_ops(0);
  }

  GraphProto message_ = GraphToProto(GraphsOf("mlp")[1]);
};

TEST_F(BadGraphProto, AnOperatorThatDoesNotExistIsNamed) {
  OpOf("loss.valid_mask").set_kind("valid_musk");
  EXPECT_EQ(Error(),
            "graph 'train': op 'loss.valid_mask': operator 'valid_musk', which this version does "
            "not know");
}

TEST_F(BadGraphProto, AnIdOutOfRangeIsNamed) {
  OpOf("loss.valid_mask").set_inputs(0, 100000);
  EXPECT_EQ(Error(), "graph 'train': op 'loss.valid_mask': value 100000 does not exist");
}

TEST_F(BadGraphProto, AnOpBeforeWhatItReadsIsRefused) {
  GraphProto::Op& op = OpOf("loss.valid_mask");
  op.set_inputs(0, op.outputs(0));
  EXPECT_EQ(Error(), "graph 'train': op 'loss.valid_mask': it reads 'loss.valid_mask', made later");
}

TEST_F(BadGraphProto, OutputsThatDoNotFollowFromInputsAreRefused) {
  GraphProto::Value& value = *message_.mutable_values(OpOf("loss.valid_mask").outputs(0));
  value.mutable_type()->set_shape(0, 7);
  EXPECT_THAT(Error(), HasSubstr("op 'loss.valid_mask': valid_mask makes outputs of other types"));
}

TEST_F(BadGraphProto, TwoValuesOfOnePathAreRefused) {
  message_.mutable_values(OpOf("loss.valid_mask").outputs(0))->set_path("tokens");
  EXPECT_EQ(Error(), "graph 'train': value 'tokens': another value has this path");
}

TEST_F(BadGraphProto, AStateWithoutItsValueIsRefused) {
  GraphProto::State& state = *message_.mutable_states(0);
  state.set_path("other");
  EXPECT_EQ(Error(),
            "graph 'train': state 'other': its input value has another path, type or role");
}

TEST_F(BadGraphProto, AHugeTensorIsRefused) {
  message_.mutable_values(0)->mutable_type()->set_shape(0, int64_t{1} << 60);
  EXPECT_THAT(Error(), HasSubstr("value 'tokens': a tensor with a dimension of 11529215046068469"));
}

// Arbitrary bytes of a plugin are an error or a Graph.
TEST_F(BadGraphProto, ChangedBytesAreRefusedOrAnotherGraph) {
  const std::string bytes = message_.SerializeAsString();
  std::mt19937 random(1);
  int refused = 0, right = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string changed = bytes;
    changed[random() % changed.size()] = static_cast<char>(random());
    GraphProto message;
    if (!message.ParseFromString(changed)) continue;
    const absl::StatusOr<Graph> read = GraphFromProto(message, FindOperator);
    if (read.ok()) {
      ++right;  // a path, an attribute, or a field that is not known
      const GraphProto written = GraphToProto(*read);
      const absl::StatusOr<Graph> again = GraphFromProto(written, FindOperator);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(GraphToProto(*again).SerializeAsString(), written.SerializeAsString());
    } else {
      ++refused;
      EXPECT_EQ(read.status().message().find('\n'), absl::string_view::npos) << read.status();
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(right, 100);
}

}  // namespace
}  // namespace tessera
