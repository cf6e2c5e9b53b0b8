#include "tests/plans/random/shrink.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(ShrinkTest, LeavesWhatTheFailureNeeds) {
  const auto plan = ParsePlanCase(
      "gpt 12 stages { mesh { name: 'a' size: 3 } mesh { name: 'b' size: 2 } "
      "mesh { name: 'c' size: 2 } parts { graph: 'train' micro_batches: 2 recompute: 'blocks.0' } "
      "store { path: 'wte.weight|wpe.weight' layout: 'b: S(0, 2), a: S(1), c: S(0)' } "
      "compute { path: 'x' signature: 'a: S(0), B -> S(0); b: B' } "
      "group { path: 'blocks.*' each: true over: 'c' over: 'b' split_at_rows: true } "
      "precision { parameters: BF16 } pass { bucket_gradients { cap_mib: 4 } } }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const PlanCase shrunk = Shrunk(*plan, [](const PlanCase& simpler) {
    const std::string text = simpler.ToString();
    return absl::StrContains(text, "a: S(1)") && absl::StrContains(text, "S(0), B") &&
           absl::StrContains(text, "over: \"c\"");
  });
  EXPECT_EQ(shrunk.ToString(),
            "gpt 4 stages { mesh { name: \"a\" size: 2 } mesh { name: \"c\" size: 2 } "
            "store { path: \"wpe.weight\" layout: \"a: S(1)\" } "
            "compute { path: \"x\" signature: \"a: S(0), B -> S(0)\" } "
            "group { path: \"blocks.*\" over: \"c\" } }");
}

TEST(ShrinkTest, APlanThatIsNoneIsRefused) {
  for (const char* text : {"", "gpt", "gpt x stages {}", "gpt 0 stages {}", "gpt 2 stages { y: 1 }",
                           "gpt 2 ", "gpt 2 stages {} stages {}"}) {
    EXPECT_FALSE(ParsePlanCase(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tessera
