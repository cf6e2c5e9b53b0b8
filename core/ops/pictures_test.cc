// Tests convolutions, poolings, and what a network for pictures needs besides them.
#include <gtest/gtest.h>

#include "core/ops/ops.h"
#include "core/ops/testing/operators.h"

namespace tessera {
namespace {

using Ints = std::vector<int64_t>;

Attributes Windows(int64_t stride, int64_t padding, int64_t dilation = 1) {
  return {{"stride", Ints{stride, stride}},
          {"padding", Ints{padding, padding}},
          {"dilation", Ints{dilation, dilation}}};
}

Attributes Grouped(Attributes attributes, int64_t groups) {
  attributes.Set("groups", groups);
  return attributes;
}

Attributes WithShape(Attributes attributes, const Ints& shape) {
  attributes.Set("shape", shape);
  return attributes;
}

Attributes Pool(int64_t window, int64_t stride, int64_t padding) {
  return {{"window", Ints{window, window}},
          {"stride", Ints{stride, stride}},
          {"padding", Ints{padding, padding}}};
}

Use Convolve(const Shape& x, const Shape& weight, const Attributes& attributes) {
  return Use("convolution", {F32(x), F32(weight)}, attributes);
}

TEST(Convolution, Shapes) {
  const Attributes same = Grouped(Windows(1, 1), 1);
  EXPECT_EQ(Inferred(Convolve({2, 32, 31, 3}, {64, 3, 3, 3}, same)), "f32[2, 32, 31, 64]");
  EXPECT_EQ(Inferred(Convolve({2, 224, 224, 3}, {64, 7, 7, 3}, Grouped(Windows(2, 3), 1))),
            "f32[2, 112, 112, 64]");
  EXPECT_EQ(Inferred(Convolve({1, 9, 9, 4}, {6, 3, 3, 2}, Grouped(Windows(1, 0, 2), 2))),
            "f32[1, 5, 5, 6]");
  EXPECT_EQ(Inferred(Use("convolution_grad_data", {F32({2, 4, 4, 5}), F32({5, 3, 3, 7})},
                         WithShape(Windows(2, 1), {2, 8, 7, 7}))),
            "f32[2, 8, 7, 7]");
  EXPECT_EQ(Inferred(Use("convolution_grad_weight", {F32({2, 4, 4, 6}), F32({2, 8, 7, 4})},
                         WithShape(Windows(2, 1), {6, 3, 3, 2}))),
            "f32[6, 3, 3, 2]");
}

TEST(Convolution, Errors) {
  const Attributes same = Grouped(Windows(1, 1), 1);
  EXPECT_EQ(Inferred(Convolve({2, 8, 3}, {4, 3, 3, 3}, same)),
            "input 0 (x) is f32[2, 8, 3]; it must be of rank 4, [batch, height, width, channels]");
  EXPECT_EQ(Inferred(Convolve({2, 8, 8, 6}, {4, 3, 3, 3}, same)),
            "input 1 (weight) is f32[4, 3, 3, 3]; it must be of size 6 in dimension 3, as x has 6 "
            "channels in 1 groups");
  EXPECT_EQ(Inferred(Convolve({2, 8, 8, 6}, {4, 3, 3, 3}, Grouped(Windows(1, 1), 4))),
            "attribute groups=4 must be a divisor of 6, the channels of x");
  EXPECT_EQ(Inferred(Convolve({2, 8, 8, 6}, {4, 3, 3, 2}, Grouped(Windows(1, 1), 3))),
            "attribute groups=3 must be a divisor of 4, the output channels of weight");
  EXPECT_EQ(Inferred(Convolve({2, 2, 8, 3}, {4, 5, 5, 3}, same)),
            "input 0 (x) is f32[2, 2, 8, 3]; it must be of height 3 and width 3 or more, so that a "
            "window fits");
  EXPECT_EQ(Inferred(Convolve({2, 8, 8, 3}, {4, 1, 1, 3}, same)),
            "attribute padding=[1, 1] must be less than the window, which covers 1 x 1");
  EXPECT_EQ(Inferred(Convolve({2, 8, 8, 3}, {4, 3, 3, 3}, Grouped(Windows(0, 1), 1))),
            "attribute stride=[0, 0] must be two integers from 1 to 1048576, along height and "
            "width");
  EXPECT_EQ(Inferred(Use("convolution_grad_data", {F32({2, 4, 4, 5}), F32({5, 3, 3, 7})},
                         WithShape(Windows(2, 1), {2, 8, 7, 6}))),
            "input 1 (weight) is f32[5, 3, 3, 7]; it must be [out, window height, window width, in "
            "/ groups], as the result has 6 channels");
  EXPECT_EQ(Inferred(Use("convolution_grad_weight", {F32({2, 4, 4, 6}), F32({2, 9, 7, 4})},
                         WithShape(Windows(2, 1), {6, 3, 3, 4}))),
            "input 0 (dy) is f32[2, 4, 4, 6]; it must be f32[2, 5, 4, 6]");
}

TEST(Convolution, Signatures) {
  const Use plain = Convolve({5, 8, 8, 6}, {4, 3, 3, 6}, Grouped(Windows(1, 1), 1));
  EXPECT_EQ(SignaturesOf(plain),
            "S(0), B -> S(0)\n"
            "B, S(0) -> S(3)\n"
            "S(3), S(3) -> P\n"
            "P, B -> P\n"
            "B, P -> P\n");
  const Use data("convolution_grad_data", {F32({5, 8, 8, 4}), F32({4, 3, 3, 6})},
                 WithShape(Windows(1, 1), {5, 8, 8, 6}));
  EXPECT_EQ(SignaturesOf(data),
            "S(0), B -> S(0)\n"
            "S(3), S(0) -> P\n"
            "B, S(3) -> S(3)\n"
            "P, B -> P\n"
            "B, P -> P\n");
  const Use weight("convolution_grad_weight", {F32({5, 8, 8, 4}), F32({5, 8, 8, 6})},
                   WithShape(Windows(1, 1), {4, 3, 3, 6}));
  EXPECT_EQ(SignaturesOf(weight),
            "S(0), S(0) -> P\n"
            "S(3), B -> S(0)\n"
            "B, S(3) -> S(3)\n"
            "P, B -> P\n"
            "B, P -> P\n");
  for (const Use* use : {&plain, &data, &weight}) EXPECT_EQ(SignatureThatDoesNotFit(*use), "");
}

TEST(Convolution, GroupsAreSplitButNotTheirChannels) {
  const Use grouped = Convolve({5, 8, 8, 6}, {9, 3, 3, 2}, Grouped(Windows(1, 1), 3));
  EXPECT_EQ(SignaturesOf(grouped),
            "S(0), B -> S(0)\n"
            "S(3, 2), S(0, 3) -> S(3, 3)\n"
            "P, B -> P\n"
            "B, P -> P\n");
  const Use data("convolution_grad_data", {F32({5, 8, 8, 9}), F32({9, 3, 3, 2})},
                 WithShape(Windows(1, 1), {5, 8, 8, 6}));
  EXPECT_EQ(SignaturesOf(data),
            "S(0), B -> S(0)\n"
            "S(3, 3), S(0, 3) -> S(3, 2)\n"
            "P, B -> P\n"
            "B, P -> P\n");
  const Use weight("convolution_grad_weight", {F32({5, 8, 8, 9}), F32({5, 8, 8, 6})},
                   WithShape(Windows(1, 1), {9, 3, 3, 2}));
  EXPECT_EQ(SignaturesOf(weight),
            "S(0), S(0) -> P\n"
            "S(3, 3), S(3, 2) -> S(0, 3)\n"
            "P, B -> P\n"
            "B, P -> P\n");
  for (const Use* use : {&grouped, &data, &weight}) EXPECT_EQ(SignatureThatDoesNotFit(*use), "");
}

TEST(Convolution, Cost) {
  const double flops = 2.0 * (5 * 8 * 8 * 9) * (3 * 3 * 2);
  const Use use = Convolve({5, 8, 8, 6}, {9, 3, 3, 2}, Grouped(Windows(1, 1), 3));
  const OpCost cost = use.kind->Cost(use.types());
  EXPECT_EQ(cost.flops, flops);
  EXPECT_EQ(cost.bytes, 4.0 * (5 * 8 * 8 * 6 + 9 * 3 * 3 * 2 + 5 * 8 * 8 * 9));
  const Use data("convolution_grad_data", {F32({5, 8, 8, 9}), F32({9, 3, 3, 2})},
                 WithShape(Windows(1, 1), {5, 8, 8, 6}));
  EXPECT_EQ(data.kind->Cost(data.types()).flops, flops);
}

TEST(Convolution, ThePicturesNeedNoGradient) {
  Graph graph("pictures");
  const Tensor x = graph.Input("x", F32({2, 8, 8, 3}));
  const Tensor weight = graph.Input("weight", F32({4, 3, 3, 3}));
  const Tensor bias = graph.Input("bias", F32({4}));
  const Tensor y = Conv2d(x, weight, bias, {.stride = {2, 2}, .padding = {1, 1}});
  const Tensor pooled = MaxPool(y, {.window = {2, 2}, .stride = {2, 2}});
  ASSERT_TRUE(RecordGradients(graph, ReduceSum(pooled, {0, 1, 2, 3}), {weight, bias}).ok());
  EXPECT_EQ(BackwardOps(graph),
            "fill() -> f32[]\n"
            "expand(f32[]) -> f32[2, 2, 2, 4]\n"
            "max_pool_grad(f32[2, 2, 2, 4], u8[2, 2, 2, 4]) -> f32[2, 4, 4, 4]\n"
            "reduce_sum(f32[2, 4, 4, 4]) -> f32[4]\n"
            "convolution_grad_weight(f32[2, 4, 4, 4], f32[2, 8, 8, 3]) -> f32[4, 3, 3, 3]\n");
}

TEST(Pooling, ShapesAndSignatures) {
  const Use max("max_pool", {F32({5, 8, 9, 6})}, Pool(3, 2, 1));
  EXPECT_EQ(Inferred(max), "f32[5, 4, 5, 6], u8[5, 4, 5, 6]");
  EXPECT_EQ(SignaturesOf(max), "S(0) -> S(0), S(0)\nS(3) -> S(3), S(3)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(max), "");
  EXPECT_EQ(max.kind->Cost(max.types()).flops, 5.0 * 4 * 5 * 6 * 9);
  const Use max_grad("max_pool_grad", {F32({5, 4, 5, 6}), U8({5, 4, 5, 6})},
                     WithShape(Pool(3, 2, 1), {5, 8, 9, 6}));
  EXPECT_EQ(Inferred(max_grad), "f32[5, 8, 9, 6]");
  EXPECT_EQ(SignaturesOf(max_grad), "S(0), S(0) -> S(0)\nS(3), S(3) -> S(3)\nP, B -> P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(max_grad), "");
  const Use average("average_pool", {F32({5, 8, 9, 6})}, Pool(3, 2, 1));
  EXPECT_EQ(Inferred(average), "f32[5, 4, 5, 6]");
  EXPECT_EQ(SignaturesOf(average), "S(0) -> S(0)\nS(3) -> S(3)\nP -> P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(average), "");
  const Use average_grad("average_pool_grad", {F32({5, 4, 5, 6})},
                         WithShape(Pool(3, 2, 1), {5, 8, 9, 6}));
  EXPECT_EQ(Inferred(average_grad), "f32[5, 8, 9, 6]");
  EXPECT_EQ(SignatureThatDoesNotFit(average_grad), "");
}

TEST(Pooling, Errors) {
  EXPECT_EQ(Inferred(Use("max_pool", {F32({2, 30, 30, 3})}, Pool(17, 1, 0))),
            "attribute window=[17, 17] must be of at most 256 elements");
  EXPECT_EQ(Inferred(Use("max_pool", {F32({2, 8, 1, 3})}, Pool(2, 2, 0))),
            "input 0 (x) is f32[2, 8, 1, 3]; it must be of height 2 and width 2 or more, so that a "
            "window fits");
  EXPECT_EQ(Inferred(Use("average_pool", {F32({2, 8, 8, 3})}, Pool(2, 2, 2))),
            "attribute padding=[2, 2] must be less than the window, which covers 2 x 2");
  EXPECT_EQ(
      Inferred(Use("average_pool_grad", {F32({2, 4, 4, 3})}, WithShape(Pool(2, 2, 0), {2, 8, 8}))),
      "attribute shape=[2, 8, 8] must be of rank 4, [batch, height, width, channels]");
}

Attributes Crop(int64_t padding) {
  return {{"padding", padding}, {"flip", true}, {"random_path", std::string("crop")}};
}

TEST(RandomCropFlip, ShapesAndSignatures) {
  const Use use("random_crop_flip", {U8({5, 8, 9, 6}), I64({}), I64({})}, Crop(7));
  EXPECT_EQ(Inferred(use), "u8[5, 8, 9, 6]");
  EXPECT_EQ(SignaturesOf(use), "S(0), B, B -> S(0)\nS(3), B, B -> S(3)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
}

TEST(RandomCropFlip, Errors) {
  const auto inferred = [](const TensorType& pictures, const Attributes& attributes) {
    return Inferred(Use("random_crop_flip", {pictures, I64({}), I64({})}, attributes));
  };
  EXPECT_EQ(inferred(F32({5, 8, 9, 3}), Crop(1)),
            "input 0 (pictures) is f32[5, 8, 9, 3]; it must be u8");
  EXPECT_EQ(inferred(U8({5, 8, 9}), Crop(1)),
            "input 0 (pictures) is u8[5, 8, 9]; it must be of rank 4, [batch, height, width, "
            "channels]");
  EXPECT_EQ(inferred(U8({5, 8, 9, 3}), Crop(8)),
            "attribute padding=8 must be at least 0 and less than 8");
  EXPECT_EQ(inferred(U8({5, 8, 9, 3}), {{"padding", int64_t{1}}}),
            "attribute flip is missing; it must be true or false");
}

// Each use has a path of its own, so that no two draw the same windows.
TEST(RandomCropFlip, DrawsByItsPath) {
  Graph graph("pictures");
  const Tensor x = graph.Input("x", U8({5, 8, 9, 3}), 0);
  const Tensor once = RandomCropFlip(x, 2, false);
  const Tensor twice = RandomCropFlip(once, 2, true);
  ASSERT_TRUE(twice.valid()) << graph.status();
  EXPECT_EQ(twice.type(), x.type());
  const auto path_of = [&](Tensor y) {
    return graph.op(graph.value(y.id()).producer).attributes.GetString("random_path");
  };
  EXPECT_EQ(path_of(once), "random_crop_flip");
  EXPECT_EQ(path_of(twice), "random_crop_flip_1");
  EXPECT_FALSE(RandomCropFlip(Tensor(), 2, true).valid());
}

TEST(TopKCorrect, ShapesAndSignatures) {
  const Use use("top_k_correct", {F32({4, 5, 10}), I32({4, 5})}, {{"k", int64_t{5}}});
  EXPECT_EQ(Inferred(use), "f32[4, 5]");
  EXPECT_EQ(SignaturesOf(use), "S(0), S(0) -> S(0)\nS(1), S(1) -> S(1)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(Inferred(Use("top_k_correct", {F32({4, 10}), I32({4})}, {{"k", int64_t{11}}})),
            "attribute k=11 must be at least 1 and less than 11");
  EXPECT_EQ(Inferred(Use("top_k_correct", {F32({4, 10}), I32({5})}, {{"k", int64_t{1}}})),
            "input 1 (targets) is i32[5]; it must be i32[4]");
}

TEST(TopK, ShapesAndSignatures) {
  const Use use("top_k", {F32({4, 5, 10})}, {{"k", int64_t{3}}});
  EXPECT_EQ(Inferred(use), "i32[4, 5, 3]");
  EXPECT_EQ(SignaturesOf(use), "S(0) -> S(0)\nS(1) -> S(1)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(Inferred(Use("top_k", {F32({4, 10})}, {{"k", int64_t{11}}})),
            "attribute k=11 must be at least 1 and less than 11");
}

// The global average and flattening need no operators of their own.
TEST(Pictures, AreAveragedAndFlattened) {
  const Use average("reduce_sum", {F32({5, 8, 9, 6})},
                    {{"axes", Ints{1, 2}}, {"keep_dims", false}});
  EXPECT_EQ(Inferred(average), "f32[5, 6]");
  EXPECT_EQ(SignaturesOf(average), "S(0) -> S(0)\nS(1) -> P\nS(2) -> P\nS(3) -> S(1)\nP -> P\n");
  const Use flat("reshape", {F32({5, 8, 9, 6})}, {{"shape", Ints{5, 8 * 9 * 6}}});
  EXPECT_EQ(Inferred(flat), "f32[5, 432]");
  EXPECT_EQ(SignaturesOf(flat).substr(0, 30), "S(0) -> S(0)\nS(1) -> S(1, 54)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(flat), "");
  EXPECT_EQ(ViewOf(flat, 0, RowMajorStrides(flat.inputs[0].shape)), "offset 0 strides [432, 1]");
  Graph graph("pictures");
  const Tensor x = graph.Input("x", F32({5, 8, 9, 6}));
  EXPECT_EQ(ReduceMean(x, {1, 2}).shape(), (Shape{5, 6}));
  EXPECT_EQ(Reshape(x, {x.dim(0), -1}).shape(), (Shape{5, 432}));
}

}  // namespace
}  // namespace tessera
