#include "collectives/reduce/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/tensor/half.h"
#include "gtest/gtest.h"

namespace tessera::comm {
namespace {

template <typename T>
constexpr bool kHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kF64;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType kValue = DType::kBF16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType kValue = DType::kF16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType kValue = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType kValue = DType::kI64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType kValue = DType::kU8;
};

// Reduces one element in the order that the header states, in the type in which elements are
// reduced.
template <typename Wide>
Wide Expected(const Wide* values, int ranks, Reduction reduction) {
  if (ranks == 1) return values[0];
  int left = 1;
  while (left * 2 < ranks) left *= 2;
  const Wide a = Expected(values, left, reduction);
  const Wide b = Expected(values + left, ranks - left, reduction);
  if constexpr (!std::is_integral_v<Wide>) {
    if (reduction != Reduction::kSum && std::isnan(a)) return a;
  }
  if (reduction == Reduction::kMax) return a > b ? a : b;
  if (reduction == Reduction::kMin) return a < b ? a : b;
  if constexpr (std::is_integral_v<Wide>) {
    using Unsigned = std::make_unsigned_t<Wide>;
    return static_cast<Wide>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  }
  return a + b;
}

template <typename T>
class ReduceTest : public testing::Test {
 protected:
  using Wide = std::conditional_t<kHalf<T>, float, T>;

  static std::vector<T> Random(int64_t count, std::mt19937* random) {
    std::vector<T> values(count);
    for (T& value : values) {
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>((uint64_t{(*random)()} << 32) | (*random)());
      } else {
        const double magnitude = std::exp2(static_cast<int>((*random)() % 12) - 6);
        value = T(static_cast<float>(std::normal_distribution<double>()(*random) * magnitude));
      }
    }
    return values;
  }

  static T ExpectedAt(const std::vector<std::vector<T>>& values, int64_t i, Reduction reduction) {
    std::vector<Wide> column;
    for (const auto& rank : values) column.push_back(static_cast<Wide>(rank[i]));
    return T(Expected(column.data(), static_cast<int>(column.size()), reduction));
  }

  static bool SameBits(const T& a, const T& b) {
    return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof(T)) == 0;
  }
};

using Types = testing::Types<float, double, BFloat16, Float16, int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(ReduceTest, Types);

TYPED_TEST(ReduceTest, IsTheTreeAtEverySize) {
  using T = TypeParam;
  std::mt19937 random(1);
  for (int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 17, 64}) {
    std::vector<int64_t> counts = {0, 1, 2, 7, 16, 33, 1023, 1024, 1025, 3000};
    if (ranks <= 5)
      counts.push_back(40'001 / sizeof(T));  // more than the pages that a loop interleaves
    for (int64_t count : counts) {
      std::vector<std::vector<T>> values;
      std::vector<const void*> inputs;
      for (int r = 0; r < ranks; ++r) values.push_back(this->Random(count, &random));
      for (const auto& value : values) inputs.push_back(value.data());
      for (Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
        std::vector<T> first(count + 1), second(count + 1);
        const T end = this->Random(1, &random)[0];
        first[count] = second[count] = end;
        Reduce(inputs, {first.data(), second.data()}, count, DTypeOf<T>::kValue, reduction);
        std::vector<T> third(count + 2, end), fourth(count + 2, end);
        CopyNonTemporal(third.data() + 1, first.data(), count * sizeof(T));
        std::vector<T> fifth(count);
        Reduce(inputs, {fourth.data() + 1, fifth.data()}, count, DTypeOf<T>::kValue, reduction,
               /*non_temporal=*/true);
        std::vector<T> sixth(count + 2, end);
        Reduce(inputs, {sixth.data() + 1}, count, DTypeOf<T>::kValue, reduction,
               /*non_temporal=*/true);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_TRUE(this->SameBits(first[i], this->ExpectedAt(values, i, reduction)))
              << ranks << " ranks, element " << i << " of " << count;
          ASSERT_TRUE(this->SameBits(first[i], second[i]));
          ASSERT_TRUE(this->SameBits(first[i], third[i + 1]));
          ASSERT_TRUE(this->SameBits(first[i], fourth[i + 1]));
          ASSERT_TRUE(this->SameBits(first[i], fifth[i]));
          ASSERT_TRUE(this->SameBits(first[i], sixth[i + 1]));
        }
        for (const std::vector<T>* guarded : {&third, &fourth, &sixth}) {
          EXPECT_TRUE(this->SameBits((*guarded)[0], end));
          EXPECT_TRUE(this->SameBits((*guarded)[count + 1], end));
        }
        EXPECT_TRUE(this->SameBits(first[count], end));
        EXPECT_TRUE(this->SameBits(second[count], end));
      }
    }
  }
}

