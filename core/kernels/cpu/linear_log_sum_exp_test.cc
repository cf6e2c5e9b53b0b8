// The head's loss by hand, and in chunks.
#include "core/ops/linear_log_sum_exp.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/kernels/cpu/testing/kernels.h"
#include "core/tensor/half.h"
#include "gtest/gtest.h"

namespace tessera::cpu {
namespace {

using LinearLogSumExpTest = TargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, LinearLogSumExpTest, ::testing::ValuesIn(RunnableTargets()),
                         NameOfTarget);

TEST_P(LinearLogSumExpTest, LinearLogSumExpIgnoresTargetsOutside) {
  const TestTensor x = FloatTensor({2, 1}, {1, 2}), w = FloatTensor({3, 1}, {0, 0, 1});
  const TestTensor targets = IntTensor({2}, {2, -100});
  const auto result =
      RunKernels({"linear_log_sum_exp", {}, {&x, &w, &targets}, {F32({2}), F32({2})}});
  EXPECT_FLOAT_EQ(result[0].values<float>()[0], std::log(2 + std::exp(1.0f)));
  EXPECT_FLOAT_EQ(result[0].values<float>()[1], std::log(2 + std::exp(2.0f)));
  EXPECT_EQ(result[1].values<float>(), (std::vector<float>{1, 0}));
}

TEST_P(LinearLogSumExpTest, ARowWithoutWeightContributesNothingWhateverItHolds) {
  const float nan = std::nanf("");
  const TestTensor dlse = FloatTensor({2}, {1, 0}), dtarget = FloatTensor({2}, {-1, 0});
  const TestTensor x = FloatTensor({2, 2}, {1, 2, nan, nan}), w = FloatTensor({2, 2}, {1, 0, 0, 0});
  const TestTensor targets = IntTensor({2}, {0, 1}),
                   lse = FloatTensor({2}, {std::log(1 + std::exp(1.0f)), nan});
  const auto result = RunKernels({"linear_log_sum_exp_grad",
                                  {},
                                  {&dlse, &dtarget, &x, &w, &targets, &lse},
                                  {F32({2, 2}), F32({2, 2})}});
  const float p = 1 / (1 + std::exp(1.0f));  // of word 1 in row 0
  const auto dx = result[0].values<float>(), dw = result[1].values<float>();
  EXPECT_NEAR(dx[0], -p, 1e-6);
  EXPECT_EQ(dx[2], 0.0f);
  EXPECT_EQ(dx[3], 0.0f);
  EXPECT_NEAR(dw[0], -p, 1e-6);
  EXPECT_NEAR(dw[3], 2 * p, 1e-6);
}

// Regression: a row whose first chunk of logits was all -infinity became NaN.
TEST_P(LinearLogSumExpTest, LogitsOfMinusInfinityAddNothing) {
  constexpr int64_t kRows = 2048, kWords = 1100;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const TestTensor x = FloatTensor({kRows, 1}, std::vector<float>(kRows, 1));
  const TestTensor targets = IntTensor({kRows}, std::vector<int32_t>(kRows, kWords - 1));
  for (const float last : {2.0F, -kInfinity}) {
    std::vector<float> logits(kWords, -kInfinity);
    logits.back() = last;
    const TestTensor w = FloatTensor({kWords, 1}, logits);
    const auto result =
        RunKernels({"linear_log_sum_exp", {}, {&x, &w, &targets}, {F32({kRows}), F32({kRows})}});
    EXPECT_EQ(result[0].values<float>(), std::vector<float>(kRows, last));
  }
}

// More rows and words than one chunk of logits holds.
TEST_P(LinearLogSumExpTest, LogitsInChunksAreLogits) {
  constexpr int64_t kRows = 2101, kWords = 2203, kColumns = 5;
  const TestTensor x = RandomTensor({kRows, kColumns}, 30),
                   w = RandomTensor({kWords, kColumns}, 31);
  const TestTensor dlse = RandomTensor({kRows}, 32), dtarget = RandomTensor({kRows}, 33);
  std::vector<int32_t> words(kRows);
  for (int64_t r = 0; r < kRows; ++r) words[r] = static_cast<int32_t>(r * 31 % (kWords + 100));
  const TestTensor targets = IntTensor({kRows}, words);
  const auto forward =
      RunKernels({"linear_log_sum_exp", {}, {&x, &w, &targets}, {F32({kRows}), F32({kRows})}});
  const auto backward = RunKernels({"linear_log_sum_exp_grad",
                                    {},
                                    {&dlse, &dtarget, &x, &w, &targets, &forward[0]},
                                    {x.type, w.type}});
  const auto xs = x.values<float>(), ws = w.values<float>();
  const auto dlses = dlse.values<float>(), dtargets = dtarget.values<float>();
  const auto lse = forward[0].values<float>(), logits = forward[1].values<float>();
  const auto dx = backward[0].values<float>(), dw = backward[1].values<float>();
  std::vector<double> expected_dw(kWords * kColumns), row(kWords);
  for (int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int64_t v = 0; v < kWords; ++v) {
      row[v] = 0;
      for (int64_t c = 0; c < kColumns; ++c) {
        row[v] += double{xs[r * kColumns + c]} * ws[v * kColumns + c];
      }
      sum += std::exp(row[v]);
    }
    ASSERT_NEAR(lse[r], std::log(sum), 2e-5) << "row " << r;
    ASSERT_NEAR(logits[r], words[r] < kWords ? row[words[r]] : 0, 1e-5) << "row " << r;
    double expected_dx[kColumns] = {};
    for (int64_t v = 0; v < kWords; ++v) {
      const double dlogit =
          dlses[r] * std::exp(row[v]) / sum + (v == words[r] ? double{dtargets[r]} : 0);
      for (int64_t c = 0; c < kColumns; ++c) {
        expected_dx[c] += dlogit * ws[v * kColumns + c];
        expected_dw[v * kColumns + c] += dlogit * xs[r * kColumns + c];
      }
    }
    for (int64_t c = 0; c < kColumns; ++c) {
      ASSERT_NEAR(dx[r * kColumns + c], expected_dx[c], 2e-5) << "row " << r;
    }
  }
  for (size_t i = 0; i < expected_dw.size(); ++i) {
    ASSERT_NEAR(dw[i], expected_dw[i], 2e-4) << "word " << i / kColumns;
  }
}

