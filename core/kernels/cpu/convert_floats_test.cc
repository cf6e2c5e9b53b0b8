// Every number of 16 bits, and the floats around the point half-way to the next one, against
// core/tensor/half.h, on every target.
#include "core/kernels/cpu/convert_floats.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/kernels/cpu/testing/targets.h"
#include "gtest/gtest.h"

namespace tessera::cpu {
namespace {

class ConvertFloatsTest : public TargetTest {};

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

template <typename Half>
std::vector<Half> AllNumbers() {
  std::vector<Half> numbers(65536);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i].bits = static_cast<uint16_t>(i);
  return numbers;
}

template <typename Half>
void ExpectWidensAll(DType dtype) {
  const std::vector<Half> numbers = AllNumbers<Half>();
  std::vector<float> widened(numbers.size());
  ToFloats(dtype, numbers.data(), static_cast<int64_t>(numbers.size()), widened.data());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float wanted = static_cast<float>(numbers[i]);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(widened[i])) << i;
    } else {
      ASSERT_EQ(BitsOf(widened[i]), BitsOf(wanted)) << i;
    }
  }
}

template <typename Half>
void ExpectNarrowsAsHalf(DType dtype) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> floats = {infinity, -infinity, NAN, -NAN, 65519.99f, 65520.0f, 1e30f, 3e38f};
  const std::vector<Half> numbers = AllNumbers<Half>();
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    const float low = static_cast<float>(numbers[i]), high = static_cast<float>(numbers[i + 1]);
    const float middle = low + (high - low) / 2;
    for (float value :
         {low, middle, std::nextafter(middle, infinity), std::nextafter(middle, -infinity)}) {
      floats.push_back(value);
    }
  }
  std::vector<Half> narrowed(floats.size());
  FromFloats(dtype, floats.data(), static_cast<int64_t>(floats.size()), narrowed.data());
  for (size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(narrowed[i].bits, Half(floats[i]).bits) << floats[i];
  }
}

TEST_P(ConvertFloatsTest, WidensEveryNumber) {
  ExpectWidensAll<BFloat16>(DType::kBF16);
  ExpectWidensAll<Float16>(DType::kF16);
}

TEST_P(ConvertFloatsTest, RoundsToNearestTiesToEven) {
  ExpectNarrowsAsHalf<BFloat16>(DType::kBF16);
  ExpectNarrowsAsHalf<Float16>(DType::kF16);
}

// The last vector is short: memory past the end is neither read nor written.
TEST_P(ConvertFloatsTest, StopsAtTheEnd) {
  for (int64_t count = 0; count <= 40; ++count) {
    std::vector<BFloat16> halves(41, BFloat16(7.0f));
    const std::vector<float> ones(count, 1.0f);
    FromFloats(DType::kBF16, ones.data(), count, halves.data());
    std::vector<float> floats(41, 7.0f);
    ToFloats(DType::kBF16, halves.data(), count, floats.data());
    for (int64_t i = 0; i < 41; ++i) {
      ASSERT_EQ(static_cast<float>(halves[i]), i < count ? 1.0f : 7.0f) << count << " " << i;
      ASSERT_EQ(floats[i], i < count ? 1.0f : 7.0f) << count << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ConvertFloatsTest, ::testing::ValuesIn(RunnableTargets()),
                         NameOfTarget);

}  // namespace
}  // namespace tessera::cpu
