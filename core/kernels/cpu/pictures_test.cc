// Convolutions and poolings that were checked by hand, and channels that fill no vector.
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/cpu/testing/kernels.h"
#include "gtest/gtest.h"

namespace tessera::cpu {
namespace {

using Ints = std::vector<int64_t>;

using PicturesTest = TargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, PicturesTest, ::testing::ValuesIn(RunnableTargets()),
                         NameOfTarget);

Attributes Pool(Ints window, Ints stride, Ints padding) {
  return {{"window", std::move(window)},
          {"stride", std::move(stride)},
          {"padding", std::move(padding)}};
}

Attributes WithShape(Attributes attributes, Ints shape) {
  attributes.Set("shape", std::move(shape));
  return attributes;
}

TEST_P(PicturesTest, TheFirstMaximumIsTaken) {
  const float nan = std::nanf("");
  const TestTensor x = FloatTensor({1, 2, 6, 1}, {1, 3, -1, -2, 5, nan,  //
                                                  3, 3, -1, -3, nan, 7});
  const Use use = {"max_pool",
                   Pool({2, 2}, {2, 2}, {0, 0}),
                   {&x},
                   {F32({1, 1, 3, 1}), {DType::kU8, {1, 1, 3, 1}}}};
  const std::vector<TestTensor> outputs = RunKernels(use);
  const std::vector<float> y = outputs[0].values<float>();
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[1], -1);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(outputs[1].values<uint8_t>(), (std::vector<uint8_t>{1, 0, 1}));
}

TEST_P(PicturesTest, PaddingIsNoMaximumAndCountsInAverages) {
  const TestTensor x = FloatTensor({1, 1, 2, 1}, {-4, -8});
  const Attributes pool = Pool({3, 2}, {1, 1}, {1, 1});
  const std::vector<TestTensor> max =
      RunKernels({"max_pool", pool, {&x}, {F32({1, 1, 3, 1}), {DType::kU8, {1, 1, 3, 1}}}});
  EXPECT_EQ(max[0].values<float>(), (std::vector<float>{-4, -4, -8}));
  EXPECT_EQ(max[1].values<uint8_t>(), (std::vector<uint8_t>{3, 2, 2}));
  EXPECT_EQ(RunFloats({"average_pool", pool, {&x}, {F32({1, 1, 3, 1})}}),
            (std::vector<float>{-4.0f / 6, -2, -8.0f / 6}));
  const TestTensor dy = FloatTensor({1, 1, 3, 1}, {6, 12, 24});
  EXPECT_EQ(RunFloats({"max_pool_grad", WithShape(pool, {1, 1, 2, 1}), {&dy, &max[1]}, {x.type}}),
            (std::vector<float>{18, 24}));
  EXPECT_EQ(RunFloats({"average_pool_grad", WithShape(pool, {1, 1, 2, 1}), {&dy}, {x.type}}),
            (std::vector<float>{3, 6}));
}

// Returns one channel of pictures whose channels are last.
TestTensor ChannelOf(const TestTensor& pictures, int64_t channel) {
  const int64_t channels = pictures.type.shape.back();
  Shape shape = pictures.type.shape;
  shape.back() = 1;
  const auto take = [&](auto values) {
    decltype(values) taken;
    for (size_t i = channel; i < values.size(); i += channels) taken.push_back(values[i]);
    return taken;
  };
  if (pictures.type.dtype == DType::kU8) {
    return MakeTensor<uint8_t>(DType::kU8, shape, take(pictures.values<uint8_t>()));
  }
  return FloatTensor(shape, take(pictures.values<float>()));
}