// An element's bits depend neither on its position nor on whether it is reduced in place.
TYPED_TEST(ReduceTest, GivesTheSameBitsInPiecesAndInPlace) {
  using T = TypeParam;
  std::mt19937 random(2);
  const int64_t count = 200'000 / sizeof(T);
  const int ranks = 5;
  std::vector<std::vector<T>> values;
  for (int r = 0; r < ranks; ++r) values.push_back(this->Random(count, &random));
  std::vector<T> whole(count);
  std::vector<const void*> inputs;
  for (const auto& value : values) inputs.push_back(value.data());
  Reduce(inputs, {whole.data()}, count, DTypeOf<T>::kValue, Reduction::kSum);
  std::vector<std::vector<T>> in_place = values;
  for (int64_t begin = 0; begin < count;) {
    const int64_t size = std::min<int64_t>(count - begin, 1 + random() % (50'000 / sizeof(T)));
    std::vector<const void*> from;
    std::vector<void*> to;
    for (auto& value : in_place) {
      from.push_back(value.data() + begin);
      to.push_back(value.data() + begin);
    }
    // Only outputs that are not inputs are written with non-temporal stores.
    Reduce(from, to, size, DTypeOf<T>::kValue, Reduction::kSum, /*non_temporal=*/random() % 2 == 0);
    begin += size;
  }
  for (const auto& value : in_place) {
    for (int64_t i = 0; i < count; ++i) ASSERT_TRUE(this->SameBits(value[i], whole[i])) << i;
  }
}

TEST(ReduceSpecialTest, NaNWinsAndInfinitiesStay) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {nan, 1, -inf, inf, 0.0f, 3e38f};
  const std::vector<float> b = {1, nan, -5, 5, -0.0f, 3e38f};
  std::vector<float> result(a.size());
  Reduce({a.data(), b.data()}, {result.data()}, static_cast<int64_t>(a.size()), DType::kF32,
         Reduction::kMax);
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_TRUE(std::isnan(result[1]));
  EXPECT_EQ(result[2], -5);
  EXPECT_EQ(result[3], inf);
  Reduce({a.data(), b.data()}, {result.data()}, static_cast<int64_t>(a.size()), DType::kF32,
         Reduction::kSum);
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_EQ(result[5], inf);
}

// Three values whose sum in bf16 would be lost if each addition were rounded.
TEST(ReduceSpecialTest, HalvesAreRoundedOnce) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const float big = dtype == DType::kBF16 ? 256.0f : 2048.0f;
    std::vector<uint16_t> bits;
    for (float value : {big, 1.0f, 1.0f}) {
      bits.push_back(dtype == DType::kBF16 ? BFloat16(value).bits : Float16(value).bits);
    }
    uint16_t result = 0;
    Reduce({&bits[0], &bits[1], &bits[2]}, {&result}, 1, dtype, Reduction::kSum);
    EXPECT_EQ(result, dtype == DType::kBF16 ? BFloat16(big + 2).bits : Float16(big + 2).bits);
  }
}

TEST(ReduceSpecialTest, TheTreesLeftPartIsAPowerOfTwo) {
  const int left[] = {1, 2, 2, 4, 4, 4, 4, 8, 8};
  for (int ranks = 2; ranks <= 10; ++ranks) EXPECT_EQ(LeftRanks(ranks), left[ranks - 2]) << ranks;
}

}  // namespace
}  // namespace tessera::comm
