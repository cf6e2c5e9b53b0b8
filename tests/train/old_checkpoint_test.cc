// Checks runs that continue from a checkpoint of an older version.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Step 20 of a GPT of one block on synthetic tokens, in version 2 of the format and version 1 of
// the states, with qkv's weight as [3, heads, head_dim, C]. With its 3 heads, the shape is that of
// the present weight too.
constexpr char kFolder[] = "tests/train/checkpoints/version_2/step_00000020";
constexpr char kNote[] =
    "note: the checkpoint holds version 1 of the model's states, and this is version 2: "
    "'blocks.0.attn.qkv.weight' and ";

struct Step {
  double loss, grad_norm;
};

// Steps 21 to 26, by the version that saved the checkpoint, on the reference backend.
const std::vector<Step> kSteps = {
    {2.976915055848839, 0.2579551548777866},   {2.923940676317475, 0.4021800209271562},
    {2.9558580451387053, 0.30385215062630283}, {2.963698191137862, 0.33653870596201024},
    {3.037822951675137, 0.6164063431218894},   {2.9551226862469915, 0.2692776138867281}};

void ExpectSteps(const std::string& folder, size_t count, double bound) {
  const std::vector<nlohmann::json> metrics = Metrics(folder);
  ASSERT_EQ(metrics.size(), count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(metrics[i]["step"], 21 + i);
    EXPECT_NEAR(metrics[i]["loss"].get<double>(), kSteps[i].loss, bound) << "step " << 21 + i;
    EXPECT_NEAR(metrics[i]["grad_norm"].get<double>(), kSteps[i].grad_norm, bound)
        << "step " << 21 + i;
  }
}

// The shapes are equal, so only the version distinguishes the orders. Regression: the losses were 3
// % off.
TEST(OldCheckpointTest, TheFormerOrderOfQkvIsTransposedEvenIfTheShapesAreEqual) {
  for (const char* device : {"reference", "cpu"}) {
    const double bound = device == std::string("reference") ? 1e-9 : 1e-4;
    const std::string folder = NewFolder() + "/run";
    const Result first =
        RunProgram(GptProgram(), {std::string("--resume=") + kFolder, "--out=" + folder,
                                  "--steps=24", std::string("--device=") + device});
    ASSERT_EQ(first.code, 0) << first.err;
    EXPECT_THAT(first.out, HasSubstr(std::string(kNote) + "5 other states are transposed\n"));
    ExpectSteps(folder, 4, bound);

    // A checkpoint saved now has the present order.
    const Result second = RunProgram(GptProgram(), {"--resume=" + folder, "--steps=26"});
    ASSERT_EQ(second.code, 0) << second.err;
    EXPECT_THAT(second.out, Not(HasSubstr("transposed")));
    ExpectSteps(folder, 6, bound);
  }
}

TEST(OldCheckpointTest, IsEvaluatedToo) {
  const Result result = RunProgram(
      GptProgram(), {std::string("--resume=") + kFolder, "--mode=evaluate", "--device=reference"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(std::string(kNote) + "1 other state are transposed\n"));
  EXPECT_THAT(result.out, HasSubstr("step 20: eval_loss 2.9783 "));
}

// Regression: the length of the decay was listed too, although nobody had changed it.
TEST(OldCheckpointTest, OnlyTheUsersChangesAreCalledOverridden) {
  const Result result = RunProgram(GptProgram(), {std::string("--resume=") + kFolder, "--plan_only",
                                                  "--set=optimizer.schedule=cosine", "--steps=24"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      HasSubstr("note: overridden: optimizer.schedule constant -> cosine, steps 20 -> 24\n"));
  EXPECT_THAT(result.out, HasSubstr("note: the learning rate decays until step 24 now, and did not "
                                    "decay before: it is "));
}

}  // namespace
}  // namespace tessera