// The last channels are computed with shorter vectors.
TEST_P(PicturesTest, AChannelHasTheSameBitsBesideOthers) {
  const Attributes pool = Pool({3, 3}, {2, 2}, {1, 1});
  for (const int64_t channels : {1, 3, 7, 8, 9, 16, 21, 35}) {
    const TestTensor x = RandomTensor({2, 6, 5, channels}, 1),
                     dy = RandomTensor({2, 3, 3, channels}, 2);
    const TensorType index_type = {DType::kU8, dy.type.shape};
    const Attributes of_gradient = WithShape(pool, {2, 6, 5, channels}),
                     of_channel = WithShape(pool, {2, 6, 5, 1});
    const auto max = RunKernels({"max_pool", pool, {&x}, {dy.type, index_type}});
    const auto max_grad = RunKernels({"max_pool_grad", of_gradient, {&dy, &max[1]}, {x.type}});
    const auto average = RunKernels({"average_pool", pool, {&x}, {dy.type}});
    const auto average_grad = RunKernels({"average_pool_grad", of_gradient, {&dy}, {x.type}});
    for (int64_t c = 0; c < channels; ++c) {
      const TestTensor x_c = ChannelOf(x, c), dy_c = ChannelOf(dy, c);
      const auto max_c =
          RunKernels({"max_pool", pool, {&x_c}, {dy_c.type, {DType::kU8, dy_c.type.shape}}});
      EXPECT_EQ(max_c[0].values<float>(), ChannelOf(max[0], c).values<float>());
      EXPECT_EQ(max_c[1].values<uint8_t>(), ChannelOf(max[1], c).values<uint8_t>());
      EXPECT_EQ(RunFloats({"max_pool_grad", of_channel, {&dy_c, &max_c[1]}, {x_c.type}}),
                ChannelOf(max_grad[0], c).values<float>());
      EXPECT_EQ(RunFloats({"average_pool", pool, {&x_c}, {dy_c.type}}),
                ChannelOf(average[0], c).values<float>());
      EXPECT_EQ(RunFloats({"average_pool_grad", of_channel, {&dy_c}, {x_c.type}}),
                ChannelOf(average_grad[0], c).values<float>());
    }
  }
}

