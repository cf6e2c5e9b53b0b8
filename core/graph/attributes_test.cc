#include "core/graph/attributes.h"

#include <limits>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(AttributesTest, AreSortedByName) {
  Attributes attributes = {{"size", int64_t{3}}, {"axis", int64_t{1}}};
  attributes.Set("name", std::string("wte"));
  EXPECT_EQ(attributes.ToString(), "{axis=1, name=\"wte\", size=3}");
  attributes.Set("axis", int64_t{-2});
  EXPECT_EQ(attributes.ToString(), "{axis=-2, name=\"wte\", size=3}");
  EXPECT_EQ(Attributes(), Attributes({}));
  EXPECT_EQ(Attributes().ToString(), "");
}

TEST(AttributesTest, GiveBackWhatWasSet) {
  const Attributes attributes = {{"b", true},         {"d", 0.5},
                                 {"i", int64_t{7}},   {"s", std::string("x")},
                                 {"t", DType::kBF16}, {"v", std::vector<int64_t>{2, 3}}};
  EXPECT_TRUE(attributes.GetBool("b"));
  EXPECT_EQ(attributes.GetDouble("d"), 0.5);
  EXPECT_EQ(attributes.GetInt("i"), 7);
  EXPECT_EQ(attributes.GetString("s"), "x");
  EXPECT_EQ(attributes.GetDType("t"), DType::kBF16);
  EXPECT_EQ(attributes.GetInts("v"), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(attributes.Has("b"));
  EXPECT_FALSE(attributes.Has("a"));
  EXPECT_EQ(attributes.Find("c"), nullptr);
  EXPECT_EQ(attributes.ToString(), "{b=true, d=0.5, i=7, s=\"x\", t=bf16, v=[2, 3]}");
}

TEST(AttributesTest, NumbersKeepAllTheirBits) {
  const auto print = [](double value) { return Attributes({{"x", value}}).ToString(); };
  EXPECT_EQ(print(1), "{x=1.0}");
  EXPECT_EQ(print(1e-5), "{x=1e-05}");
  EXPECT_EQ(print(0.1), "{x=0.1}");
  EXPECT_EQ(print(1.0 / 3), "{x=0.3333333333333333}");
  EXPECT_EQ(print(0.1 + 0.2), "{x=0.30000000000000004}");
  EXPECT_EQ(print(-std::numeric_limits<double>::infinity()), "{x=-inf}");
}

TEST(AttributesDeathTest, ReadingAMissingAttributeFailsACheck) {
  const Attributes attributes = {{"axis", int64_t{1}}};
  EXPECT_DEATH(attributes.GetInt("size"), "attribute 'size' in \\{axis=1\\}");
  EXPECT_DEATH(attributes.GetDouble("axis"), "attribute 'axis'");
}

TEST(AttributesTest, ACopyDoesNotChangeWithTheOriginal) {
  Attributes original = {{"axis", int64_t{1}}};
  const Attributes copy = original;
  original.Set("axis", int64_t{2});
  original.Set("keep", true);
  EXPECT_EQ(copy.ToString(), "{axis=1}");
  EXPECT_EQ(original.ToString(), "{axis=2, keep=true}");
  EXPECT_TRUE(Attributes().entries().empty());
}

}  // namespace
}  // namespace tessera
