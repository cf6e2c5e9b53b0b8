// Values checked by hand, and what holds for all kernels: the same bits at any number of threads
// and wherever an element lies. How close each operator is to its definition is tests/operators'
// matter.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/kernels/cpu/backend.h"
#include "core/kernels/cpu/targets.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace tessera {
namespace {

// A tensor in memory of its own, behind which nothing can be touched.
struct TestTensor {
  TensorType type;
  std::unique_ptr<DeviceMemory> memory;

  TensorView view() const {
    return {memory->data(), type.dtype, type.shape, RowMajorStrides(type.shape)};
  }
  template <typename T>
  std::vector<T> values() const {
    std::vector<T> result(NumElements(type.shape));
    std::copy_n(static_cast<const T*>(memory->data()), result.size(), result.begin());
    return result;
  }
};

Backend& Cpu() {
  static Backend* const backend = MakeCpuBackend(2).release();
  return *backend;
}

TestTensor Empty(DType dtype, const Shape& shape) {
  TensorType type{dtype, shape};
  auto memory = Cpu().Allocate(NumBytes(type), /*guarded=*/true);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return {type, *std::move(memory)};
}

template <typename T>
TestTensor Of(DType dtype, const Shape& shape, const std::vector<T>& values) {
  TestTensor tensor = Empty(dtype, shape);
  EXPECT_EQ(NumBytes(tensor.type), static_cast<int64_t>(values.size() * sizeof(T)));
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.memory->data()));
  return tensor;
}

TestTensor Floats(const Shape& shape, const std::vector<float>& values) {
  return Of(DType::kF32, shape, values);
}

TestTensor Random(const Shape& shape, int seed, float low = -2, float high = 2) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(NumElements(shape));
  for (float& value : values) value = uniform(generator);
  return Floats(shape, values);
}

TestTensor Ints(const Shape& shape, const std::vector<int32_t>& values) {
  return Of(DType::kI32, shape, values);
}

template <typename T>
TestTensor Scalar(DType dtype, T value) {
  return Of<T>(dtype, {}, {value});
}

struct Use {
  std::string op;
  Attributes attributes;
  std::vector<const TestTensor*> inputs;
  std::vector<TensorType> outputs;
  std::vector<Epilogue> epilogues = {};
};

// Runs every kernel that accepts, or the one of the given name, and returns the last one's outputs.
std::vector<TestTensor> RunKernels(const Use& use, int threads = 2, absl::string_view name = "") {
  KernelRequest request{.op = use.op,
                        .attributes = use.attributes,
                        .inputs = {},
                        .outputs = use.outputs,
                        .epilogues = use.epilogues,
                        .threads = threads};
  std::vector<TensorView> inputs, outputs;
  for (const TestTensor* input : use.inputs) {
    request.inputs.push_back(input->type);
    inputs.push_back(input->view());
  }
  std::vector<TestTensor> results;
  for (const TensorType& type : use.outputs) {
    results.push_back(Empty(type.dtype, type.shape));
    outputs.push_back(results.back().view());
  }
  const std::vector<const Kernel*> kernels = CandidateKernels(Cpu(), request);
  EXPECT_FALSE(kernels.empty()) << request.Key();
  for (const Kernel* kernel : kernels) {
    if (!name.empty() && kernel->name() != name) continue;
    for (TestTensor& result : results) {
      std::memset(result.memory->data(), 0xff, NumBytes(result.type));
    }
    const int64_t bytes = kernel->WorkspaceBytes(request, Cpu().processor());
    auto workspace = Cpu().Allocate(bytes, /*guarded=*/true);
    auto bound = kernel->Bind(request);
    EXPECT_TRUE(workspace.ok() && bound.ok()) << bound.status();
    std::memset((*workspace)->data(), 0xff, bytes);
    const absl::Status status =
        (*bound)->Run({request, inputs, outputs, (*workspace)->data(), bytes});
    EXPECT_TRUE(status.ok()) << request.Key() << ": " << status;
  }
  return results;
}

std::vector<float> RunFloats(const Use& use, int threads = 2, absl::string_view name = "") {
  return RunKernels(use, threads, name)[0].values<float>();
}

TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }

