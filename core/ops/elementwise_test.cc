#include <gtest/gtest.h>

#include <algorithm>

#include "core/ops/operator_list.h"
#include "core/ops/ops.h"
#include "core/ops/testing/operators.h"

namespace tessera {
namespace {

const Attributes kDropout = {{"probability", 0.5}, {"random_path", std::string("drop")}};
const Attributes kGelu = {{"approximate", std::string("tanh")}};

TEST(Elementwise, BinaryOperatorsBroadcastAsNumpyDoes) {
  EXPECT_EQ(Inferred(Use("add", {F32({2, 3, 4}), F32({3, 1})})), "f32[2, 3, 4]");
  EXPECT_EQ(Inferred(Use("add", {F32({}), F32({3})})), "f32[3]");
  EXPECT_EQ(Inferred(Use("multiply", {I64({4, 1}), I64({1, 5})})), "i64[4, 5]");
  EXPECT_EQ(Inferred(Use("add", {F32({1, 3}), F32({0, 3})})), "f32[0, 3]");
}

TEST(Elementwise, ErrorsSayWhatDoesNotFitAndWhatWould) {
  EXPECT_EQ(
      Inferred(Use("add", {F32({2, 3}), F32({4})})),
      "input 1 (b) is f32[4]; it must be of size 3 or 1 in dimension 0, to broadcast with the "
      "inputs before it");
  EXPECT_EQ(Inferred(Use("add", {F32({2}), I32({2})})),
            "input 1 (b) is i32[2]; it must be f32, as input 0 (a) is f32[2]");
  EXPECT_EQ(Inferred(Use("add", {U8({2}), U8({2})})),
            "input 0 (a) is u8[2]; it must be floating, i32 or i64");
  EXPECT_EQ(Inferred(Use("add", {F32({2})})), "1 inputs; it takes 2: a, b");
  EXPECT_EQ(Inferred(Use("exp", {I32({2})})), "input 0 (x) is i32[2]; it must be floating");
  EXPECT_EQ(Inferred(Use("gelu", {F32({2})})),
            "attribute approximate is missing; it must be a text");
  EXPECT_EQ(Inferred(Use("gelu", {F32({2})}, {{"approximate", std::string("erf")}})),
            "attribute approximate=\"erf\" must be \"none\" or \"tanh\"");
  EXPECT_EQ(Inferred(Use("gelu", {F32({2})}, {{"approximate", true}})),
            "attribute approximate=true must be a text");
  EXPECT_EQ(Inferred(Use("select", {F32({2}), F32({2}), F32({2})})),
            "input 0 (condition) is f32[2]; it must be u8");
  EXPECT_EQ(Inferred(Use("dropout", {F32({2}), I64({}), I64({1})}, kDropout)),
            "input 2 (step) is i64[1]; it must be i64[]");
  EXPECT_EQ(Inferred(Use("dropout", {F32({2}), I64({}), I64({})},
                         {{"probability", 1.0}, {"random_path", std::string()}})),
            "attribute probability=1.0 must be at least 0 and less than 1");
}

TEST(Elementwise, SignaturesFollowBroadcasting) {
  EXPECT_EQ(SignaturesOf(Use("add", {F32({8, 4, 6}), F32({6})})),
            "S(0), B -> S(0)\n"
            "S(1), B -> S(1)\n"
            "S(2), S(0) -> S(2)\n"
            "P, P -> P\n");
  EXPECT_EQ(SignaturesOf(Use("multiply", {F32({8, 1}), F32({8, 4})})),
            "S(0), S(0) -> S(0)\n"
            "B, S(1) -> S(1)\n"
            "P, B -> P\n"
            "B, P -> P\n");
  EXPECT_EQ(SignaturesOf(Use("divide", {F32({8}), F32({})})),
            "S(0), B -> S(0)\n"
            "P, B -> P\n");
  EXPECT_EQ(SignaturesOf(Use("divide", {I32({8}), I32({})})), "S(0), B -> S(0)\n");
  EXPECT_EQ(SignaturesOf(Use("maximum", {F32({8}), F32({8})})),
            "S(0), S(0) -> S(0)\n"
            "P(max), P(max) -> P(max)\n"
            "P(max), B -> P(max)\n"
            "B, P(max) -> P(max)\n");
  EXPECT_EQ(SignaturesOf(Use("exp", {F32({8, 2})})), "S(0) -> S(0)\nS(1) -> S(1)\n");
  EXPECT_EQ(SignaturesOf(Use("negate", {F32({8})})), "S(0) -> S(0)\nP -> P\n");
  EXPECT_EQ(SignaturesOf(Use("cast", {F32({8})}, {{"dtype", DType::kBF16}})), "S(0) -> S(0)\n");
  EXPECT_EQ(SignaturesOf(Use("cast", {F32({8})}, {{"dtype", DType::kI32}})), "S(0) -> S(0)\n");
  EXPECT_EQ(SignaturesOf(Use("select", {U8({8}), F32({8}), F32({})})),
            "S(0), S(0), B -> S(0)\n"
            "B, P, P -> P\n");
  EXPECT_EQ(SignaturesOf(Use("gelu_grad", {F32({8}), F32({8})}, kGelu)),
            "S(0), S(0) -> S(0)\n"
            "P, B -> P\n");
  EXPECT_EQ(SignaturesOf(Use("dropout", {F32({8}), I64({}), I64({})}, kDropout)),
            "S(0), B, B -> S(0)\n"
            "P, B, B -> P\n");
}

TEST(Elementwise, PartsFit) {
  EXPECT_EQ(SignatureThatDoesNotFit(Use("add", {F32({5, 1, 6}), F32({3, 1})})), "");
  EXPECT_EQ(SignatureThatDoesNotFit(Use("select", {U8({3, 1}), F32({}), F32({4})})), "");
  EXPECT_EQ(SignatureThatDoesNotFit(Use("relu_grad", {F32({3, 2}), F32({3, 2})})), "");
  EXPECT_EQ(SignatureThatDoesNotFit(Use("dropout", {F32({5, 3}), I64({}), I64({})}, kDropout)), "");
}

TEST(Elementwise, LocalDropoutKnowsItsRegionOfTheGlobalTensor) {
  const Operator& dropout = *FindOperator("dropout");
  const auto local = [&](const Attributes& attributes, TensorType type, Region region) {
    return dropout.LocalAttributes(attributes, {{}, {type}, {}, {region}});
  };
  const Attributes once = local(kDropout, F32({4, 3}), {{4, 0}, {8, 3}});
  EXPECT_EQ(once.ToString(),
            "{global_shape=[8, 3], probability=0.5, random_path=\"drop\", start=[4, 0]}");
  // A part of that part: both are counted from the whole.
  const Attributes twice = local(once, F32({2, 3}), {{2, 0}, {4, 3}});
  EXPECT_EQ(twice.ToString(),
            "{global_shape=[8, 3], probability=0.5, random_path=\"drop\", start=[6, 0]}");
  // All of it is no part.
  EXPECT_EQ(local(kDropout, F32({8, 3}), {{0, 0}, {8, 3}}), kDropout);

  EXPECT_EQ(Inferred(Use("dropout", {F32({4, 3}), I64({}), I64({})}, once)), "f32[4, 3]");
  EXPECT_EQ(
      Inferred(Use("dropout", {F32({5, 3}), I64({}), I64({})}, once)),
      "attribute start=[4, 0] must be where a part [5, 3] lies within the global tensor [8, 3]");
}

TEST(Elementwise, DropoutsDeclareSeedAndStepOnceAndDrawByTheirOwnPaths) {
  Graph graph("test");
  const Tensor x = graph.Input("x", F32({4}), 0);
  {
    Scope scope(&graph, "block");
    Dropout(Dropout(x, 0.25), 0.25);
  }
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(graph.ToString(),
            "graph test\n"
            "input %x: f32[4] batch_dim=0\n"
            "input %seed: i64[]\n"
            "input %step: i64[]\n"
            "%block.dropout: f32[4] = dropout(%x, %seed, %step) "
            "{probability=0.25, random_path=\"block.dropout\"}\n"
            "%block.dropout_1: f32[4] = dropout(%block.dropout, %seed, %step) "
            "{probability=0.25, random_path=\"block.dropout_1\"}\n");
}

TEST(Elementwise, AnOutputLiesOnAnInputOfItsType) {
  using Pairs = std::vector<std::pair<int, int>>;
  const auto pairs = [](const Use& use) { return use.kind->InPlace(use.types()); };
  EXPECT_EQ(pairs(Use("add", {F32({2, 3}), F32({3})})), (Pairs{{0, 0}}));
  EXPECT_EQ(pairs(Use("add", {F32({3}), F32({3})})), (Pairs{{0, 0}, {1, 0}}));
  EXPECT_EQ(pairs(Use("add", {F32({2, 1}), F32({1, 3})})), Pairs());
  EXPECT_EQ(pairs(Use("select", {U8({3}), F32({1}), F32({3})})), (Pairs{{2, 0}}));
  EXPECT_EQ(pairs(Use("cast", {F32({3})}, {{"dtype", DType::kI32}})), Pairs());
}

TEST(Elementwise, CostsCountWhatIsMoved) {
  const Use use("add", {F32({8, 4}), F32({4})});
  const OpCost cost = use.kind->Cost(use.types());
  EXPECT_EQ(cost.flops, 32);
  EXPECT_EQ(cost.bytes, 4 * (32 + 4 + 32));
}

// Narrowing to bf16 or fp16 kept a partial sum, whose terms were rounded instead of the sum.
TEST(Cast, KeepsAPartialSumOnlyWhereItLosesNoBits) {
  const auto keeps = [](DType from, DType to) {
    const TensorType input{from, {4}}, output{to, {4}};
    const Attributes attributes = {{"dtype", to}};
    const std::vector<Signature> signatures = FindOperator("cast")->Signatures(
        {absl::MakeConstSpan(&input, 1), absl::MakeConstSpan(&output, 1), attributes});
    return std::any_of(signatures.begin(), signatures.end(),
                       [](const Signature& s) { return s.inputs[0].partial(); });
  };
  EXPECT_TRUE(keeps(DType::kF32, DType::kF32));
  EXPECT_TRUE(keeps(DType::kBF16, DType::kF32));
  EXPECT_TRUE(keeps(DType::kF32, DType::kF64));
  EXPECT_FALSE(keeps(DType::kF32, DType::kBF16));
  EXPECT_FALSE(keeps(DType::kF32, DType::kF16));
  EXPECT_FALSE(keeps(DType::kBF16, DType::kF16));
  EXPECT_FALSE(keeps(DType::kF32, DType::kI32));
  EXPECT_FALSE(keeps(DType::kI32, DType::kF32));
}

}  // namespace
}  // namespace tessera
