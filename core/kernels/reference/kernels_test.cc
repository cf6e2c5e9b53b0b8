// Values computed by hand. tests/operators checks every operator at many shapes, with numeric
// gradients and against other backends.
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/kernels/interface/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/tensor/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A tensor with its memory; row-major.
template <typename T>
struct Array {
  Array(DType dtype, Shape shape_of_it, std::vector<T> values)
      : shape(std::move(shape_of_it)), data(std::move(values)) {
    data.resize(NumElements(shape));
    view = {data.data(), dtype, shape, RowMajorStrides(shape)};
  }
  Shape shape;
  std::vector<T> data;
  TensorView view;
};

Array<double> F64(Shape shape, std::vector<double> values = {}) {
  return {DType::kF64, std::move(shape), std::move(values)};
}
Array<int32_t> I32(Shape shape, std::vector<int32_t> values = {}) {
  return {DType::kI32, std::move(shape), std::move(values)};
}
Array<int64_t> I64(Shape shape, std::vector<int64_t> values = {}) {
  return {DType::kI64, std::move(shape), std::move(values)};
}
Array<uint8_t> U8(Shape shape, std::vector<uint8_t> values = {}) {
  return {DType::kU8, std::move(shape), std::move(values)};
}

KernelRequest MakeRequest(absl::string_view op, const Attributes& attributes,
                          const std::vector<TensorView>& inputs,
                          const std::vector<TensorView>& outputs) {
  KernelRequest request;
  request.op = std::string(op.data(), op.size());
  request.attributes = attributes;
  for (const TensorView& view : inputs) request.inputs.push_back({view.dtype, view.shape});
  for (const TensorView& view : outputs) request.outputs.push_back({view.dtype, view.shape});
  return request;
}

absl::Status RunKernel(absl::string_view op, const Attributes& attributes,
                       const std::vector<TensorView>& inputs,
                       const std::vector<TensorView>& outputs) {
  const auto backend = MakeReferenceBackend();
  const KernelRequest request = MakeRequest(op, attributes, inputs, outputs);
  auto kernel = DefaultKernel(*backend, request);
  if (!kernel.ok()) return kernel.status();
  auto bound = (*kernel)->Bind(request);
  if (!bound.ok()) return bound.status();
  auto workspace = backend->Allocate((*kernel)->WorkspaceBytes(request, backend->processor()),
                                     /*guarded=*/false);
  if (!workspace.ok()) return workspace.status();
  const std::optional<RandomDraw> draw = DrawOf(outputs[0].shape, attributes);
  return (*bound)->Run({request, inputs, outputs, (*workspace)->data(), (*workspace)->bytes(),
                        draw.has_value() ? &*draw : nullptr});
}

TEST(ReferenceBackend, KeepsFloatsInDouble) {
  const auto backend = MakeReferenceBackend();
  for (DType dtype : kAllDTypes) {
    EXPECT_EQ(backend->Realize(dtype), IsFloating(dtype) ? DType::kF64 : dtype);
  }
  EXPECT_EQ(backend->name(), "reference");
}

TEST(ReferenceBackend, CopiesAndGuards) {
  const auto backend = MakeReferenceBackend();
  auto memory = backend->Allocate(100, /*guarded=*/true);
  ASSERT_TRUE(memory.ok());
  const double in = 1.5;
  double out = 0;
  ASSERT_TRUE(backend->CopyToDevice((*memory)->data(), &in, sizeof(in)).ok());
  ASSERT_TRUE(backend->CopyToHost(&out, (*memory)->data(), sizeof(out)).ok());
  EXPECT_TRUE(backend->Synchronize().ok());
  EXPECT_EQ(out, in);
}

TEST(ReferenceKernels, RefuseOtherFloats) {
  const auto backend = MakeReferenceBackend();
  KernelRequest request;
  request.op = "exp";
  request.inputs = request.outputs = {TensorType{DType::kF32, {2}}};
  EXPECT_EQ(DefaultKernel(*backend, request).status().code(), absl::StatusCode::kNotFound);
}

