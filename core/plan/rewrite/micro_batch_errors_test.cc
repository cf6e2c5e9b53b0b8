// Tests the errors for Graphs that cannot be split into micro-batches.
#include <string>
#include <vector>

#include "core/ops/ops.h"
#include "core/plan/testing/micro_batches.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::string Error(const Graph& graph, int64_t micro_batches) {
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  const auto split = SplitIntoMicroBatches(graph, micro_batches);
  EXPECT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument);
  const absl::string_view message = split.status().message();
  return {message.data(), message.size()};
}

// An operator with a signature that contradicts its shape rule.
class WrongOp : public Operator {
 public:
  absl::string_view name() const override { return "wrong"; }
  std::vector<Signature> Signatures(const OpTypes&) const override {
    return {{{AxisLayout::Split(0)}, {AxisLayout::Split(0)}}};
  }
  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes&) const override {
    return std::vector<TensorType>{{inputs[0].dtype, {4}}};
  }
};

TEST(MicroBatchErrorsTest, ASignatureThatTheShapeRuleContradictsIsAnInternalError) {
  static const WrongOp kind;
  Graph graph("wrong");
  graph.SetOutput("y", graph.Record1(kind, {graph.Input("x", F32({4}), 0)}));
  const auto split = SplitIntoMicroBatches(graph, 2);
  EXPECT_EQ(split.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(split.status().message()), HasSubstr("'wrong@0' (wrong)"));
}

TEST(MicroBatchErrorsTest, NameTheValueThatNeedsTheFullBatch) {
  Graph graph("normalize");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  const Tensor w = graph.Parameter("w", {2, 3}, Initializer::Constant(1));
  const Tensor y = Linear(x, w);
  graph.SetOutput("y", ReduceSum(Divide(y, ReduceMax(y, {0})), {0, 1}));
  EXPECT_EQ(
      Error(graph, 2),
      R"(micro_batches: 'divide' needs 'reduce_max' of the full batch in every micro-batch, but 'matmul' makes it from 'w'; only values that follow from the step's inputs alone can be computed before the first micro-batch)");
}

TEST(MicroBatchErrorsTest, TheNumberOfMicroBatchesDividesTheBatch) {
  EXPECT_EQ(Error(TrainingGraph(10), 4),
            "micro_batches: 4 does not divide the batch of 10 rows of input 'x'");
}

TEST(MicroBatchErrorsTest, AGraphWithoutABatchIsRefused) {
  Graph graph("generate");
  graph.SetOutput("y", Square(graph.Input("x", F32({4}))));
  EXPECT_EQ(Error(graph, 2), "micro_batches: graph 'generate' has no input with a batch to split");
}

TEST(MicroBatchErrorsTest, ZeroMicroBatchesAreRefused) {
  EXPECT_EQ(Error(TrainingGraph(4), 0), "micro_batches: 0; it must be at least 1");
}

}  // namespace
}  // namespace tessera