TEST(Convolution, EveryKernelGivesTheValuesOfAHandComputedOne) {
  const TestTensor x = FloatTensor({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const TestTensor weight = FloatTensor({2, 2, 2, 1}, {1, 0, 0, 1, 1, 2, 3, 4});
  const TestTensor dy = FloatTensor({1, 1, 2, 2}, {1, 10, 2, 20});
  const Attributes windows = {
      {"stride", Ints{1, 1}}, {"padding", Ints{0, 0}}, {"dilation", Ints{1, 1}}};
  Attributes attributes = windows;
  attributes.Set("groups", int64_t{1});
  const std::vector<float> y = {6, 37, 8, 47};
  const std::vector<float> dx = {11, 42, 40, 30, 101, 82};
  const std::vector<float> dweight = {5, 8, 14, 17, 50, 80, 140, 170};
  struct Pass {
    Use use;
    std::vector<float> expected;
  };
  const TestTensor x_bf16 = ToBF16(x), weight_bf16 = ToBF16(weight), dy_bf16 = ToBF16(dy);
  const auto bf16 = [](const Shape& shape) { return TensorType{DType::kBF16, shape}; };
  const Attributes of_x = WithShape(windows, {1, 2, 3, 1}),
                   of_weight = WithShape(windows, {2, 2, 2, 1});
  const Pass passes[] = {
      {{"convolution", attributes, {&x, &weight}, {dy.type}}, y},
      {{"convolution_grad_data", of_x, {&dy, &weight}, {x.type}}, dx},
      {{"convolution_grad_weight", of_weight, {&dy, &x}, {weight.type}}, dweight},
      {{"convolution", attributes, {&x_bf16, &weight_bf16}, {bf16(dy.type.shape)}}, y},
      {{"convolution_grad_data", of_x, {&dy_bf16, &weight_bf16}, {bf16(x.type.shape)}}, dx},
      {{"convolution_grad_weight", of_weight, {&dy_bf16, &x_bf16}, {bf16(weight.type.shape)}},
       dweight},
  };
  for (const auto& [use, expected] : passes) {
    const std::vector<const Kernel*> kernels = CandidateKernels(Cpu(), RequestOf(use, 2));
    EXPECT_GE(kernels.size(), 2u) << use.op;
    for (const Kernel* kernel : kernels) {
      const TestTensor output = std::move(RunKernel(*kernel, use, 2, '\xff').outputs[0]);
      EXPECT_EQ(output.type.dtype == DType::kBF16 ? FromBF16(output) : output.values<float>(),
                expected)
          << use.op << " by " << std::string(kernel->name());
    }
  }
}

// Regression: in bf16, the bias was added to the rounded convolution. Here the convolution lies
// between 1 and the next number and is rounded to 1, as would be the sum of 1 and the bias.
TEST_P(PicturesTest, BiasIsAddedBeforeRounding) {
  constexpr float kHalf = 1.0f / 256;  // of the distance from 1 to the next number
  constexpr int64_t kChannels = 16;    // so that oneDNN's kernel of bf16 accepts it
  std::vector<float> pixel(kChannels, 0);
  pixel[0] = 1;
  pixel[1] = kHalf;
  const TestTensor x = ToBF16(FloatTensor({1, 1, 1, kChannels}, pixel));
  const TestTensor weight =
      ToBF16(FloatTensor({1, 1, 1, kChannels}, std::vector<float>(kChannels, 1)));
  const TestTensor bias = ToBF16(FloatTensor({1}, {kHalf}));
  Use use;
  use.op = "convolution";
  use.attributes = {{"stride", Ints{1, 1}},
                    {"padding", Ints{0, 0}},
                    {"dilation", Ints{1, 1}},
                    {"groups", int64_t{1}}};
  use.inputs = {&x, &weight, &bias};
  use.outputs = {{DType::kBF16, {1, 1, 1, 1}}};
  use.epilogues = {{"add", {}, 1}};
  const std::vector<const Kernel*> kernels = CandidateKernels(Cpu(), RequestOf(use, 2));
  EXPECT_GE(kernels.size(), 2u);
  for (const Kernel* kernel : kernels) {
    const KernelResult result = RunKernel(*kernel, use, 2, '\xff');
    EXPECT_EQ(FromBF16(result.outputs[0]), (std::vector<float>{1 + 2 * kHalf}))
        << std::string(kernel->name());
  }
}

// A picture of 3 x 4 pixels, padded by 1, has 9 windows, each of which may be flipped.
TEST_P(PicturesTest, EveryCropIsCutAsOften) {
  constexpr int64_t kHeight = 3, kWidth = 4, kPictures = 3600;
  const auto pixel_at = [](int64_t i, int64_t j) {
    const bool inside = i >= 0 && i < kHeight && j >= 0 && j < kWidth;
    return static_cast<uint8_t>(inside ? 1 + i * kWidth + j : 0);
  };
  std::vector<uint8_t> pixels;
  for (int64_t b = 0; b < kPictures; ++b) {
    for (int64_t i = 0; i < kHeight; ++i) {
      for (int64_t j = 0; j < kWidth; ++j) pixels.push_back(pixel_at(i, j));
    }
  }
  std::map<std::vector<uint8_t>, int> times;  // by crop
  for (int64_t crop = 0; crop < 18; ++crop) {
    std::vector<uint8_t> expected;
    for (int64_t i = 0; i < kHeight; ++i) {
      for (int64_t j = 0; j < kWidth; ++j) {
        const int64_t column = crop / 9 == 1 ? kWidth - 1 - j : j;
        expected.push_back(pixel_at(i + crop / 3 % 3 - 1, column + crop % 3 - 1));
      }
    }
    times[expected] = 0;
  }
  ASSERT_EQ(times.size(), 18u);
  const TestTensor x = MakeTensor(DType::kU8, {kPictures, kHeight, kWidth, 1}, pixels);
  const TestTensor seed = ScalarTensor<int64_t>(DType::kI64, 7);
  const Attributes attributes = {{"padding", int64_t{1}}, {"flip", true}, {"random_path", "a.b"}};
  std::vector<std::vector<uint8_t>> of_steps;
  for (int64_t step = 1; step <= 2; ++step) {
    const TestTensor steps = ScalarTensor<int64_t>(DType::kI64, step);
    of_steps.push_back(
        RunKernels({"random_crop_flip", attributes, {&x, &seed, &steps}, {x.type}})[0]
            .values<uint8_t>());
  }
  EXPECT_NE(of_steps[0], of_steps[1]);
  for (auto begin = of_steps[0].begin(); begin != of_steps[0].end(); begin += kHeight * kWidth) {
    const auto found = times.find(std::vector<uint8_t>(begin, begin + kHeight * kWidth));
    ASSERT_NE(found, times.end()) << "a picture is none of the crops";
    ++found->second;
  }
  for (const auto& [crop, count] : times) EXPECT_NEAR(count, kPictures / 18, 60);
}

}  // namespace
}  // namespace tessera::cpu