TEST(ReferenceKernels, AddBroadcastsAndWraps) {
  auto a = F64({2, 1}, {1, 2}), b = F64({3}, {10, 20, 30}), y = F64({2, 3});
  ASSERT_TRUE(RunKernel("add", {}, {a.view, b.view}, {y.view}).ok());
  EXPECT_THAT(y.data, ElementsAre(11, 21, 31, 12, 22, 32));

  auto i = I32({1}, {std::numeric_limits<int32_t>::max()}), one = I32({1}, {1}), sum = I32({1});
  ASSERT_TRUE(RunKernel("add", {}, {i.view, one.view}, {sum.view}).ok());
  EXPECT_THAT(sum.data, ElementsAre(std::numeric_limits<int32_t>::min()));
}

TEST(ReferenceKernels, DivideOfIntegersTrapsNowhere) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  auto a = I64({4}, {-7, 7, kMin, 5}), b = I64({4}, {2, -2, -1, 0}), y = I64({4});
  ASSERT_TRUE(RunKernel("divide", {}, {a.view, b.view}, {y.view}).ok());
  EXPECT_THAT(y.data, ElementsAre(-3, -3, kMin, 0));
}

TEST(ReferenceKernels, MaximaAndReluKeepNaN) {
  auto a = F64({2}, {kNaN, 1}), b = F64({2}, {1, kNaN}), y = F64({2}), max = F64({});
  ASSERT_TRUE(RunKernel("maximum", {}, {a.view, b.view}, {y.view}).ok());
  EXPECT_TRUE(std::isnan(y.data[0]) && std::isnan(y.data[1]));
  ASSERT_TRUE(RunKernel("reduce_max", {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}},
                        {a.view}, {max.view})
                  .ok());
  EXPECT_TRUE(std::isnan(max.data[0]));
  ASSERT_TRUE(RunKernel("relu", {}, {a.view}, {y.view}).ok());
  EXPECT_TRUE(std::isnan(y.data[0]));
}

TEST(ReferenceKernels, CastTruncates) {
  auto x = F64({3}, {-1.9, 1.9, 7});
  auto y = I32({3});
  ASSERT_TRUE(RunKernel("cast", {{"dtype", DType::kI32}}, {x.view}, {y.view}).ok());
  EXPECT_THAT(y.data, ElementsAre(-1, 1, 7));
}

TEST(ReferenceKernels, MatMulTakesStrides) {
  // a [2, 3] is stored as its transpose [3, 2]; b is passed as [columns, depth].
  auto a = F64({3, 2}, {1, 4, 2, 5, 3, 6}), b = F64({2, 3}, {1, 0, 1, 0, 2, 0}), y = F64({2, 2});
  TensorView a_transposed = {a.data.data(), DType::kF64, {2, 3}, {1, 2}};
  ASSERT_TRUE(RunKernel("matmul", {{"transpose_a", false}, {"transpose_b", true}},
                        {a_transposed, b.view}, {y.view})
                  .ok());
  EXPECT_THAT(y.data, ElementsAre(4, 4, 10, 10));
  ASSERT_TRUE(RunKernel("matmul", {{"transpose_a", true}, {"transpose_b", true}}, {a.view, b.view},
                        {y.view})
                  .ok());
  EXPECT_THAT(y.data, ElementsAre(4, 4, 10, 10));
}

TEST(ReferenceKernels, SoftmaxInPlaceAlongAnyAxis) {
  const double log3 = std::log(3.0);
  auto x = F64({2, 2}, {0, 1000, log3, 1000});
  ASSERT_TRUE(RunKernel("softmax", {{"axis", int64_t{0}}}, {x.view}, {x.view}).ok());
  EXPECT_THAT(x.data, Pointwise(DoubleNear(1e-15), {0.25, 0.5, 0.75, 0.5}));
}