// With one of the targets that the vector kernels are compiled for and this processor has.
class CpuTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { Choose(GetParam()); }
  void TearDown() override { Choose(0); }

 private:
  static void Choose(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

INSTANTIATE_TEST_SUITE_P(Targets, CpuTest, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

// --- Values by hand ------------------------------------------------------------------------------

TEST_P(CpuTest, ArithmeticBroadcasts) {
  const TestTensor a = Floats({2, 3}, {1, 2, 3, 4, 5, 6}), b = Floats({3}, {10, 20, 30});
  const TestTensor column = Floats({2, 1}, {2, 4});
  EXPECT_EQ(RunFloats({"add", {}, {&a, &b}, {F32({2, 3})}}),
            (std::vector<float>{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(RunFloats({"divide", {}, {&a, &column}, {F32({2, 3})}}),
            (std::vector<float>{0.5, 1, 1.5, 1, 1.25, 1.5}));
  EXPECT_EQ(RunFloats({"subtract", {}, {&column, &b}, {F32({2, 3})}}),
            (std::vector<float>{-8, -18, -28, -6, -16, -26}));
}

TEST_P(CpuTest, IntegersWrapAndNeverTrap) {
  const int32_t lowest = std::numeric_limits<int32_t>::min();
  const TestTensor a = Ints({4}, {7, -7, 5, lowest}), b = Ints({4}, {2, 2, 0, -1});
  const auto quotient = RunKernels({"divide", {}, {&a, &b}, {{DType::kI32, {4}}}});
  EXPECT_EQ(quotient[0].values<int32_t>(), (std::vector<int32_t>{3, -3, 0, lowest}));
  const auto sum = RunKernels({"add", {}, {&a, &b}, {{DType::kI32, {4}}}});
  EXPECT_EQ(sum[0].values<int32_t>()[3], std::numeric_limits<int32_t>::max());
}

TEST_P(CpuTest, FunctionsKnowTheirLimits) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const TestTensor x = Floats({8}, {0, 1, -1, 89, -110, inf, -inf, nan});
  const auto e = RunFloats({"exp", {}, {&x}, {F32({8})}});
  EXPECT_EQ(e[0], 1.0f);
  EXPECT_FLOAT_EQ(e[1], 2.7182818f);
  EXPECT_EQ(e[3], inf);
  EXPECT_EQ(e[4], 0.0f);
  EXPECT_EQ(e[5], inf);
  EXPECT_EQ(e[6], 0.0f);
  EXPECT_TRUE(std::isnan(e[7]));
  const TestTensor y = Floats({7}, {0, 1, -1, 1e-41f, 10, inf, nan});
  const auto log = RunFloats({"log", {}, {&y}, {F32({7})}});
  EXPECT_EQ(log[0], -inf);
  EXPECT_EQ(log[1], 0.0f);
  EXPECT_TRUE(std::isnan(log[2]));
  EXPECT_FLOAT_EQ(log[3], std::log(1e-41f));
  EXPECT_FLOAT_EQ(log[4], std::log(10.0f));
  EXPECT_EQ(log[5], inf);
  EXPECT_TRUE(std::isnan(log[6]));
}

TEST_P(CpuTest, CastsRoundOnce) {
  // Between two bf16 (1 and 1 + 2^-7): the tie goes to even, and a bit above it does not.
  const TestTensor x = Of<double>(
      DType::kF64, {4}, {1 + std::exp2(-8), 1 + std::exp2(-8) + std::exp2(-40), -2.75, 300.5});
  const auto bf16 = RunKernels({"cast", {{"dtype", DType::kBF16}}, {&x}, {{DType::kBF16, {4}}}});
  EXPECT_EQ(bf16[0].values<uint16_t>(), (std::vector<uint16_t>{0x3f80, 0x3f81, 0xc030, 0x4396}));
  const auto i32 = RunKernels({"cast", {{"dtype", DType::kI32}}, {&x}, {{DType::kI32, {4}}}});
  EXPECT_EQ(i32[0].values<int32_t>(), (std::vector<int32_t>{1, 1, -2, 300}));
  const auto u8 = RunKernels({"cast", {{"dtype", DType::kU8}}, {&x}, {{DType::kU8, {4}}}});
  EXPECT_EQ(u8[0].values<uint8_t>(), (std::vector<uint8_t>{1, 1, 0, 255}));
}

TEST_P(CpuTest, MatMulOfEveryForm) {
  const TestTensor a = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const TestTensor at = Floats({3, 2}, {1, 4, 2, 5, 3, 6});
  const TestTensor b = Floats({3, 2}, {1, 0, 0, 1, 2, -1});
  const TestTensor bt = Floats({2, 3}, {1, 0, 2, 0, 1, -1});
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
  const TestTensor none = Floats({2, 0}, {}), of_none = Floats({0, 2}, {});
  EXPECT_EQ(RunFloats({"matmul",
                       {{"transpose_a", false}, {"transpose_b", false}},
                       {&none, &of_none},
                       {F32({2, 2})}}),
            (std::vector<float>{0, 0, 0, 0}));
}

TEST_P(CpuTest, MatMulWithEpilogues) {
  const TestTensor a = Floats({2, 1}, {1, -1}), b = Floats({1, 3}, {1, 2, 3});
  const TestTensor bias = Floats({3}, {1, 1, -4}), full = Floats({2, 3}, {0, 0, 0, 0, 5, 0});
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
}

TEST_P(CpuTest, AttentionOfTwoTokens) {
  // Equal scores: the second token sees the mean of both values, the first only its own.
  const TestTensor q = Floats({1, 2, 1, 2}, {0, 0, 0, 0}), v = Floats({1, 2, 1, 2}, {1, 2, 3, 6});
  const auto result = RunKernels({"attention",
                                  {{"causal", true}, {"scale", 1.0}},
                                  {&q, &q, &v},
                                  {F32({1, 2, 1, 2}), F32({1, 1, 2})}});
  EXPECT_EQ(result[0].values<float>(), (std::vector<float>{1, 2, 2, 4}));
  EXPECT_FLOAT_EQ(result[1].values<float>()[0], 0.0f);
  EXPECT_FLOAT_EQ(result[1].values<float>()[1], std::log(2.0f));
}

TEST_P(CpuTest, LinearLogSumExpIgnoresTargetsOutside) {
  const TestTensor x = Floats({2, 1}, {1, 2}), w = Floats({3, 1}, {0, 0, 1});
  const TestTensor targets = Ints({2}, {2, -100});
  const auto result =
      RunKernels({"linear_log_sum_exp", {}, {&x, &w, &targets}, {F32({2}), F32({2})}});
  EXPECT_FLOAT_EQ(result[0].values<float>()[0], std::log(2 + std::exp(1.0f)));
  EXPECT_FLOAT_EQ(result[0].values<float>()[1], std::log(2 + std::exp(2.0f)));
  EXPECT_EQ(result[1].values<float>(), (std::vector<float>{1, 0}));
}

TEST_P(CpuTest, ARowWithoutWeightContributesNothingWhateverItHolds) {
  const float nan = std::nanf("");
  const TestTensor dlse = Floats({2}, {1, 0}), dtarget = Floats({2}, {-1, 0});
  const TestTensor x = Floats({2, 2}, {1, 2, nan, nan}), w = Floats({2, 2}, {1, 0, 0, 0});
  const TestTensor targets = Ints({2}, {0, 1}),
                   lse = Floats({2}, {std::log(1 + std::exp(1.0f)), nan});
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

// Of more rows and words than one chunk of logits holds.
TEST_P(CpuTest, LogitsInChunksAreLogits) {
  constexpr int64_t kRows = 2101, kWords = 2203, kColumns = 5;
  const TestTensor x = Random({kRows, kColumns}, 30), w = Random({kWords, kColumns}, 31);
  const TestTensor dlse = Random({kRows}, 32), dtarget = Random({kRows}, 33);
  std::vector<int32_t> words(kRows);
  for (int64_t r = 0; r < kRows; ++r) words[r] = static_cast<int32_t>(r * 31 % (kWords + 100));
  const TestTensor targets = Ints({kRows}, words);
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

TEST_P(CpuTest, UpdatesKeepTheirStateWhereThePredicateSaysSo) {
  const TestTensor p = Floats({2}, {1, -1}), g = Floats({2}, {0.5, std::nanf("")});
  const TestTensor m = Floats({2}, {0, 0.25}), v = Floats({2}, {0, 1});
  const TestTensor lr = Scalar(DType::kF32, 0.1f), one = Scalar(DType::kF32, 1.0f);
  const TestTensor step = Scalar<int64_t>(DType::kI64, 1);
  const TestTensor no = Scalar<uint8_t>(DType::kU8, 0), yes = Scalar<uint8_t>(DType::kU8, 1);
  const Attributes adamw = {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 0.0}, {"weight_decay", 0.0}};
  const std::vector<TensorType> types(3, F32({2}));
  auto kept = RunKernels({"adamw_update", adamw, {&p, &g, &m, &v, &lr, &one, &step, &no}, types});
  EXPECT_EQ(kept[0].values<float>(), p.values<float>());
  EXPECT_EQ(kept[1].values<float>(), m.values<float>());
  EXPECT_EQ(kept[2].values<float>(), v.values<float>());
  // The first step goes by lr against the sign of the gradient.
  auto moved = RunKernels({"adamw_update", adamw, {&p, &g, &m, &v, &lr, &one, &step, &yes}, types});
  EXPECT_FLOAT_EQ(moved[0].values<float>()[0], 0.9f);
  auto sgd = RunKernels({"sgd_update",
                         {{"momentum", 0.0}, {"weight_decay", 0.0}},
                         {&p, &g, &lr, &one, &yes},
                         {F32({2})}});
  EXPECT_FLOAT_EQ(sgd[0].values<float>()[0], 0.95f);
}

TEST_P(CpuTest, IdsOutsideOfTheTableAreAnError) {
  const TestTensor table = Floats({2, 2}, {1, 2, 3, 4}), ids = Ints({2}, {1, 2});
  const KernelRequest request{.op = "embedding",
                              .attributes = {},
                              .inputs = {table.type, ids.type},
                              .outputs = {F32({2, 2})},
                              .epilogues = {}};
  TestTensor y = Empty(DType::kF32, {2, 2});
  auto bound = (*DefaultKernel(Cpu(), request))->Bind(request);
  ASSERT_TRUE(bound.ok());
  const TensorView inputs[] = {table.view(), ids.view()}, outputs[] = {y.view()};
  const absl::Status status = (*bound)->Run({request, inputs, outputs});
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
}

// --- What holds for all --------------------------------------------------------------------------

void ExpectSameBitsAtAnyThreads(const Use& use, absl::string_view name = "") {
  const std::vector<TestTensor> one = RunKernels(use, 1, name);
  for (int threads : {2, 3}) {
    const std::vector<TestTensor> many = RunKernels(use, threads, name);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(0,
                std::memcmp(one[i].memory->data(), many[i].memory->data(), NumBytes(one[i].type)))
          << use.op << ", output " << i << ", " << threads << " threads";
    }
  }
}

TEST_P(CpuTest, OwnKernelsGiveTheSameBitsAtAnyNumberOfThreads) {
  const TestTensor x = Random({333, 211}, 1), y = Random({333, 211}, 2), row = Random({211}, 3);
  const TestTensor tall = Random({3001, 5}, 4), line = Random({200003}, 5);
  const std::vector<int64_t> rows = {0}, columns = {1};
  for (const auto& axes : {rows, columns, std::vector<int64_t>{0, 1}}) {
    const Shape out = axes.size() == 2 ? Shape{} : axes[0] == 0 ? Shape{211} : Shape{333};
    ExpectSameBitsAtAnyThreads(
        {"reduce_sum", {{"axes", axes}, {"keep_dims", false}}, {&x}, {F32(out)}});
    ExpectSameBitsAtAnyThreads(
        {"reduce_max", {{"axes", axes}, {"keep_dims", false}}, {&x}, {F32(out)}});
  }
  ExpectSameBitsAtAnyThreads(
      {"reduce_sum", {{"axes", rows}, {"keep_dims", false}}, {&tall}, {F32({5})}});
  ExpectSameBitsAtAnyThreads(
      {"reduce_sum", {{"axes", rows}, {"keep_dims", false}}, {&line}, {F32({})}});
  ExpectSameBitsAtAnyThreads({"sum_squares", {}, {&line}, {F32({})}});
  ExpectSameBitsAtAnyThreads({"softmax", {{"axis", int64_t{1}}}, {&x}, {F32({333, 211})}});
  ExpectSameBitsAtAnyThreads({"softmax", {{"axis", int64_t{0}}}, {&x}, {F32({333, 211})}});
  ExpectSameBitsAtAnyThreads(
      {"layer_norm", {{"eps", 1e-5}}, {&x, &row, &row}, {F32({333, 211}), F32({333}), F32({333})}});
  const TestTensor mean = Random({333}, 6), rstd = Random({333}, 7, 0.5, 1);
  ExpectSameBitsAtAnyThreads({"layer_norm_grad",
                              {},
                              {&y, &x, &row, &mean, &rstd},
                              {F32({333, 211}), F32({211}), F32({211})}});
  const TestTensor q = Random({2, 75, 3, 20}, 8), k = Random({2, 75, 3, 20}, 9);
  const TestTensor v = Random({2, 75, 3, 20}, 10), lse = Random({2, 3, 75}, 11, 4, 6);
  ExpectSameBitsAtAnyThreads(
      {"attention", {{"causal", true}, {"scale", 0.2}}, {&q, &k, &v}, {q.type, lse.type}});
  ExpectSameBitsAtAnyThreads({"attention_grad",
                              {{"causal", false}, {"scale", 0.2}},
                              {&v, &q, &k, &v, &q, &lse},
                              {q.type, q.type, q.type}});
  std::vector<int32_t> ids(333);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 37);
  const TestTensor id_tensor = Ints({333}, ids);
  ExpectSameBitsAtAnyThreads(
      {"embedding_grad", {{"rows", int64_t{37}}}, {&x, &id_tensor}, {F32({37, 211})}});
  const TestTensor seed = Scalar<int64_t>(DType::kI64, 7);
  ExpectSameBitsAtAnyThreads(
      {"dropout", {{"probability", 0.3}, {"random_path", "a.b"}}, {&x, &seed, &seed}, {x.type}});
  const TestTensor a = Random({40, 7, 9}, 12), b = Random({40, 9, 11}, 13);
  ExpectSameBitsAtAnyThreads(
      {"matmul", {{"transpose_a", false}, {"transpose_b", false}}, {&a, &b}, {F32({40, 7, 11})}},
      "highway");
}

// The last elements of an array go through masked vectors.
TEST_P(CpuTest, AnElementHasTheSameBitsWhereverItLies) {
  const TestTensor x = Random({67}, 20, -6, 6), dy = Random({67}, 21);
  const std::vector<float> values = x.values<float>(), changes = dy.values<float>();
  struct Case {
    std::string op;
    Attributes attributes;
    bool two_inputs;
  };
  const Attributes erf = {{"approximate", std::string("none")}};
  const Attributes tanh = {{"approximate", std::string("tanh")}};
  for (const Case& c : {Case{"exp", {}, false}, Case{"tanh", {}, false}, Case{"sigmoid", {}, false},
                        Case{"gelu", erf, false}, Case{"gelu", tanh, false},
                        Case{"gelu_grad", erf, true}, Case{"gelu_grad", tanh, true}}) {
    std::vector<const TestTensor*> inputs = {&x};
    if (c.two_inputs) inputs = {&dy, &x};
    const std::vector<float> all = RunFloats({c.op, c.attributes, inputs, {F32({67})}});
    for (int i = 0; i < 67; ++i) {
      const TestTensor x_i = Floats({1}, {values[i]}), dy_i = Floats({1}, {changes[i]});
      std::vector<const TestTensor*> one = {&x_i};
      if (c.two_inputs) one = {&dy_i, &x_i};
      const float alone = RunFloats({c.op, c.attributes, one, {F32({1})}})[0];
      EXPECT_EQ(std::bit_cast<uint32_t>(alone), std::bit_cast<uint32_t>(all[i]))
          << c.op << " of " << values[i];
    }
  }
}

TEST_P(CpuTest, TheProcessorIsNamed) {
  EXPECT_EQ(Cpu().processor().threads, 2);
  EXPECT_NE(Cpu().processor().name.find(", "), std::string::npos) << Cpu().processor().name;
}

}  // namespace
}  // namespace tessera
