// Checks that the signatures of GPT's operators carry a split by heads through the attention.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/layout/layout.h"
#include "core/layout/signature_fit.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kHeads = 4, kHeadDim = 3, kChannels = kHeads * kHeadDim;

// Computes the layouts of a Graph's values along an axis of `ranks` ranks: each operator takes a
// signature that fits the layouts of its inputs. Partial sums are all-reduced before they are read.
class LayoutWalk {
 public:
  LayoutWalk(const Graph& graph, int64_t ranks)
      : graph_(graph), axis_{ranks, /*even=*/false}, layouts_(graph.values().size()) {}

  void Store(absl::string_view path, AxisLayout layout) {
    const ValueId value = graph_.FindValue(path);
    ASSERT_NE(value, kNone) << path;
    layouts_[value] = layout;
  }

  void Walk() {
    for (const Op& op : graph_.ops()) Visit(op);
  }

  std::string LayoutOf(absl::string_view path) const {
    const ValueId value = graph_.FindValue(path);
    return value == kNone ? absl::StrCat("no value ", path) : layouts_[value].ToString();
  }
  // The partial sums that were read, in order.
  const std::vector<std::string>& all_reduced() const { return all_reduced_; }

 private:
  void Visit(const Op& op) {
    std::vector<Arriving> arriving;
    bool any_split = false;
    for (ValueId input : op.inputs) {
      if (layouts_[input].partial()) {
        all_reduced_.push_back(graph_.value(input).path);
        layouts_[input] = AxisLayout::Broadcast();
      }
      arriving.push_back(layouts_[input]);
      any_split = any_split || layouts_[input].split();
    }
    if (!any_split) return;  // every rank computes the full operator
    const std::vector<TensorType> inputs = graph_.TypesOf(op.inputs);
    const std::vector<TensorType> outputs = graph_.TypesOf(op.outputs);
    const std::vector<Signature> signatures = op.kind->Signatures({inputs, outputs, op.attributes});
    const auto fit = BestSignature({signatures, inputs, outputs}, arriving, axis_);
    ASSERT_TRUE(fit.has_value()) << op.path << " has no signature for its inputs";
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      EXPECT_EQ(fit->inputs[i].ToString(), arriving[i]->ToString())
          << op.path << " needs input " << i << " in another layout";
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) layouts_[op.outputs[i]] = fit->outputs[i];
  }

  const Graph& graph_;
  const SplitAxis axis_;
  Table<ValueId, AxisLayout> layouts_;
  std::vector<std::string> all_reduced_;
};

// Returns the Graph of a step of one block, with the gradient of every parameter.
Graph StepGraph() {
  GptConfig config;
  config.set_layers(1);
  config.set_heads(kHeads);
  config.set_channels(kChannels);
  config.set_vocabulary(11);
  config.set_context(5);
  Graph graph("step");
  const auto model = CreateGpt(config);
  EXPECT_TRUE(model.ok()) << model.status();
  const Tensor loss = (*model)->RecordLoss(graph, 2, 5, /*training=*/true).loss.mean;
  std::vector<Tensor> parameters;
  for (const State& state : graph.states()) parameters.push_back(graph.tensor(state.input));
  EXPECT_TRUE(RecordGradients(graph, loss, parameters).ok());
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return graph;
}

class HeadsSplitTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(HeadsSplitTest, ReachesTheAttentionAndItsGradientWithoutCommunication) {
  const Graph graph = StepGraph();
  LayoutWalk walk(graph, GetParam());
  walk.Store("blocks.0.attn.qkv.weight", AxisLayout::Split(0));
  walk.Store("blocks.0.attn.qkv.bias", AxisLayout::Split(0));
  walk.Store("blocks.0.attn.proj.weight", AxisLayout::Split(1, kHeadDim));
  walk.Walk();

  const std::string units = absl::StrCat(3 * kHeadDim);
  EXPECT_EQ(walk.LayoutOf("blocks.0.attn.qkv.add"), "S(2, " + units + ")");
  for (const char* name : {"split", "split.1", "split.2"}) {
    EXPECT_EQ(walk.LayoutOf(absl::StrCat("blocks.0.attn.", name)), "S(2)") << name;
  }
  EXPECT_EQ(walk.LayoutOf("blocks.0.attn.attention"), "S(2)");
  EXPECT_EQ(walk.LayoutOf("blocks.0.attn.attention.lse"), "S(1)");
  EXPECT_EQ(walk.LayoutOf("blocks.0.attn.qkv.add.grad"), "S(2, " + units + ")");
  // A gradient has the layout in which its parameter is stored.
  EXPECT_EQ(walk.LayoutOf("blocks.0.attn.qkv.weight.grad"), "S(0)");
  EXPECT_EQ(walk.LayoutOf("blocks.0.attn.qkv.bias.grad"), "S(0)");
  EXPECT_EQ(walk.LayoutOf("blocks.0.attn.proj.weight.grad"), "S(1, 3)");
  // One all-reduce at the end of the attention, and one at the end of its gradient.
  EXPECT_THAT(walk.all_reduced(),
              ElementsAre("blocks.0.attn.proj.matmul", "blocks.0.ln1.layer_norm.grad"));
}

// 3 ranks hold 2, 2 and no heads.
INSTANTIATE_TEST_SUITE_P(Ranks, HeadsSplitTest, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace tessera
