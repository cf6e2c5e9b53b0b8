#include "core/tensor/random.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(RandomTest, BlocksAreThePhiloxOfTheDocumentedCounter) {
  const RandomStream stream{0x299f31d0a4093822};
  EXPECT_EQ(RandomBlock(stream, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  for (uint64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(RandomWord(stream, 7, i), RandomBlock(stream, 7, i / 4)[i % 4]);
  }
}

// A run is reproduced from its seed and paths alone, so the numbers of a path must never change.
// The expected values are those of the documented formula in Python with its xxhash package.
TEST(RandomTest, StreamsArePinned) {
  EXPECT_EQ(MakeStream(0, "").key, 0x9dc822abc1c5a68eu);
  EXPECT_EQ(MakeStream(42, "blocks.3.attn.qkv").key, 0x370773fdd329fd3au);
}

TEST(RandomTest, StreamsDifferBySeedAndPath) {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (int block = 0; block < 50; ++block) {
      keys.insert(MakeStream(seed, "blocks." + std::to_string(block) + ".mlp").key);
    }
  }
  EXPECT_EQ(keys.size(), 2500u);
}

TEST(RandomTest, UniformsKeepToTheirIntervals) {
  EXPECT_EQ(UniformFromBits(0, 0), 0.0);
  EXPECT_EQ(UniformFromBits(0xffffffff, 0xffffffff), 1.0 - 0x1p-53);
  EXPECT_EQ(UniformFromBits(0x80000000, 0), 0.5);
  EXPECT_EQ(PositiveUniformFromBits(0, 0), 0x1p-53);
  EXPECT_EQ(PositiveUniformFromBits(0xffffffff, 0xffffffff), 1.0);
}

TEST(RandomTest, NormalsAreFiniteAtTheEnds) {
  EXPECT_NEAR(NormalFromBlock({0, 0, 0, 0}), 8.5716, 1e-4);
  EXPECT_EQ(NormalFromBlock({0xffffffff, 0xffffffff, 0, 0}), 0.0);
}

TEST(RandomTest, NormalsHaveTheMomentsOfANormal) {
  const RandomStream stream = MakeStream(1, "weight");
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, before = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = RandomNormal(stream, 0, i);
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
    neighbours += value * before;
    before = value;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0, 0.015);
  EXPECT_NEAR(fourth / kCount, 3.0, 0.1);
  EXPECT_NEAR(neighbours / kCount, 0.0, 0.01);
}

TEST(RandomTest, UniformsFillTheInterval) {
  const RandomStream stream = MakeStream(1, "weight");
  std::vector<int> buckets(10);
  for (int i = 0; i < 100000; ++i) ++buckets[static_cast<int>(RandomUniform(stream, 3, i) * 10)];
  for (int count : buckets) EXPECT_NEAR(count, 10000, 500);
}

}  // namespace
}  // namespace tessera