TEST(ReferenceKernels, ReduceKeepsTheOtherAxes) {
  auto x = F64({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  auto sums = F64({3}), maxima = F64({2, 1, 2});
  ASSERT_TRUE(RunKernel("reduce_sum", {{"axes", std::vector<int64_t>{0, 2}}, {"keep_dims", false}},
                        {x.view}, {sums.view})
                  .ok());
  EXPECT_THAT(sums.data, ElementsAre(18, 26, 34));
  ASSERT_TRUE(RunKernel("reduce_max", {{"axes", std::vector<int64_t>{1}}, {"keep_dims", true}},
                        {x.view}, {maxima.view})
                  .ok());
  EXPECT_THAT(maxima.data, ElementsAre(5, 6, 11, 12));
}

TEST(ReferenceKernels, ReduceMaxGradSharesBetweenEqualMaxima) {
  auto x = F64({1, 3}, {4, 4, 1}), y = F64({1}, {4}), dy = F64({1}, {3}), dx = F64({1, 3});
  ASSERT_TRUE(RunKernel("reduce_max_grad",
                        {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}},
                        {dy.view, x.view, y.view}, {dx.view})
                  .ok());
  EXPECT_THAT(dx.data, ElementsAre(1.5, 1.5, 0));
}

TEST(ReferenceKernels, LayerNorm) {
  auto x = F64({1, 2}, {1, 3}), weight = F64({2}, {2, 3}), bias = F64({2}, {10, 20});
  auto y = F64({1, 2}), mean = F64({1}), rstd = F64({1});
  ASSERT_TRUE(RunKernel("layer_norm", {{"eps", 3.0}}, {x.view, weight.view, bias.view},
                        {y.view, mean.view, rstd.view})
                  .ok());
  EXPECT_THAT(mean.data, ElementsAre(2));
  EXPECT_THAT(rstd.data, ElementsAre(0.5));
  EXPECT_THAT(y.data, ElementsAre(9, 21.5));
}

TEST(ReferenceKernels, EmbeddingAndIdsOutOfRange) {
  auto table = F64({3, 2}, {1, 2, 3, 4, 5, 6});
  auto ids = I32({3}, {2, 0, 2});
  auto y = F64({3, 2}), dtable = F64({3, 2});
  ASSERT_TRUE(RunKernel("embedding", {}, {table.view, ids.view}, {y.view}).ok());
  EXPECT_THAT(y.data, ElementsAre(5, 6, 1, 2, 5, 6));
  ASSERT_TRUE(
      RunKernel("embedding_grad", {{"rows", int64_t{3}}}, {y.view, ids.view}, {dtable.view}).ok());
  EXPECT_THAT(dtable.data, ElementsAre(1, 2, 0, 0, 10, 12));
  ids.data[1] = 3;
  EXPECT_EQ(RunKernel("embedding", {}, {table.view, ids.view}, {y.view}).message(),
            "id 3 is not in the table: ids are in [0, 3)");
}

TEST(ReferenceKernels, CausalAttention) {
  // Scores of the second token: log 3 for the first key, 0 for the second.
  auto q = F64({1, 2, 1, 1}, {1, std::log(3.0)}), k = F64({1, 2, 1, 1}, {1, 0});
  auto v = F64({1, 2, 1, 1}, {8, 4}), o = F64({1, 2, 1, 1}), lse = F64({1, 1, 2});
  ASSERT_TRUE(RunKernel("attention", {{"causal", true}, {"scale", 1.0}}, {q.view, k.view, v.view},
                        {o.view, lse.view})
                  .ok());
  EXPECT_THAT(o.data, Pointwise(DoubleNear(1e-14), {8.0, 7.0}));
  EXPECT_THAT(lse.data, Pointwise(DoubleNear(1e-14), {1.0, std::log(4.0)}));
}

TEST(ReferenceKernels, AttentionDecodeWritesItsRow) {
  auto q = F64({1, 1, 1, 1}, {1}), k = F64({1, 1, 1, 1}, {0}), v = F64({1, 1, 1, 1}, {4});
  auto k_cache = F64({1, 3, 1, 1}, {std::log(3.0), 77, 5});
  auto v_cache = F64({1, 3, 1, 1}, {8, 77, 6});
  auto position = I64({}, {1});
  auto o = F64({1, 1, 1, 1}), new_v = F64({1, 3, 1, 1});
  ASSERT_TRUE(RunKernel("attention_decode", {{"scale", 1.0}},
                        {q.view, k.view, v.view, k_cache.view, v_cache.view, position.view},
                        {o.view, k_cache.view, new_v.view})
                  .ok());
  EXPECT_NEAR(o.data[0], 7, 1e-14);
  EXPECT_THAT(k_cache.data, ElementsAre(std::log(3.0), 0, 5));
  EXPECT_THAT(new_v.data, ElementsAre(8, 4, 6));
  position.data[0] = 3;
  EXPECT_EQ(RunKernel("attention_decode", {{"scale", 1.0}},
                      {q.view, k.view, v.view, k_cache.view, v_cache.view, position.view},
                      {o.view, k_cache.view, new_v.view})
                .code(),
            absl::StatusCode::kOutOfRange);
}

TEST(ReferenceKernels, RowMaskHasThePosition) {
  auto position = I64({}, {2});
  std::vector<uint8_t> mask(6);
  const TensorView y = {mask.data(), DType::kU8, {3, 2}, {2, 1}};
  ASSERT_TRUE(RunKernel("row_mask", {{"up_to", false}}, {position.view}, {y}).ok());
  EXPECT_THAT(mask, ElementsAre(0, 0, 0, 0, 1, 1));
  for (const int64_t outside : {-1, 3}) {
    position.data[0] = outside;
    EXPECT_EQ(RunKernel("row_mask", {{"up_to", false}}, {position.view}, {y}).code(),
              absl::StatusCode::kOutOfRange);
  }
}

TEST(ReferenceKernels, LinearLogSumExpIgnoresTargetsOutsideOfTheVocabulary) {
  auto x = F64({2, 1}, {1, 1}), w = F64({2, 1}, {std::log(3.0), 0});
  auto targets = I32({2}, {-100, 0});
  auto lse = F64({2}), target_logit = F64({2});
  ASSERT_TRUE(RunKernel("linear_log_sum_exp", {}, {x.view, w.view, targets.view},
                        {lse.view, target_logit.view})
                  .ok());
  EXPECT_THAT(lse.data, Pointwise(DoubleNear(1e-14), {std::log(4.0), std::log(4.0)}));
  EXPECT_THAT(target_logit.data, ElementsAre(0, std::log(3.0)));

  // d(lse - target_logit) of the second row alone; the first one's NaN is not read.
  x.data[0] = kNaN;
  auto dlse = F64({2}, {0, 1}), dtarget = F64({2}, {0, -1}), dx = F64({2, 1}), dw = F64({2, 1});
  ASSERT_TRUE(RunKernel("linear_log_sum_exp_grad", {},
                        {dlse.view, dtarget.view, x.view, w.view, targets.view, lse.view},
                        {dx.view, dw.view})
                  .ok());
  EXPECT_THAT(dx.data, Pointwise(DoubleNear(1e-14), {0.0, -0.25 * std::log(3.0)}));
  EXPECT_THAT(dw.data, Pointwise(DoubleNear(1e-14), {-0.25, 0.25}));
}

TEST(ReferenceKernels, KeptLogitsAreThoseThatTheGradientReads) {
  const Attributes keeps = {{"keep_logits", true}};
  auto x = F64({2, 1}, {2, 3}), w = F64({2, 1}, {1, -1});
  auto targets = I32({2}, {0, 1});
  auto lse = F64({2}), target_logit = F64({2}), logits = F64({2, 2});
  ASSERT_TRUE(RunKernel("linear_log_sum_exp", keeps, {x.view, w.view, targets.view},
                        {lse.view, target_logit.view, logits.view})
                  .ok());
  EXPECT_THAT(logits.data, ElementsAre(2, -2, 3, -3));
  EXPECT_THAT(target_logit.data, ElementsAre(2, -3));

  // The second row has no weight: nothing of it is read.
  logits.data = {0, std::log(3.0), kNaN, kNaN};
  lse.data = {std::log(4.0), kNaN};
  auto dlse = F64({2}, {1, 0}), dtarget = F64({2}, {0, 0}), dx = F64({2, 1}), dw = F64({2, 1});
  ASSERT_TRUE(
      RunKernel("linear_log_sum_exp_grad", keeps,
                {dlse.view, dtarget.view, x.view, w.view, targets.view, lse.view, logits.view},
                {dx.view, dw.view})
          .ok());
  EXPECT_THAT(dx.data, Pointwise(DoubleNear(1e-14), {0.25 - 0.75, 0.0}));
  EXPECT_THAT(dw.data, Pointwise(DoubleNear(1e-14), {0.5, 1.5}));
}

TEST(ReferenceKernels, TheLogSumExpOfMinusInfinityIsMinusInfinity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto x = F64({1, 1}, {1}), w = F64({2, 1}, {-kInfinity, -kInfinity});
  auto targets = I32({1}, {0});
  auto lse = F64({1}), target_logit = F64({1});
  ASSERT_TRUE(RunKernel("linear_log_sum_exp", {}, {x.view, w.view, targets.view},
                        {lse.view, target_logit.view})
                  .ok());
  EXPECT_EQ(lse.data[0], -kInfinity);
}

TEST(ReferenceKernels, ADropoutOfARegionIsThatRegionOfTheGlobalOne) {
  auto x = F64({4, 6}, std::vector<double>(24, 1.0)), y = F64({4, 6}), part = F64({2, 3});
  auto seed = I64({}, {7}), step = I64({}, {3});
  Attributes attributes = {{"probability", 0.5}, {"random_path", std::string("blocks.0.drop")}};
  ASSERT_TRUE(RunKernel("dropout", attributes, {x.view, seed.view, step.view}, {y.view}).ok());
  const RandomStream stream = MakeStream(7, "blocks.0.drop");
  for (uint64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(y.data[i], RandomWord(stream, 3, i) >= 0x80000000u ? 2 : 0);
  }
  attributes.Set("start", std::vector<int64_t>{1, 3});
  attributes.Set("global_shape", std::vector<int64_t>{4, 6});
  auto x_part = F64({2, 3}, std::vector<double>(6, 1.0));
  ASSERT_TRUE(
      RunKernel("dropout", attributes, {x_part.view, seed.view, step.view}, {part.view}).ok());
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(part.data[i * 3 + j], y.data[(1 + i) * 6 + 3 + j]);
  }
}

