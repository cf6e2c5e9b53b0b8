// The number of threads changes no bit of a result, and every workspace is written to its end.
#include <omp.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "core/kernels/cpu/testing/kernels.h"
#include "gtest/gtest.h"

namespace tessera::cpu {
namespace {

using ThreadsTest = TargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, ThreadsTest, ::testing::ValuesIn(RunnableTargets()),
                         NameOfTarget);

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

TEST_P(ThreadsTest, OwnKernelsGiveTheSameBitsAtAnyNumberOfThreads) {
  const TestTensor x = RandomTensor({333, 211}, 1), y = RandomTensor({333, 211}, 2),
                   row = RandomTensor({211}, 3);
  const TestTensor tall = RandomTensor({3001, 5}, 4), line = RandomTensor({200003}, 5);
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
  const TestTensor mean = RandomTensor({333}, 6), rstd = RandomTensor({333}, 7, 0.5, 1);
  ExpectSameBitsAtAnyThreads({"layer_norm_grad",
                              {},
                              {&y, &x, &row, &mean, &rstd},
                              {F32({333, 211}), F32({211}), F32({211})}});
  const TestTensor q = RandomTensor({2, 75, 3, 20}, 8), k = RandomTensor({2, 75, 3, 20}, 9);
  const TestTensor v = RandomTensor({2, 75, 3, 20}, 10), lse = RandomTensor({2, 3, 75}, 11, 4, 6);
  ExpectSameBitsAtAnyThreads(
      {"attention", {{"causal", true}, {"scale", 0.2}}, {&q, &k, &v}, {q.type, lse.type}});
  ExpectSameBitsAtAnyThreads({"attention_grad",
                              {{"causal", false}, {"scale", 0.2}},
                              {&v, &q, &k, &v, &q, &lse},
                              {q.type, q.type, q.type}});
  std::vector<int32_t> ids(333);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 37);
  const TestTensor id_tensor = IntTensor({333}, ids);
  ExpectSameBitsAtAnyThreads(
      {"embedding_grad", {{"rows", int64_t{37}}}, {&x, &id_tensor}, {F32({37, 211})}});
  const TestTensor pictures = RandomTensor({3, 29, 31, 37}, 14),
                   pooled = RandomTensor({3, 15, 16, 37}, 15);
  const TensorType index_type = {DType::kU8, pooled.type.shape};
  const std::vector<int64_t> three = {3, 3}, two = {2, 2}, one = {1, 1};
  Attributes pool = {{"window", three}, {"stride", two}, {"padding", one}};
  ExpectSameBitsAtAnyThreads({"average_pool", pool, {&pictures}, {pooled.type}});
  const Use max_pool = {"max_pool", pool, {&pictures}, {pooled.type, index_type}};
  ExpectSameBitsAtAnyThreads(max_pool);
  const std::vector<TestTensor> max = RunKernels(max_pool);
  pool.Set("shape", std::vector<int64_t>{3, 29, 31, 37});
  ExpectSameBitsAtAnyThreads({"average_pool_grad", pool, {&pooled}, {pictures.type}});
  ExpectSameBitsAtAnyThreads({"max_pool_grad", pool, {&pooled, &max[1]}, {pictures.type}});
  ExpectSameBitsAtAnyThreads(
      {"top_k_correct", {{"k", int64_t{3}}}, {&x, &id_tensor}, {F32({333})}});
  ExpectSameBitsAtAnyThreads(
      {"top_k", {{"k", int64_t{3}}}, {&x}, {TensorType{DType::kI32, {333, 3}}}});
  const TestTensor seed = ScalarTensor<int64_t>(DType::kI64, 7);
  ExpectSameBitsAtAnyThreads(
      {"dropout", {{"probability", 0.3}, {"random_path", "a.b"}}, {&x, &seed, &seed}, {x.type}});
  const TestTensor a = RandomTensor({40, 7, 9}, 12), b = RandomTensor({40, 9, 11}, 13);
  ExpectSameBitsAtAnyThreads(
      {"matmul", {{"transpose_a", false}, {"transpose_b", false}}, {&a, &b}, {F32({40, 7, 11})}},
      "highway");
}

