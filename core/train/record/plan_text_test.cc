#include "core/train/record/plan_text.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(PlanTextTest, ReadsAPlanBehindAByteOrderMark) {
  const auto plan = ParsePlanText(
      "\xef\xbb\xbf"
      "format: 2 stages { mesh { name: 'data' } }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->stages(0).mesh(0).name(), "data");
}

TEST(PlanTextTest, AnErrorNamesItsLine) {
  EXPECT_EQ(ParsePlanText("stages {\n  mesh { nmae: 'data' }\n}").status().message(),
            "is no Plan: line 2: Message type \"tessera.MeshAxis\" has no field named \"nmae\".");
  EXPECT_EQ(ParsePlanText("stages { group { gather: NEVER } }").status().message(),
            "is no Plan: line 1: Unknown enumeration value of \"NEVER\" for field \"gather\".");
  EXPECT_EQ(ParsePlanText("stages { pass { offload {} limit_gathers {} } }").status().message(),
            "is no Plan: line 1: Field \"limit_gathers\" is specified along with field "
            "\"offload\", another member of oneof \"pass\".");
}

TEST(PlanTextTest, AFieldOfFormat1IsRefusedWithTheOneToWrite) {
  EXPECT_EQ(ParsePlanText("format: 1").status().message(),
            "the Plan has format 1; this version reads format 2, which docs/plans.md describes");
  constexpr char kPlugin[] = "plugin { name: \"...\" version: \"...\" pass: \"...\" }";
  const std::vector<std::vector<std::string>> cases = {
      {"operator { path: 'x' }", "operator", "compute { path: \"...\" signature: \"...\" }"},
      {"parts { operator: { path: 'x' } }", "operator",
       "compute { path: \"...\" signature: \"...\" }"},
      {"parts { passes { name: 'fuse' } }", "passes", "passes: \"fuse\""},
      {"group { layout: 'data: flat' }", "layout",
       "over: \"data\", for each axis, the outer split first"},
      {"group {\n gather: # a comment, with a 'reduce'\n\t'once' }", "gather",
       "gather: EACH_PHASE, ONCE or AFTER_UPDATE; for 'each phase over A', again_over: \"A\""},
      {"group { path: 'gather' reduce: \"each micro-batch\" }", "reduce",
       "reduce: AFTER_LAST or EACH_MICRO_BATCH"},
      {"group { block: 'row' }", "block", "split_at_rows: true, or split_at_multiples_of: 1024"},
      {"precision { parameters: 'bf16' }", "parameters", "parameters: BF16, without quotes"},
      {"precision { reduction: \"f16\" }", "reduction", "reduction: BF16, without quotes"},
      {"precision { outputs: '' }", "outputs", "outputs: BF16, without quotes"},
      {"pass { name: 'offload' }", "name", "the name as a field, such as pass { offload {} }"},
      {"pass { cap: '4MiB' }", "cap", "pass { bucket_gradients { cap_mib: 25 } }"},
      {"pass { first: '4MiB' }", "first", "pass { bucket_gradients { first_mib: 1 } }"},
      {"pass { distance: 1 }", "distance", "pass { prefetch_gathers { distance: 1 } }"},
      {"pass { in_flight: 1 }", "in_flight", "pass { limit_gathers { in_flight: 2 } }"},
      {"pass { tensors: 'parameters|gradients' }", "tensors",
       "pass { offload { tensors: PARAMETERS tensors: GRADIENTS } }"},
      {"pass { options { key: 'x' } }", "options",
       "pass { plugin { name: \"...\" pass: \"...\" options { ... } } }"},
      {"pass { plugin: 'helper' }", "plugin", kPlugin},
      {"pass { plugin_version: '1.0' }", "plugin_version", kPlugin},
  };
  for (const std::vector<std::string>& former : cases) {
    const absl::Status status =
        ParsePlanText(absl::StrCat("stages { mesh { name: 'data' }\n\n  ", former[0], " }"))
            .status();
    const int line = former[1] == "gather" ? 5 : 3;
    EXPECT_EQ(status.message(), absl::StrCat("is no Plan: line ", line, ": '", former[1],
                                             "' is of Plan format 1: write ", former[2]));
  }
}

}  // namespace
}  // namespace tessera