TEST(ReferenceKernels, AllFinite) {
  auto a = F64({2}, {1, 2}), b = F64({0}), c = F64({1}, {std::numeric_limits<double>::infinity()});
  auto y = U8({});
  ASSERT_TRUE(RunKernel("all_finite", {}, {a.view, b.view}, {y.view}).ok());
  EXPECT_EQ(y.data[0], 1);
  ASSERT_TRUE(RunKernel("all_finite", {}, {a.view, b.view, c.view}, {y.view}).ok());
  EXPECT_EQ(y.data[0], 0);
}

TEST(ReferenceKernels, SgdUpdate) {
  auto p = F64({1}, {10}), g = F64({1}, {4}), m = F64({1}, {2});
  auto lr = F64({}, {0.1}), scale = F64({}, {0.5});
  auto predicate = U8({}, {1});
  auto new_p = F64({1}), new_m = F64({1});
  ASSERT_TRUE(RunKernel("sgd_update", {{"momentum", 0.5}, {"weight_decay", 0.1}},
                        {p.view, g.view, m.view, lr.view, scale.view, predicate.view},
                        {new_p.view, new_m.view})
                  .ok());
  EXPECT_DOUBLE_EQ(new_m.data[0], 4);    // 0.5 * 2 + 4 * 0.5 + 0.1 * 10
  EXPECT_DOUBLE_EQ(new_p.data[0], 9.6);  // 10 - 0.1 * 4
  ASSERT_TRUE(RunKernel("sgd_update", {{"momentum", 0.0}, {"weight_decay", 0.0}},
                        {p.view, g.view, lr.view, scale.view, predicate.view}, {new_p.view})
                  .ok());
  EXPECT_DOUBLE_EQ(new_p.data[0], 9.8);
}

