// Tests the operators as which layer_norm is computed along an axis that splits the last dimension.
#include <gtest/gtest.h>

#include "core/graph/autograd.h"
#include "core/ops/ops.h"
#include "core/ops/testing/operators.h"

namespace tessera {
namespace {

TensorType BF16(const Shape& shape) { return {DType::kBF16, shape}; }

TEST(LayerNormParts, Shapes) {
  const TensorType x = F32({4, 5, 6}), row = F32({4, 5}), column = F32({6});
  EXPECT_EQ(Inferred(Use("layer_norm_sum", {x})), "f32[4, 5]");
  EXPECT_EQ(Inferred(Use("layer_norm_sum", {F32({6})})), "f32[]");
  EXPECT_EQ(Inferred(Use("layer_norm_squares", {x, row})), "f32[4, 5]");
  EXPECT_EQ(Inferred(Use("layer_norm_apply", {x, row, row, column, column})), "f32[4, 5, 6]");
  const Use sums("layer_norm_grad_sums", {x, x, column, row, row});
  EXPECT_EQ(Inferred(sums), "f32[4, 5], f32[4, 5]");
  EXPECT_EQ(sums.kind->OutputName(0), "change");
  EXPECT_EQ(sums.kind->OutputName(1), "normal_change");
  EXPECT_EQ(Inferred(Use("layer_norm_grad_apply", {x, x, column, row, row, row, row})),
            "f32[4, 5, 6], f32[6], f32[6]");
}

// Statistics are added up over ranks, and their rounding would move all of a row.
TEST(LayerNormParts, StatisticsAreNotRoundedTo16Bits) {
  const TensorType x = BF16({4, 6}), row = F32({4}), column = BF16({6});
  EXPECT_EQ(Inferred(Use("layer_norm_sum", {x})), "f32[4]");
  EXPECT_EQ(Inferred(Use("layer_norm_squares", {x, row})), "f32[4]");
  EXPECT_EQ(Inferred(Use("layer_norm_squares", {x, BF16({4})})),
            "input 1 (mean) is bf16[4]; it must be f32[4]");
  EXPECT_EQ(Inferred(Use("layer_norm_apply", {x, row, row, column, column})), "bf16[4, 6]");
  EXPECT_EQ(Inferred(Use("layer_norm_grad_sums", {x, x, column, row, row})), "f32[4], f32[4]");
  const Use gradient("layer_norm_grad_apply", {x, x, column, row, row, row, row});
  EXPECT_EQ(Inferred(gradient), "bf16[4, 6], bf16[6], bf16[6]");
  for (int i = 0; i < 7; ++i) EXPECT_EQ(gradient.kind->IsStatistic(i), i >= 3) << "input " << i;
  EXPECT_EQ(Inferred(Use("layer_norm_sum", {{DType::kF64, {4, 6}}})), "f64[4]");
}

TEST(LayerNormParts, Errors) {
  const TensorType x = F32({4, 6}), row = F32({4}), column = F32({6});
  EXPECT_EQ(Inferred(Use("layer_norm_sum", {F32({})})),
            "input 0 (x) is f32[]; it must be of rank 1 or more");
  EXPECT_EQ(Inferred(Use("layer_norm_sum", {I32({4, 6})})),
            "input 0 (x) is i32[4, 6]; it must be floating");
  EXPECT_EQ(Inferred(Use("layer_norm_squares", {x, column})),
            "input 1 (mean) is f32[6]; it must be f32[4]");
  EXPECT_EQ(Inferred(Use("layer_norm_apply", {x, row, column, column, column})),
            "input 2 (rstd) is f32[6]; it must be f32[4]");
  EXPECT_EQ(Inferred(Use("layer_norm_apply", {x, row, row, column, row})),
            "input 4 (bias) is f32[4]; it must be f32[6]");
  EXPECT_EQ(Inferred(Use("layer_norm_grad_sums", {x, row, column, row, row})),
            "input 1 (x) is f32[4]; it must be f32[4, 6]");
  EXPECT_EQ(Inferred(Use("layer_norm_grad_sums", {x, x, row, row, row})),
            "input 2 (weight) is f32[4]; it must be f32[6]");
  EXPECT_EQ(Inferred(Use("layer_norm_grad_apply", {x, x, column, row, row, row, column})),
            "input 6 (normal_change) is f32[6]; it must be f32[4]");
  EXPECT_EQ(Inferred(Use("layer_norm_grad_apply", {x, x, column, row, row})),
            "5 inputs; it takes 7: dy, x, weight, mean, rstd, change, normal_change");
}

TEST(LayerNormParts, SplitTheLastDimension) {
  const TensorType x = F32({4, 5, 6}), row = F32({4, 5}), column = F32({6});
  const Use sum("layer_norm_sum", {x});
  EXPECT_EQ(SignaturesOf(sum), "S(0) -> S(0)\nS(1) -> S(1)\nS(2) -> P\nP -> P\n");
  const Use squares("layer_norm_squares", {x, row});
  EXPECT_EQ(SignaturesOf(squares), "S(0), S(0) -> S(0)\nS(1), S(1) -> S(1)\nS(2), B -> P\n");
  const Use apply("layer_norm_apply", {x, row, row, column, column});
  EXPECT_EQ(SignaturesOf(apply),
            "S(0), S(0), S(0), B, B -> S(0)\n"
            "S(1), S(1), S(1), B, B -> S(1)\n"
            "S(2), B, B, S(0), S(0) -> S(2)\n");
  const Use sums("layer_norm_grad_sums", {x, x, column, row, row});
  EXPECT_EQ(SignaturesOf(sums),
            "S(0), S(0), B, S(0), S(0) -> S(0), S(0)\n"
            "S(1), S(1), B, S(1), S(1) -> S(1), S(1)\n"
            "S(2), S(2), S(0), B, B -> P, P\n"
            "P, B, B, B, B -> P, P\n");
  const Use gradient("layer_norm_grad_apply", {x, x, column, row, row, row, row});
  EXPECT_EQ(SignaturesOf(gradient),
            "S(0), S(0), B, S(0), S(0), S(0), S(0) -> S(0), P, P\n"
            "S(1), S(1), B, S(1), S(1), S(1), S(1) -> S(1), P, P\n"
            "S(2), S(2), S(0), B, B, B, B -> S(2), S(0), S(0)\n"
            "P, B, B, B, B, P, P -> P, P, P\n");
  EXPECT_EQ(SignaturesOf(Use("layer_norm_sum", {F32({6})})), "S(0) -> P\nP -> P\n");
  for (const Use& use : {sum, squares, apply, sums, gradient}) {
    EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  }
}

// The parts do at least the work of the operators as which they are computed.
TEST(LayerNormParts, Costs) {
  const TensorType x = F32({4, 5, 6}), row = F32({4, 5}), column = F32({6});
  const auto flops = [](const Use& use) { return use.kind->Cost(use.types()).flops / 120; };
  EXPECT_EQ(flops(Use("layer_norm_sum", {x})), 1);
  EXPECT_EQ(flops(Use("layer_norm_squares", {x, row})), 3);
  EXPECT_EQ(flops(Use("layer_norm_apply", {x, row, row, column, column})), 4);
  EXPECT_EQ(flops(Use("layer_norm", {x, column, column}, {{"eps", 1e-5}})), 1 + 3 + 4);
  EXPECT_EQ(flops(Use("layer_norm_grad_sums", {x, x, column, row, row})), 6);
  EXPECT_EQ(flops(Use("layer_norm_grad_apply", {x, x, column, row, row, row, row})), 10);
  const Use sum("layer_norm_sum", {x});
  EXPECT_EQ(sum.kind->Cost(sum.types()).bytes, 4.0 * (120 + 20));
}

}  // namespace
}  // namespace tessera
