// Values that were checked by hand. tests/operators compares each operator with its definition.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/kernels/cpu/testing/kernels.h"
#include "gtest/gtest.h"

namespace tessera::cpu {
namespace {

using ValuesTest = TargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, ValuesTest, ::testing::ValuesIn(RunnableTargets()), NameOfTarget);

TEST_P(ValuesTest, ArithmeticBroadcasts) {
  const TestTensor a = FloatTensor({2, 3}, {1, 2, 3, 4, 5, 6}), b = FloatTensor({3}, {10, 20, 30});
  const TestTensor column = FloatTensor({2, 1}, {2, 4});
  EXPECT_EQ(RunFloats({"add", {}, {&a, &b}, {F32({2, 3})}}),
            (std::vector<float>{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(RunFloats({"divide", {}, {&a, &column}, {F32({2, 3})}}),
            (std::vector<float>{0.5, 1, 1.5, 1, 1.25, 1.5}));
  EXPECT_EQ(RunFloats({"subtract", {}, {&column, &b}, {F32({2, 3})}}),
            (std::vector<float>{-8, -18, -28, -6, -16, -26}));
}

TEST_P(ValuesTest, IntegersWrapAndNeverTrap) {
  const int32_t lowest = std::numeric_limits<int32_t>::min();
  const TestTensor a = IntTensor({4}, {7, -7, 5, lowest}), b = IntTensor({4}, {2, 2, 0, -1});
  const auto quotient = RunKernels({"divide", {}, {&a, &b}, {{DType::kI32, {4}}}});
  EXPECT_EQ(quotient[0].values<int32_t>(), (std::vector<int32_t>{3, -3, 0, lowest}));
  const auto sum = RunKernels({"add", {}, {&a, &b}, {{DType::kI32, {4}}}});
  EXPECT_EQ(sum[0].values<int32_t>()[3], std::numeric_limits<int32_t>::max());
}

TEST_P(ValuesTest, FunctionsKnowTheirLimits) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const TestTensor x = FloatTensor({8}, {0, 1, -1, 89, -110, inf, -inf, nan});
  const auto e = RunFloats({"exp", {}, {&x}, {F32({8})}});
  EXPECT_EQ(e[0], 1.0f);
  EXPECT_FLOAT_EQ(e[1], 2.7182818f);
  EXPECT_EQ(e[3], inf);
  EXPECT_EQ(e[4], 0.0f);
  EXPECT_EQ(e[5], inf);
  EXPECT_EQ(e[6], 0.0f);
  EXPECT_TRUE(std::isnan(e[7]));
  const TestTensor y = FloatTensor({7}, {0, 1, -1, 1e-41f, 10, inf, nan});
  const auto log = RunFloats({"log", {}, {&y}, {F32({7})}});
  EXPECT_EQ(log[0], -inf);
  EXPECT_EQ(log[1], 0.0f);
  EXPECT_TRUE(std::isnan(log[2]));
  EXPECT_FLOAT_EQ(log[3], std::log(1e-41f));
  EXPECT_FLOAT_EQ(log[4], std::log(10.0f));
  EXPECT_EQ(log[5], inf);
  EXPECT_TRUE(std::isnan(log[6]));
}

// Regression test: Max(a, NaN) is a on one target and NaN on another.
TEST_P(ValuesTest, GeluOfNaNIsNaN) {
  const TestTensor x = FloatTensor({3}, {1, std::nanf(""), -1}), dy = FloatTensor({3}, {1, 1, 1});
  for (const char* approximate : {"none", "tanh"}) {
    const Attributes attributes = {{"approximate", std::string(approximate)}};
    const auto y = RunFloats({"gelu", attributes, {&x}, {F32({3})}});
    const auto dx = RunFloats({"gelu_grad", attributes, {&dy, &x}, {F32({3})}});
    EXPECT_TRUE(std::isnan(y[1])) << approximate << ": " << y[1];
    EXPECT_TRUE(std::isnan(dx[1])) << approximate << ": " << dx[1];
    EXPECT_FALSE(std::isnan(y[0]) || std::isnan(y[2]) || std::isnan(dx[0]) || std::isnan(dx[2]));
  }
}

TEST_P(ValuesTest, CastsRoundOnce) {
  // Between two bf16 (1 and 1 + 2^-7): the tie goes to even, and a bit above it does not.
  const TestTensor x = MakeTensor<double>(
      DType::kF64, {4}, {1 + std::exp2(-8), 1 + std::exp2(-8) + std::exp2(-40), -2.75, 300.5});
  const auto bf16 = RunKernels({"cast", {{"dtype", DType::kBF16}}, {&x}, {{DType::kBF16, {4}}}});
  EXPECT_EQ(bf16[0].values<uint16_t>(), (std::vector<uint16_t>{0x3f80, 0x3f81, 0xc030, 0x4396}));
  const auto i32 = RunKernels({"cast", {{"dtype", DType::kI32}}, {&x}, {{DType::kI32, {4}}}});
  EXPECT_EQ(i32[0].values<int32_t>(), (std::vector<int32_t>{1, 1, -2, 300}));
  const auto u8 = RunKernels({"cast", {{"dtype", DType::kU8}}, {&x}, {{DType::kU8, {4}}}});
  EXPECT_EQ(u8[0].values<uint8_t>(), (std::vector<uint8_t>{1, 1, 0, 255}));
}

TEST_P(ValuesTest, MatMulOfEveryForm) {
  const TestTensor a = FloatTensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const TestTensor at = FloatTensor({3, 2}, {1, 4, 2, 5, 3, 6});
  const TestTensor b = FloatTensor({3, 2}, {1, 0, 0, 1, 2, -1});
  const TestTensor bt = FloatTensor({2, 3}, {1, 0, 2, 0, 1, -1});
  const std::vector<float> expected = {7, -1, 16, -1};
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      for (absl::string_view name : {"onednn", "highway"}) {
        EXPECT_EQ(RunFloats({"matmul",
                             {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
                             {transpose_a ? &at : &a, transpose_b ? &bt : &b},
                             {F32({2, 2})}},
                            2, name),
                  expected);
      }
    }
  }
  for (const TestTensor* in : {&a, &at}) {
    for (const TestTensor* by : {&b, &bt}) {
      const TestTensor a_bf16 = ToBF16(*in), b_bf16 = ToBF16(*by);
      const Use use = {"matmul",
                       {{"transpose_a", in == &at}, {"transpose_b", by == &bt}},
                       {&a_bf16, &b_bf16},
                       {{DType::kBF16, {2, 2}}}};
      for (const Kernel* kernel : CandidateKernels(Cpu(), RequestOf(use, 2))) {
        EXPECT_EQ(FromBF16(RunKernel(*kernel, use, 2, '\xff').outputs[0]), expected)
            << std::string(kernel->name());
      }
    }
  }
  const TestTensor none = FloatTensor({2, 0}, {}), of_none = FloatTensor({0, 2}, {});
  EXPECT_EQ(RunFloats({"matmul",
                       {{"transpose_a", false}, {"transpose_b", false}},
                       {&none, &of_none},
                       {F32({2, 2})}}),
            (std::vector<float>{0, 0, 0, 0}));
}

TEST_P(ValuesTest, MatMulWithEpilogues) {
  const TestTensor a = FloatTensor({2, 1}, {1, -1}), b = FloatTensor({1, 3}, {1, 2, 3});
  const TestTensor bias = FloatTensor({3}, {1, 1, -4}),
                   full = FloatTensor({2, 3}, {0, 0, 0, 0, 5, 0});
  const Attributes plain = {{"transpose_a", false}, {"transpose_b", false}};
  EXPECT_EQ(
      RunFloats(
          {"matmul", plain, {&a, &b, &bias}, {F32({2, 3})}, {{"add", {}, 1}, {"relu", {}, 0}}}),
      (std::vector<float>{2, 3, 0, 0, 0, 0}));
  EXPECT_EQ(RunFloats({"matmul",
                       plain,
                       {&a, &b, &bias, &full},
                       {F32({2, 3})},
                       {{"add", {}, 1}, {"add", {}, 1}}}),
            (std::vector<float>{2, 3, -1, 0, 4, -7}));
  const TestTensor a_bf16 = ToBF16(a), b_bf16 = ToBF16(b), bias_bf16 = ToBF16(bias),
                   full_bf16 = ToBF16(full);
  const Use use = {"matmul",
                   plain,
                   {&a_bf16, &b_bf16, &bias_bf16, &full_bf16},
                   {{DType::kBF16, {2, 3}}},
                   {{"add", {}, 1}, {"add", {}, 1}, {"relu", {}, 0}}};
  int kernels = 0;
  for (const Kernel* kernel : CandidateKernels(Cpu(), RequestOf(use, 2))) {
    EXPECT_EQ(FromBF16(RunKernel(*kernel, use, 2, '\xff').outputs[0]),
              (std::vector<float>{2, 3, 0, 0, 4, 0}))
        << std::string(kernel->name());
    ++kernels;
  }
  EXPECT_GT(kernels, 0);
}

TEST_P(ValuesTest, AttentionOfTwoTokens) {
  // Equal scores: the second token sees the mean of both values, the first only its own.
  const TestTensor q = FloatTensor({1, 2, 1, 2}, {0, 0, 0, 0}),
                   v = FloatTensor({1, 2, 1, 2}, {1, 2, 3, 6});
  const auto result = RunKernels({"attention",
                                  {{"causal", true}, {"scale", 1.0}},
                                  {&q, &q, &v},
                                  {F32({1, 2, 1, 2}), F32({1, 1, 2})}});
  EXPECT_EQ(result[0].values<float>(), (std::vector<float>{1, 2, 2, 4}));
  EXPECT_FLOAT_EQ(result[1].values<float>()[0], 0.0f);
  EXPECT_FLOAT_EQ(result[1].values<float>()[1], std::log(2.0f));
}

TEST_P(ValuesTest, UpdatesKeepTheirStateWhereThePredicateSaysSo) {
  const TestTensor p = FloatTensor({2}, {1, -1}), g = FloatTensor({2}, {0.5, std::nanf("")});
  const TestTensor m = FloatTensor({2}, {0, 0.25}), v = FloatTensor({2}, {0, 1});
  const TestTensor lr = ScalarTensor(DType::kF32, 0.1f), one = ScalarTensor(DType::kF32, 1.0f);
  const TestTensor step = ScalarTensor<int64_t>(DType::kI64, 1);
  const TestTensor no = ScalarTensor<uint8_t>(DType::kU8, 0),
                   yes = ScalarTensor<uint8_t>(DType::kU8, 1);
  const Attributes adamw = {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 0.0}, {"weight_decay", 0.0}};
  const std::vector<TensorType> types(3, F32({2}));
  auto kept = RunKernels({"adamw_update", adamw, {&p, &g, &m, &v, &lr, &one, &step, &no}, types});
  EXPECT_EQ(kept[0].values<float>(), p.values<float>());
  EXPECT_EQ(kept[1].values<float>(), m.values<float>());
  EXPECT_EQ(kept[2].values<float>(), v.values<float>());
  // The first step changes a parameter by lr, against the sign of the gradient.
  auto moved = RunKernels({"adamw_update", adamw, {&p, &g, &m, &v, &lr, &one, &step, &yes}, types});
  EXPECT_FLOAT_EQ(moved[0].values<float>()[0], 0.9f);
  auto sgd = RunKernels({"sgd_update",
                         {{"momentum", 0.0}, {"weight_decay", 0.0}},
                         {&p, &g, &lr, &one, &yes},
                         {F32({2})}});
  EXPECT_FLOAT_EQ(sgd[0].values<float>()[0], 0.95f);
}

TEST_P(ValuesTest, IdsOutsideOfTheTableAreAnError) {
  const TestTensor table = FloatTensor({2, 2}, {1, 2, 3, 4}), ids = IntTensor({2}, {1, 2});
  const KernelRequest request{.op = "embedding",
                              .attributes = {},
                              .inputs = {table.type, ids.type},
                              .outputs = {F32({2, 2})},
                              .epilogues = {}};
  TestTensor y = EmptyTensor(DType::kF32, {2, 2});
  auto bound = (*DefaultKernel(Cpu(), request))->Bind(request);
  ASSERT_TRUE(bound.ok());
  const TensorView inputs[] = {table.view(), ids.view()}, outputs[] = {y.view()};
  const absl::Status status = (*bound)->Run({request, inputs, outputs});
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
}

TEST_P(ValuesTest, TheProcessorIsNamed) {
  EXPECT_EQ(Cpu().processor().threads, 2);
  EXPECT_NE(Cpu().processor().name.find(", "), std::string::npos) << Cpu().processor().name;
}

}  // namespace
}  // namespace tessera::cpu