TEST(ReferenceKernels, AdamwUpdateHeedsItsPredicate) {
  auto p = F64({1}, {10}), g = F64({1}, {4}), m = F64({1}, {0}), v = F64({1}, {0});
  auto lr = F64({}, {0.1}), scale = F64({}, {0.5});
  auto step = I64({}, {1});
  auto predicate = U8({}, {1});
  const Attributes attributes = {
      {"beta1", 0.9}, {"beta2", 0.75}, {"eps", 2.0}, {"weight_decay", 0.5}};
  const std::vector<TensorView> inputs = {p.view,  g.view,     m.view,    v.view,
                                          lr.view, scale.view, step.view, predicate.view};
  ASSERT_TRUE(RunKernel("adamw_update", attributes, inputs, {p.view, m.view, v.view}).ok());
  // At the first step m' / (1 - beta1) = 2 and v' / (1 - beta2) = 4.
  EXPECT_NEAR(m.data[0], 0.2, 1e-15);
  EXPECT_NEAR(v.data[0], 1, 1e-15);
  EXPECT_NEAR(p.data[0], 10 - 0.1 * 0.5 * 10 - 0.1 * 2 / (2 + 2), 1e-14);

  predicate.data[0] = 0;
  g.data[0] = kNaN;
  const std::vector<double> before = {p.data[0], m.data[0], v.data[0]};
  ASSERT_TRUE(RunKernel("adamw_update", attributes, inputs, {p.view, m.view, v.view}).ok());
  EXPECT_THAT(before, ElementsAre(p.data[0], m.data[0], v.data[0]));
}

}  // namespace
}  // namespace tessera