constexpr const char* kKernels[] = {"onednn", "onednn_gemm", "onednn_via_f32",
                                    "onednn_gemm_via_f32", "onednn_bf16"};

std::vector<char> BitsOf(const TestTensor& tensor) {
  const auto* const bytes = static_cast<const char*>(tensor.memory->data());
  return {bytes, bytes + NumBytes(tensor.type)};
}

// Kept logits are those that the backward pass would compute again, to the bit: in a chunk, and in
// several blocks of rows and of words. A row that must not contribute holds NaN.
TEST_P(LinearLogSumExpTest, KeptLogitsChangeNoBits) {
  const Attributes keeps = {{"keep_logits", true}};
  int compared = 0;
  for (const auto& [rows, words, columns] :
       {std::array<int64_t, 3>{7, 11, 5}, std::array<int64_t, 3>{2101, 2203, 5}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto in_dtype = [&](TestTensor tensor) {
        return dtype == DType::kF32 ? std::move(tensor) : ToBF16(tensor);
      };
      TestTensor floats = RandomTensor({rows, columns}, 40);
      floats.view().As<float>()[3 * columns] = std::nanf("");
      const TestTensor x = in_dtype(std::move(floats)),
                       w = in_dtype(RandomTensor({words, columns}, 41));
      TestTensor dlse = RandomTensor({rows}, 42), dtarget = RandomTensor({rows}, 43);
      dlse.view().As<float>()[3] = dtarget.view().As<float>()[3] = 0;
      std::vector<int32_t> ids(rows);
      for (int64_t r = 0; r < rows; ++r) ids[r] = static_cast<int32_t>(r * 31 % (words + 3));
      const TestTensor targets = IntTensor({rows}, ids);
      for (const char* kernel : kKernels) {
        SCOPED_TRACE(testing::Message() << kernel << ", " << rows << " rows");
        const auto made = RunKernels(
            {"linear_log_sum_exp", {}, {&x, &w, &targets}, {F32({rows}), F32({rows})}}, 2, kernel);
        const auto kept = RunKernels({"linear_log_sum_exp",
                                      keeps,
                                      {&x, &w, &targets},
                                      {F32({rows}), F32({rows}), F32({rows, words})}},
                                     2, kernel);
        ASSERT_EQ(made.empty(), kept.empty());
        if (made.empty()) continue;
        for (const int i : {0, 1}) EXPECT_EQ(BitsOf(kept[i]), BitsOf(made[i])) << "output " << i;
        const auto recomputed = RunKernels({"linear_log_sum_exp_grad",
                                            {},
                                            {&dlse, &dtarget, &x, &w, &targets, &made[0]},
                                            {x.type, w.type}},
                                           2, kernel);
        const auto read = RunKernels({"linear_log_sum_exp_grad",
                                      keeps,
                                      {&dlse, &dtarget, &x, &w, &targets, &kept[0], &kept[2]},
                                      {x.type, w.type}},
                                     2, kernel);
        ASSERT_EQ(read.size(), 2);
        for (const int i : {0, 1}) EXPECT_EQ(BitsOf(read[i]), BitsOf(recomputed[i])) << i;
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 8);
}

// Sums over no columns are 0.
TEST_P(LinearLogSumExpTest, KeptLogitsOfEmptyShapes) {
  const Attributes keeps = {{"keep_logits", true}};
  for (const auto& [rows, words, columns] :
       {std::array<int64_t, 3>{0, 3, 2}, std::array<int64_t, 3>{2, 3, 0}}) {
    const TestTensor x = EmptyTensor(DType::kF32, {rows, columns}),
                     w = RandomTensor({words, columns}, 1),
                     targets = IntTensor({rows}, std::vector<int32_t>(rows, 1));
    const auto forward = RunKernels({"linear_log_sum_exp",
                                     keeps,
                                     {&x, &w, &targets},
                                     {F32({rows}), F32({rows}), F32({rows, words})}});
    EXPECT_EQ(forward[2].values<float>(), std::vector<float>(rows * words, 0));
    const auto backward =
        RunKernels({"linear_log_sum_exp_grad",
                    keeps,
                    {&forward[0], &forward[1], &x, &w, &targets, &forward[0], &forward[2]},
                    {x.type, w.type}});
    EXPECT_EQ(backward[1].values<float>(), std::vector<float>(words * columns, 0));
  }
}

double Mean(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values) sum += std::abs(value);
  return sum / static_cast<double>(values.size());
}

// Products of bf16 round the gradients of logits; products of the same numbers in f32 do not. Both
// have several blocks of rows.
TEST_P(LinearLogSumExpTest, ProductsOfBFloat16AreThoseOfFloats) {
  constexpr int64_t kRows = 2101, kWords = 2203, kColumns = 5;
  const TestTensor x = ToBF16(RandomTensor({kRows, kColumns}, 30)),
                   w = ToBF16(RandomTensor({kWords, kColumns}, 31));
  TestTensor dlse = RandomTensor({kRows}, 32), dtarget = RandomTensor({kRows}, 33);
  // A row that must not contribute.
  dlse.view().As<float>()[2000] = dtarget.view().As<float>()[2000] = 0;
  x.view().As<BFloat16>()[2000 * kColumns] = BFloat16(std::nanf(""));
  std::vector<int32_t> words(kRows);
  for (int64_t r = 0; r < kRows; ++r) words[r] = static_cast<int32_t>(r * 31 % (kWords + 100));
  const TestTensor targets = IntTensor({kRows}, words);
  const Use forward = {"linear_log_sum_exp", {}, {&x, &w, &targets}, {F32({kRows}), F32({kRows})}};
  const auto lse = RunKernels(forward, 2, "onednn_via_f32"),
             lse_bf16 = RunKernels(forward, 2, "onednn_bf16");
  if (lse_bf16.empty()) GTEST_SKIP() << "the processor does not multiply bf16";
  for (int64_t r = 0; r < kRows; ++r) {
    if (r == 2000) continue;
    for (int output : {LinearLogSumExpOutput::kLse, LinearLogSumExpOutput::kTargetLogit}) {
      ASSERT_NEAR(lse_bf16[output].values<float>()[r], lse[output].values<float>()[r], 2e-5) << r;
    }
  }
  const Use backward = {"linear_log_sum_exp_grad",
                        {},
                        {&dlse, &dtarget, &x, &w, &targets, &lse[LinearLogSumExpOutput::kLse]},
                        {x.type, w.type}};
  const auto of_f32 = RunKernels(backward, 2, "onednn_via_f32"),
             of_bf16 = RunKernels(backward, 2, "onednn_bf16");
  for (int output : {LinearLogSumExpGradOutput::kDx, LinearLogSumExpGradOutput::kDw}) {
    const std::vector<float> expected = FromBF16(of_f32[output]), got = FromBF16(of_bf16[output]);
    const double mean = Mean(expected);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 0.01 * (std::abs(expected[i]) + mean)) << output << " " << i;
    }
  }
  // Stored in f32, the same sums are not rounded.
  Use in_f32 = backward;
  in_f32.outputs = {F32({kRows, kColumns}), F32({kWords, kColumns})};
  in_f32.epilogues = {{"cast", {{"dtype", DType::kF32}}, 0, LinearLogSumExpGradOutput::kDx},
                      {"cast", {{"dtype", DType::kF32}}, 0, LinearLogSumExpGradOutput::kDw}};
  const auto of_bf16_in_f32 = RunKernels(in_f32, 2, "onednn_bf16");
  for (int output : {LinearLogSumExpGradOutput::kDx, LinearLogSumExpGradOutput::kDw}) {
    EXPECT_EQ(FromBF16(ToBF16(of_bf16_in_f32[output])), FromBF16(of_bf16[output])) << output;
  }
}

}  // namespace
}  // namespace tessera::cpu