TEST_P(ThreadsTest, PartsOfALayerNormAreTheSameAtAnyNumberOfThreads) {
  const TestTensor x = RandomTensor({333, 211}, 1), dy = RandomTensor({333, 211}, 2),
                   weight = RandomTensor({211}, 3), bias = RandomTensor({211}, 4);
  const TestTensor mean = RandomTensor({333}, 5), rstd = RandomTensor({333}, 6, 0.5, 1),
                   change = RandomTensor({333}, 7), normal_change = RandomTensor({333}, 8);
  ExpectSameBitsAtAnyThreads({"layer_norm_sum", {}, {&x}, {mean.type}});
  ExpectSameBitsAtAnyThreads({"layer_norm_squares", {}, {&x, &mean}, {mean.type}});
  ExpectSameBitsAtAnyThreads(
      {"layer_norm_apply", {}, {&x, &mean, &rstd, &weight, &bias}, {x.type}});
  ExpectSameBitsAtAnyThreads({"layer_norm_grad_sums",
                              {},
                              {&dy, &x, &weight, &mean, &rstd},
                              {change.type, normal_change.type}});
  ExpectSameBitsAtAnyThreads({"layer_norm_grad_apply",
                              {},
                              {&dy, &x, &weight, &mean, &rstd, &change, &normal_change},
                              {x.type, weight.type, bias.type}});
}

TEST_P(ThreadsTest, LossesAndCropsAreTheSameAtAnyNumberOfThreads) {
  std::vector<int32_t> labels(333);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i * i % 211);
  const TestTensor logits = RandomTensor({333, 211}, 1), targets = IntTensor({333}, labels);
  const TestTensor rows = RandomTensor({333}, 2, 5, 6);
  const Attributes smoothing = {{"label_smoothing", 0.1}};
  ExpectSameBitsAtAnyThreads(
      {"log_sum_exp", smoothing, {&logits, &targets}, {F32({333}), F32({333})}});
  ExpectSameBitsAtAnyThreads(
      {"log_sum_exp_grad", smoothing, {&rows, &rows, &logits, &targets, &rows}, {logits.type}});
  std::vector<uint8_t> bytes(7 * 150 * 140 * 3);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i % 251);
  const TestTensor pictures = MakeTensor<uint8_t>(DType::kU8, {7, 150, 140, 3}, bytes);
  const TestTensor seed = ScalarTensor<int64_t>(DType::kI64, 7);
  ExpectSameBitsAtAnyThreads({"random_crop_flip",
                              {{"padding", int64_t{9}}, {"flip", true}, {"random_path", "a.b"}},
                              {&pictures, &seed, &seed},
                              {pictures.type}});
}

// With OMP_DYNAMIC=true the OpenMP runtime starts fewer threads than requested, and oneDNN does not
// write the parts of the missing threads.
TEST(OpenMp, ProductsAreCompleteWhenTeamsMayShrink) {
  const int threads = 4 * static_cast<int>(std::thread::hardware_concurrency());
  const TestTensor a = RandomTensor({512, 512}, 1), b = RandomTensor({512, 512}, 2);
  const Use use = {
      "matmul", {{"transpose_a", false}, {"transpose_b", false}}, {&a, &b}, {F32({512, 512})}};
  for (absl::string_view name : {"onednn", "onednn_gemm"}) {
    omp_set_dynamic(0);
    const std::vector<float> complete = RunFloats(use, threads, name);
    omp_set_dynamic(1);
    const std::vector<float> product = RunFloats(use, threads, name);
    omp_set_dynamic(0);
    EXPECT_TRUE(product == complete) << name;
  }
}

// The same with OMP_MAX_ACTIVE_LEVELS=0, which makes every team one thread.
TEST(OpenMp, ProductsAreCompleteWhenNoLevelMayBeActive) {
  const TestTensor a = RandomTensor({512, 512}, 1), b = RandomTensor({512, 512}, 2);
  const Use use = {
      "matmul", {{"transpose_a", false}, {"transpose_b", false}}, {&a, &b}, {F32({512, 512})}};
  const int levels = omp_get_max_active_levels();
  for (absl::string_view name : {"onednn", "onednn_gemm"}) {
    const std::vector<float> complete = RunFloats(use, 4, name);
    omp_set_max_active_levels(0);
    const std::vector<float> product = RunFloats(use, 4, name);
    omp_set_max_active_levels(levels);
    EXPECT_TRUE(product == complete) << name;
  }
}

}  // namespace
}  // namespace tessera::cpu
