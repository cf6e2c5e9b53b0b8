#include "core/cost/kernel_times/kernel_errors.h"

#include <cmath>

#include "core/cost/kernel_times/testing/planted_kernels.h"
#include "core/kernels/cpu/backend.h"
#include "core/ops/operator_list.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

KernelRequest Product(DType dtype, int64_t rows, int64_t depth, int64_t columns) {
  return {.op = "matmul",
          .attributes = {{"transpose_a", false}, {"transpose_b", true}},
          .inputs = {{dtype, {rows, depth}}, {dtype, {columns, depth}}},
          .outputs = {{dtype, {rows, columns}}},
          .epilogues = {},
          .threads = 1};
}

KernelRequest LogSumExp(int64_t rows, int64_t columns, int64_t words) {
  return {.op = "linear_log_sum_exp",
          .attributes = {},
          .inputs = {{DType::kF32, {rows, columns}},
                     {DType::kF32, {words, columns}},
                     {DType::kI32, {rows}}},
          .outputs = {{DType::kF32, {rows}}, {DType::kF32, {rows}}},
          .epilogues = {},
          .threads = 1};
}

// A request whose types the operator's rule does not give would be no request.
void ExpectValid(const KernelRequest& request) {
  const auto types = FindOperator(request.op)->InferTypes(request.inputs, request.attributes);
  ASSERT_TRUE(types.ok()) << request.Key() << ": " << types.status();
  EXPECT_EQ(*types, request.outputs) << request.Key();
}

TEST(KernelErrorsTest, ASmallPartOfAProductHasItsDepth) {
  const KernelRequest part = SmallPart(Product(DType::kF32, 1024, 768, 50257));
  ExpectValid(part);
  EXPECT_EQ(part.inputs[0].shape[1], 768);
  EXPECT_LE(NumElements(part.outputs[0].shape) * 768 * 2, 8'000'000 * 2);
  const KernelRequest tiny = Product(DType::kF32, 3, 5, 7);
  EXPECT_EQ(SmallPart(tiny).Key(), tiny.Key());
}

TEST(KernelErrorsTest, SmallPartsLoseEpilogues) {
  KernelRequest request = Product(DType::kF32, 4, 5, 6);
  request.inputs.push_back({DType::kF32, {6}});
  request.epilogues.push_back({"add", {}, 1});
  request.epilogues.push_back({"gelu", {}, 0});
  const KernelRequest part = SmallPart(request);
  EXPECT_TRUE(part.epilogues.empty());
  EXPECT_EQ(part.inputs.size(), 2);
}

TEST(KernelErrorsTest, LongLogSumExpsAreSplitToo) {
  const KernelRequest part = SmallPart(LogSumExp(1024, 768, 50257));
  ExpectValid(part);
  EXPECT_LT(part.inputs[0].shape[0] * part.inputs[1].shape[0], 50257 * 16);
}

// Sixteen large pictures took seconds and hundreds of megabytes.
TEST(KernelErrorsTest, LargePicturesAreSplitIntoOne) {
  const int64_t size = 224;
  const Shape picture = {16, size, size, 64};
  const KernelRequest convolution = {
      .op = "convolution",
      .attributes = {{"stride", std::vector<int64_t>{1, 1}},
                     {"padding", std::vector<int64_t>{1, 1}},
                     {"dilation", std::vector<int64_t>{1, 1}},
                     {"groups", int64_t{1}}},
      .inputs = {{DType::kF32, picture}, {DType::kF32, {64, 3, 3, 64}}},
      .outputs = {{DType::kF32, picture}},
      .epilogues = {},
      .threads = 1};
  const KernelRequest part = SmallPart(convolution);
  ExpectValid(part);
  EXPECT_EQ(part.inputs[0].shape[0], 1);
  EXPECT_GE(part.inputs[0].shape[3], 16) << "some kernels accept many channels alone";
}

TEST(KernelErrorsTest, EveryKernelOfTheCpuIsAccurateEnough) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  // The weight's gradient, of which a small part has no rows that collide in a cache.
  KernelRequest gradient = {
      .op = "matmul",
      .attributes = {{"contract_leading", true}, {"transpose_a", true}, {"transpose_b", false}},
      .inputs = {{DType::kF32, {300, 512}}, {DType::kF32, {300, 1024}}},
      .outputs = {{DType::kF32, {512, 1024}}},
      .epilogues = {},
      .threads = 1};
  for (const KernelRequest& request :
       {gradient, Product(DType::kF32, 300, 500, 90), Product(DType::kBF16, 300, 500, 90),
        Product(DType::kF16, 33, 70, 17), LogSumExp(70, 33, 300)}) {
    SCOPED_TRACE(request.Key());
    const std::vector<const Kernel*> kernels = CandidateKernels(*backend, request);
    ASSERT_GE(kernels.size(), 2);
    const auto errors = ErrorsOf(kernels, request, *backend);
    ASSERT_TRUE(errors.ok()) << errors.status();
    for (size_t i = 0; i < kernels.size(); ++i) {
      EXPECT_TRUE(IsAccurateEnough((*errors)[i], (*errors)[0], request.outputs[0].dtype))
          << kernels[i]->name() << " " << (*errors)[i] << " " << (*errors)[0];
    }
  }
}

TEST(KernelErrorsTest, ResultsThatAreStoredInF32AreCompared) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  KernelRequest request = Product(DType::kBF16, 30, 50, 9);
  request.outputs[0].dtype = DType::kF32;
  request.epilogues.push_back({"cast", {{"dtype", DType::kF32}}, 0});
  const std::vector<const Kernel*> kernels = CandidateKernels(*backend, request);
  ASSERT_GE(kernels.size(), 2);
  const auto errors = ErrorsOf(kernels, request, *backend);
  ASSERT_TRUE(errors.ok()) << errors.status();
  for (const double error : *errors) EXPECT_LT(error, 1e-6);
}

TEST(KernelErrorsTest, WrongResultsAreFound) {
  PlantedBackend backend(
      "matmul",
      {{.name = "right"}, {.name = "wrong", .error = 1}, {.name = "nan", .error = std::nan("")}});
  const KernelRequest request = Product(DType::kF64, 8, 8, 8);
  const auto errors = ErrorsOf(CandidateKernels(backend, request), request, backend);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_EQ((*errors)[0], 0);
  EXPECT_FALSE(IsAccurateEnough((*errors)[1], (*errors)[0], DType::kF64));
  EXPECT_FALSE(IsAccurateEnough((*errors)[2], (*errors)[0], DType::kF64));
}

TEST(KernelErrorsTest, TwiceTheErrorOfTheDefaultKernelIsTheLimit) {
  EXPECT_TRUE(IsAccurateEnough(2e-3, 1e-3, DType::kF32));
  EXPECT_FALSE(IsAccurateEnough(2.1e-3, 1e-3, DType::kF32));
  EXPECT_TRUE(IsAccurateEnough(1e-7, 0, DType::kF32)) << "rounding alone";
  EXPECT_FALSE(IsAccurateEnough(1e-6, 0, DType::kF32));
  EXPECT_TRUE(IsAccurateEnough(3e-3, 0, DType::kBF16));
}

}  // namespace
}  // namespace tessera
