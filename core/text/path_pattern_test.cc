#include "core/text/path_pattern.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

PathPattern Pattern(absl::string_view text) {
  auto pattern = PathPattern::Parse(text);
  EXPECT_TRUE(pattern.ok()) << pattern.status();
  return pattern.ok() ? *std::move(pattern) : PathPattern();
}

TEST(PathPatternTest, StarsStayWithinOnePart) {
  const PathPattern pattern = Pattern("blocks.*.mlp.*c.weight");
  EXPECT_TRUE(pattern.Matches("blocks.0.mlp.fc.weight"));
  EXPECT_TRUE(pattern.Matches("blocks.12.mlp.c.weight"));
  EXPECT_FALSE(pattern.Matches("blocks.0.1.mlp.fc.weight"));
  EXPECT_FALSE(pattern.Matches("blocks.0.mlp.fc.bias"));
  EXPECT_FALSE(pattern.Matches("blocks.0.mlp.fc.weight.adam_m"));
  EXPECT_FALSE(pattern.Matches("blocks.0.mlp.fcx.weight"));
}

TEST(PathPatternTest, SeveralStarsInOnePartAreTriedAtEveryPlace) {
  EXPECT_TRUE(Pattern("*ab*ab").Matches("abxabab"));
  EXPECT_FALSE(Pattern("*ab*ab").Matches("abxaba"));
  EXPECT_TRUE(Pattern("a**").Matches("a"));
}

TEST(PathPatternTest, AlternativesMatchEach) {
  const PathPattern pattern = Pattern("tokens|blocks.*.bias|tokens.more");
  EXPECT_TRUE(pattern.Matches("tokens"));
  EXPECT_TRUE(pattern.Matches("tokens.more"));
  EXPECT_TRUE(pattern.Matches("blocks.0.bias"));
  EXPECT_FALSE(pattern.Matches("targets"));
  EXPECT_FALSE(pattern.Matches("tokens|blocks.0.bias"));
}

TEST(PathPatternTest, AScopeThatMatchesIsFound) {
  EXPECT_EQ(Pattern("blocks.*").MatchingScope("blocks.1.ln1.bias"), 8);
  EXPECT_EQ(Pattern("blocks.*.ln1").MatchingScope("blocks.10.ln1.bias"), 13);
  EXPECT_EQ(Pattern("wte").MatchingScope("wte.weight"), 3);
  EXPECT_EQ(Pattern("wt").MatchingScope("wte.weight"), 0);
  EXPECT_EQ(Pattern("blocks.*.ln1.bias.x").MatchingScope("blocks.1.ln1.bias"), 0);
}

TEST(PathPatternTest, AnEmptyAlternativeIsAnError) {
  EXPECT_EQ(std::string(PathPattern::Parse("").status().message()), "an empty path");
  EXPECT_EQ(std::string(PathPattern::Parse("a||b").status().message()),
            "path 'a||b' has an empty alternative");
}

}  // namespace
}  // namespace tessera
