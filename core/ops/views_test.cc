#include <gtest/gtest.h>

#include "core/ops/ops.h"
#include "core/ops/testing/operators.h"

namespace tessera {
namespace {

// Signatures of operators that only move the elements of one input.
const std::string kMoved = "P -> P\nP(max) -> P(max)\nP(min) -> P(min)\nP(lse) -> P(lse)\n";

Use ReshapeUse(const Shape& from, std::vector<int64_t> to) {
  return Use("reshape", {F32(from)}, {{"shape", std::move(to)}});
}

TEST(Reshape, KeepsTheNumberOfElements) {
  EXPECT_EQ(Inferred(ReshapeUse({2, 6}, {3, 4})), "f32[3, 4]");
  EXPECT_EQ(Inferred(ReshapeUse({1}, {})), "f32[]");
  EXPECT_EQ(Inferred(ReshapeUse({2, 6}, {3, 5})),
            "attribute shape=[3, 5] must be of 12 elements, as f32[2, 6] is");
  EXPECT_EQ(Inferred(ReshapeUse({2}, {-1, -2})),
            "attribute shape=[-1, -2] must be sizes of 0 or more");
  EXPECT_EQ(Inferred(ReshapeUse({2}, {int64_t{1} << 40, int64_t{1} << 40})),
            "attribute shape=[1099511627776, 1099511627776] must be of fewer elements");
}

TEST(Reshape, OneSizeMayFollowFromTheOthers) {
  Graph graph("test");
  const Tensor x = graph.Input("x", F32({4, 6}));
  EXPECT_EQ(TypeToString(Reshape(x, {-1, 3}).type()), "f32[8, 3]");
  EXPECT_EQ(TypeToString(Reshape(x, {-1}).type()), "f32[24]");
  EXPECT_FALSE(Reshape(x, {-1, 5}).valid());
  EXPECT_EQ(MessageOf(graph.status()),
            "reshape (reshape): attribute shape=[-1, 5] must be sizes of 0 or more");
}

TEST(Reshape, SplitsFollowTheFactorsOfDimensions) {
  // Batch and sequence merge: the batch is split between sequences.
  EXPECT_EQ(SignaturesOf(ReshapeUse({8, 16, 32}, {128, 32})),
            "S(0) -> S(0, 16)\nS(2) -> S(1)\n" + kMoved);
  EXPECT_EQ(SignaturesOf(ReshapeUse({128, 32}, {8, 16, 32})),
            "S(0, 16) -> S(0)\nS(1) -> S(2)\n" + kMoved);
  // A dimension is divided into heads: it is split between heads.
  EXPECT_EQ(SignaturesOf(ReshapeUse({2, 3, 20}, {2, 3, 4, 5})),
            "S(0) -> S(0)\nS(1) -> S(1)\nS(2, 5) -> S(2)\n" + kMoved);
  EXPECT_EQ(SignaturesOf(ReshapeUse({2, 3, 4, 5}, {2, 3, 20})),
            "S(0) -> S(0)\nS(1) -> S(1)\nS(2) -> S(2, 5)\n" + kMoved);
  // The shapes have other factors: a split is possible where both shapes can be split.
  EXPECT_EQ(SignaturesOf(ReshapeUse({4, 3}, {6, 2})), "S(0, 2) -> S(0, 3)\n" + kMoved);
  EXPECT_EQ(SignaturesOf(ReshapeUse({3, 5}, {5, 3})), kMoved);
  EXPECT_EQ(SignaturesOf(ReshapeUse({4, 6}, {2, 2, 6})),
            "S(0, 2) -> S(0)\nS(1) -> S(2)\n" + kMoved);
}

TEST(Reshape, SplitsPassDimensionsOfSizeOne) {
  EXPECT_EQ(SignaturesOf(ReshapeUse({8, 1, 6}, {8, 6})),
            "S(0) -> S(0)\nS(1) -> S(1, 6)\nS(2) -> S(1)\n" + kMoved);
  EXPECT_EQ(SignaturesOf(ReshapeUse({6}, {6, 1})), "S(0) -> S(0)\n" + kMoved);
  EXPECT_EQ(SignaturesOf(ReshapeUse({1, 4, 6}, {4, 6})),
            "S(0) -> S(0, 4)\nS(1) -> S(0)\nS(2) -> S(1)\n" + kMoved);
  EXPECT_EQ(SignaturesOf(ReshapeUse({1}, {})), kMoved);
}

TEST(Reshape, PartsFit) {
  for (const auto& [from, to] :
       std::vector<std::pair<Shape, std::vector<int64_t>>>{{{8, 16, 32}, {128, 32}},
                                                           {{15, 2}, {5, 3, 2}},
                                                           {{2, 3, 20}, {6, 4, 5}},
                                                           {{4, 3}, {6, 2}},
                                                           {{8, 1, 6}, {8, 6}},
                                                           {{1, 4}, {4}},
                                                           {{4}, {1, 1, 4}},
                                                           {{5, 0}, {0, 7}},
                                                           {{}, {1, 1}},
                                                           {{2, 6, 5}, {4, 3, 5}},
                                                           {{7, 4, 9}, {7, 36}}}) {
    EXPECT_EQ(SignatureThatDoesNotFit(ReshapeUse(from, to)), "");
  }
}

TEST(Reshape, IsAViewWhereStridesCanSayIt) {
  EXPECT_EQ(ViewOf(ReshapeUse({2, 6}, {3, 4}), 0, {6, 1}), "offset 0 strides [4, 1]");
  // Rows of 6 elements at a distance of 10: a row can be divided, but rows cannot be merged.
  EXPECT_EQ(ViewOf(ReshapeUse({2, 6}, {2, 2, 3}), 0, {10, 1}), "offset 0 strides [10, 3, 1]");
  EXPECT_EQ(ViewOf(ReshapeUse({2, 6}, {12}), 0, {10, 1}), "none");
  // Transposed: [4, 3] with strides [1, 4].
  EXPECT_EQ(ViewOf(ReshapeUse({4, 3}, {12}), 0, {1, 4}), "none");
  EXPECT_EQ(ViewOf(ReshapeUse({4, 3}, {2, 2, 3}), 0, {1, 4}), "offset 0 strides [2, 1, 4]");
  // Strides of dimensions of size 1 are ignored.
  EXPECT_EQ(ViewOf(ReshapeUse({2, 1, 6}, {12}), 0, {6, 99, 1}), "offset 0 strides [1]");
  EXPECT_EQ(ViewOf(ReshapeUse({6}, {1, 6, 1}), 0, {2}), "offset 0 strides [12, 2, 1]");
  // Broadcast rows share their memory: they cannot be merged, but one row can be reshaped.
  EXPECT_EQ(ViewOf(ReshapeUse({2, 6}, {12}), 0, {0, 1}), "none");
  EXPECT_EQ(ViewOf(ReshapeUse({2, 6}, {2, 3, 2}), 0, {0, 1}), "offset 0 strides [0, 2, 1]");
  EXPECT_EQ(ViewOf(ReshapeUse({}, {1, 1}), 0, {}), "offset 0 strides [1, 1]");
  EXPECT_EQ(ViewOf(ReshapeUse({5, 0}, {0, 7}), 0, {1, 3}), "offset 0 strides [7, 1]");
}

TEST(Transpose, PermutesShapeStridesAndSplits) {
  const Use use("transpose", {F32({2, 3, 4})}, {{"permutation", std::vector<int64_t>{2, 0, 1}}});
  EXPECT_EQ(Inferred(use), "f32[4, 2, 3]");
  EXPECT_EQ(ViewOf(use, 0, {12, 4, 1}), "offset 0 strides [1, 12, 4]");
  EXPECT_EQ(SignaturesOf(use), "S(2) -> S(0)\nS(0) -> S(1)\nS(1) -> S(2)\n" + kMoved);
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(Inferred(Use("transpose", {F32({2, 3})}, {{"permutation", std::vector<int64_t>{0}}})),
            "attribute permutation=[0] must be each of the 2 dimensions of f32[2, 3] once");
  EXPECT_EQ(
      Inferred(Use("transpose", {F32({2, 3})}, {{"permutation", std::vector<int64_t>{1, 1}}})),
      "attribute permutation=[1, 1] must be each of the 2 dimensions of f32[2, 3] once");
}

TEST(Split, GivesConsecutiveParts) {
  const Use use("split", {F32({2, 7, 3})},
                {{"axis", int64_t{1}}, {"sizes", std::vector<int64_t>{2, 4, 1}}});
  EXPECT_EQ(Inferred(use), "f32[2, 2, 3], f32[2, 4, 3], f32[2, 1, 3]");
  EXPECT_EQ(ViewOf(use, 0, {21, 3, 1}), "offset 0 strides [21, 3, 1]");
  EXPECT_EQ(ViewOf(use, 2, {21, 3, 1}), "offset 18 strides [21, 3, 1]");
  EXPECT_EQ(SignaturesOf(use),
            "S(0) -> S(0), S(0), S(0)\n"
            "S(2) -> S(2), S(2), S(2)\n"
            "P -> P, P, P\n"
            "P(max) -> P(max), P(max), P(max)\n"
            "P(min) -> P(min), P(min), P(min)\n"
            "P(lse) -> P(lse), P(lse), P(lse)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(
      Inferred(Use("split", {F32({2, 7})},
                   {{"axis", int64_t{1}}, {"sizes", std::vector<int64_t>{2, 4}}})),
      "attribute sizes=[2, 4] must be one or more that add up to 7, the size of f32[2, 7] along "
      "dimension 1");
  EXPECT_EQ(Inferred(Use("split", {F32({2, 7})},
                         {{"axis", int64_t{2}}, {"sizes", std::vector<int64_t>{7}}})),
            "attribute axis=2 must be at least 0 and less than 2");
}

TEST(Slice, IsOnePartOfASplit) {
  Graph graph("test");
  const Tensor x = graph.Input("x", F32({2, 7}));
  const Tensor middle = Slice(x, -1, 2, 4);
  EXPECT_EQ(TypeToString(middle.type()), "f32[2, 4]");
  EXPECT_EQ(graph.value(middle.id()).output_index, 1);
  EXPECT_EQ(graph.value(Slice(x, 1, 0, 3).id()).output_index, 0);
  EXPECT_EQ(TypeToString(Slice(x, 1, 0, 7).type()), "f32[2, 7]");
  EXPECT_TRUE(graph.status().ok());
  EXPECT_FALSE(Slice(x, 1, 5, 4).valid());
  EXPECT_EQ(MessageOf(graph.status()),
            "split (split): attribute sizes=[5, 4, -2] must be sizes of 0 or more");
}

TEST(Expand, RepeatsDimensionsOfSizeOne) {
  const Use use("expand", {F32({3, 1})}, {{"shape", std::vector<int64_t>{2, 3, 4}}});
  EXPECT_EQ(Inferred(use), "f32[2, 3, 4]");
  EXPECT_EQ(ViewOf(use, 0, {5, 1}), "offset 0 strides [0, 5, 0]");
  EXPECT_EQ(SignaturesOf(use), "B -> S(0)\nS(0) -> S(1)\nB -> S(2)\n" + kMoved);
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(
      Inferred(Use("expand", {F32({3})}, {{"shape", std::vector<int64_t>{3, 2}}})),
      "attribute shape=[3, 2] must be a shape that f32[3] broadcasts to: its dimensions, from "
      "the last, equal or 1");
}

TEST(Concat, PlacesItsInputsInTheOutput) {
  const Use use("concat", {F32({2, 3}), F32({2, 1}), F32({2, 4})}, {{"axis", int64_t{1}}});
  EXPECT_EQ(Inferred(use), "f32[2, 8]");
  const ViewPlacement part = use.kind->Part(use.types(), 2);
  EXPECT_EQ(part.offset, 4);
  EXPECT_EQ(ShapeToString(part.strides), "[8, 1]");
  EXPECT_EQ(SignaturesOf(use),
            "S(0), S(0), S(0) -> S(0)\nP, P, P -> P\nP(max), P(max), P(max) -> P(max)\n"
            "P(min), P(min), P(min) -> P(min)\nP(lse), P(lse), P(lse) -> P(lse)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(Inferred(Use("concat", {F32({2, 3}), F32({1, 3})}, {{"axis", int64_t{1}}})),
            "input 1 is f32[1, 3]; it must be f32[2, 3] with any size in dimension 1, to join with "
            "input 0");
  EXPECT_EQ(Inferred(Use("concat", {}, {{"axis", int64_t{1}}})), "no inputs; it takes one or more");
}

TEST(Views, CostNothing) {
  const Use use = ReshapeUse({2, 6}, {12});
  EXPECT_EQ(use.kind->Cost(use.types()).bytes, 0);
}

}  // namespace
}  // namespace tessera
