// First values and updates.
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "core/ops/ops.h"
#include "core/ops/testing/operators.h"

namespace tessera {
namespace {

Attributes Filled(double value) {
  return {{"shape", std::vector<int64_t>{5, 3}}, {"dtype", DType::kF32}, {"value", value}};
}

const Attributes kNormal = {{"shape", std::vector<int64_t>{5, 3}},
                            {"dtype", DType::kF32},
                            {"mean", 0.0},
                            {"stddev", 0.02},
                            {"random_path", std::string("w")}};
const Attributes kAdamw = {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};

Attributes Sgd(double momentum) { return {{"momentum", momentum}, {"weight_decay", 0.0}}; }

TEST(Fill, ShapesAndSignatures) {
  EXPECT_EQ(Inferred(Use("fill", {}, Filled(1))), "f32[5, 3]");
  EXPECT_EQ(SignaturesOf(Use("fill", {}, Filled(1))), " -> S(0)\n -> S(1)\n");
  EXPECT_EQ(SignaturesOf(Use("fill", {}, Filled(0))), " -> S(0)\n -> S(1)\n -> P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(Use("fill", {}, Filled(0))), "");
  EXPECT_EQ(Inferred(Use("fill", {F32({})}, Filled(0))), "it takes no inputs");
}

TEST(RandomNormal, HasAShapeAndTheRegionOfTheGlobalTensorThatItDraws) {
  const Use use("random_normal", {I64({})}, kNormal);
  EXPECT_EQ(Inferred(use), "f32[5, 3]");
  EXPECT_EQ(SignaturesOf(use), "B -> S(0)\nB -> S(1)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  const std::vector<TensorType> part = {F32({2, 3})};
  const std::vector<Region> region = {{{3, 0}, {5, 3}}};
  EXPECT_EQ(use.kind->LocalAttributes(kNormal, {{}, part, {}, region}).ToString(),
            "{dtype=f32, global_shape=[5, 3], mean=0.0, random_path=\"w\", shape=[2, 3], "
            "start=[3, 0], stddev=0.02}");
}

TEST(Sgd, TakesAMomentumStateOnlyIfItHasMomentum) {
  const TensorType p = F32({5, 3}), scalar = F32({});
  const Use without("sgd_update", {p, p, scalar, scalar, U8({})}, Sgd(0));
  EXPECT_EQ(Inferred(without), "f32[5, 3]");
  EXPECT_EQ(SignaturesOf(without),
            "S(0), S(0), B, B, B -> S(0)\n"
            "S(1), S(1), B, B, B -> S(1)\n");
  const Use with("sgd_update", {p, p, p, scalar, scalar, U8({})}, Sgd(0.9));
  EXPECT_EQ(Inferred(with), "f32[5, 3], f32[5, 3]");
  EXPECT_EQ(SignatureThatDoesNotFit(without) + SignatureThatDoesNotFit(with), "");
  using Pairs = std::vector<std::pair<int, int>>;
  EXPECT_EQ(without.kind->InPlace(without.types()), (Pairs{{0, 0}}));
  EXPECT_EQ(with.kind->InPlace(with.types()), (Pairs{{0, 0}, {2, 1}}));
  EXPECT_EQ(Inferred(Use("sgd_update", {p, p, p, scalar, scalar, U8({})}, Sgd(0))),
            "6 inputs; it takes 5: parameter, gradient, lr, scale, predicate");
}

TEST(Sgd, RecordsWithAndWithoutMomentum) {
  Graph graph("test");
  const Tensor p = graph.Input("p", F32({2})), lr = graph.Input("lr", F32({}));
  const Tensor predicate = AllFinite({p});
  const SgdResult without = SgdUpdate(p, p, {}, lr, lr, predicate, {});
  EXPECT_TRUE(without.parameter.valid());
  EXPECT_FALSE(without.momentum.valid());
  const SgdResult with = SgdUpdate(p, p, p, lr, lr, predicate, {.momentum = 0.9});
  EXPECT_EQ(graph.value(with.momentum.id()).path, "sgd_update_1.momentum");
  EXPECT_TRUE(graph.status().ok()) << graph.status();
}

TEST(Adamw, ShapesAndSignatures) {
  const TensorType p = F32({5}), scalar = F32({});
  const Use use("adamw_update", {p, p, p, p, scalar, scalar, I64({}), U8({})}, kAdamw);
  EXPECT_EQ(Inferred(use), "f32[5], f32[5], f32[5]");
  EXPECT_EQ(SignaturesOf(use), "S(0), S(0), S(0), S(0), B, B, B, B -> S(0), S(0), S(0)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(
      Inferred(Use("adamw_update", {p, p, p, F32({4}), scalar, scalar, I64({}), U8({})}, kAdamw)),
      "input 3 (v) is f32[4]; it must be f32[5]");
}

TEST(AllFinite, EachInputMayBeSplit) {
  const Use use("all_finite", {F32({5}), F32({2, 2}), F32({})});
  EXPECT_EQ(Inferred(use), "u8[]");
  EXPECT_EQ(SignaturesOf(use),
            "B, S(0), B -> P(min)\nB, S(1), B -> P(min)\n"
            "S(0), B, B -> P(min)\nS(0), S(0), B -> P(min)\nS(0), S(1), B -> P(min)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
}

TEST(AllFinite, ManyInputsAreSplitAlongOneDimension) {
  std::vector<TensorType> inputs(20, F32({3}));
  inputs[1] = F32({2, 2});
  inputs[2] = F32({});
  const std::vector<std::string> lines =
      absl::StrSplit(SignaturesOf(Use("all_finite", inputs)), '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].substr(0, 19), "S(0), S(0), B, S(0)");
  EXPECT_EQ(lines[1].substr(0, 15), "B, S(1), B, B, ");
}

}  // namespace
}  // namespace tessera
