#include "core/plan/choices/stage_passes.h"

#include <string>
#include <utility>
#include <vector>

#include "core/plan/check.h"
#include "core/plan/testing/completion.h"
#include "core/plan/testing/transformer.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Returns a Plan with these passes in its stage.
Plan WithPasses(const std::string& passes) {
  return ParsePlan("stages { mesh { name: 'data' } " + passes + " }");
}

TEST(StagePassesTest, ReadsWhatAPlanSays) {
  const Plan plan = WithPasses(R"(pass { name: 'bucket_gradients' cap: '8MiB' first: '512K' }
                                  pass { name: 'prefetch_gathers' distance: 3 }
                                  pass { name: 'limit_gathers' in_flight: 4 }
                                  pass { name: 'offload' distance: 2
                                         tensors: 'optimizer state|gradients' })");
  const auto passes = ReadStagePasses(plan.stages(0));
  ASSERT_TRUE(passes.ok()) << passes.status();
  EXPECT_EQ(passes->bucket_gradients->cap_bytes, 8 << 20);
  EXPECT_EQ(passes->bucket_gradients->first_bytes, 512 << 10);
  EXPECT_EQ(passes->prefetch_distance, 3);
  EXPECT_EQ(passes->gathers_in_flight, 4);
  EXPECT_FALSE(passes->offload->parameters);
  EXPECT_TRUE(passes->offload->gradients);
  EXPECT_TRUE(passes->offload->optimizer_state);
  EXPECT_EQ(passes->offload->distance, 2);
}

TEST(StagePassesTest, APassThatIsNotListedIsNotThere) {
  const auto passes = ReadStagePasses(Stage());
  ASSERT_TRUE(passes.ok()) << passes.status();
  EXPECT_FALSE(passes->bucket_gradients.has_value());
  EXPECT_FALSE(passes->prefetch_distance.has_value());
  EXPECT_FALSE(passes->gathers_in_flight.has_value());
  EXPECT_FALSE(passes->offload.has_value());
}

// The completed Plan lists the options that the open one leaves out.
TEST(StagePassesTest, ACompletedPlanListsEveryOption) {
  const std::vector<Graph> graphs = {RecordTransformerTraining({})};
  const Plan open = WithPasses(R"text(
      store { path: "tokens|targets" layout: "data: S(0)" }
      group { path: "blocks.*" each: true layout: "data: flat" }
      group { path: "wte|wpe|ln_f" layout: "data: flat" gather: "once" }
      pass { name: 'bucket_gradients' cap: '8MiB' } pass { name: 'prefetch_gathers' }
      pass { name: 'limit_gathers' } pass { name: 'offload' })text");
  const Plan plan = Completed(open, graphs, 2);
  std::string text;
  for (const PassChoice& pass : plan.stages(0).pass()) text += pass.ShortDebugString() + "\n";
  EXPECT_EQ(text, R"(name: "bucket_gradients" cap: "8MiB" first: "1MiB"
name: "prefetch_gathers" distance: 1
name: "limit_gathers" in_flight: 2
name: "offload" distance: 1 tensors: "parameters|gradients|optimizer state"
)");
  EXPECT_EQ(plan.stages(0).group(0).gather(), "each phase");
  EXPECT_EQ(plan.stages(0).group(1).gather(), "once");
  EXPECT_EQ(Completed(plan, graphs, 2).DebugString(), plan.DebugString());
  const auto passes = ReadStagePasses(open.stages(0));
  ASSERT_TRUE(passes.ok()) << passes.status();
  EXPECT_EQ(passes->bucket_gradients->first_bytes, 1 << 20);
  EXPECT_EQ(passes->prefetch_distance, 1);
  EXPECT_EQ(passes->gathers_in_flight, 2);
}

TEST(StagePassesTest, ACompletedPlanAddsNothingToAPassOfAPlugin) {
  Stage stage;
  PassChoice& choice = *stage.add_pass();
  choice.set_plugin("mine");
  choice.set_name("reorder");
  CompleteStagePasses(stage);
  EXPECT_EQ(stage.pass(0).in_flight(), 0);
}

TEST(StagePassesTest, RefusesInOneLineWhatDoesNotFit) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"pass { name: 'bucket_gradient' }",
       "the Plan's stage lists pass 'bucket_gradient'; there are bucket_gradients, "
       "prefetch_gathers, limit_gathers, offload; did you mean 'bucket_gradients'?"},
      {"pass { name: 'fuse' }",
       "the Plan's stage lists pass 'fuse', which a part lists: parts { graph: \"train\" passes { "
       "name: \"fuse\" } }"},
      {"pass { name: 'limit_gathers' } pass { name: 'limit_gathers' }",
       "the Plan's pass 'limit_gathers': it is listed twice"},
      {"pass { name: 'limit_gathers' cap: '1MiB' }",
       "the Plan's pass 'limit_gathers': it has no option 'cap'; it has the fields in_flight"},
      {"pass { name: 'bucket_gradients' options { key: 'cap' value: '1MiB' } }",
       "the Plan's pass 'bucket_gradients': it has no option 'cap'; it has the fields cap and "
       "first"},
      {"pass { name: 'bucket_gradients' distance: 1 }",
       "the Plan's pass 'bucket_gradients': it has no option 'distance'; it has the fields cap and "
       "first"},
      {"pass { name: 'bucket_gradients' cap: '25 parsecs' }",
       "the Plan's pass 'bucket_gradients': cap: '25 parsecs' is no number of bytes above 0; one "
       "looks like '25MiB'"},
      {"pass { name: 'bucket_gradients' first: '0' }",
       "the Plan's pass 'bucket_gradients': first: '0' is no number of bytes above 0; one looks "
       "like '25MiB'"},
      {"pass { name: 'prefetch_gathers' distance: -1 }",
       "the Plan's pass 'prefetch_gathers': distance: -1; it must be at least 1"},
      {"pass { name: 'limit_gathers' in_flight: -7 }",
       "the Plan's pass 'limit_gathers': in_flight: -7; it must be at least 1"},
      {"pass { name: 'offload' tensors: 'parameters|moments' }",
       "the Plan's pass 'offload': tensors: 'moments' is none of parameters, gradients, optimizer "
       "state (with '|' between several)"},
      {"pass { name: 'offload' tensors: 'gradient' }",
       "the Plan's pass 'offload': tensors: 'gradient' is none of parameters, gradients, optimizer "
       "state (with '|' between several); did you mean 'gradients'?"},
      {"pass { name: 'offload' distance: -2 }",
       "the Plan's pass 'offload': distance: -2; it must be at least 1"},
      {"parts { graph: 'train' passes { name: 'limit_gathers' } }",
       "the Plan's part for graph 'train' lists pass 'limit_gathers', which the stage lists: "
       "stages { pass { name: \"limit_gathers\" } }"},
      {"parts { graph: 'train' passes { name: 'order' in_flight: 2 } }",
       "the Plan's part for graph 'train' lists pass 'order' with option 'in_flight'; it has no "
       "options"},
  };
  for (const auto& [passes, message] : cases) {
    const absl::Status status = CheckPlanForm(WithPasses(passes));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << passes;
    EXPECT_EQ(std::string(status.message()), message);
  }
}

Stage WithPassOfPlugin(const std::string& plugin, const std::string& pass) {
  Stage stage;
  stage.add_mesh()->set_name("data");
  PassChoice& choice = *stage.add_pass();
  choice.set_plugin(plugin);
  choice.set_plugin_version("1.0");
  choice.set_name(pass);
  return stage;
}

// Regression: a path was loaded, also one below the working directory.
TEST(StagePassesTest, APluginIsNamedByItsNameAlone) {
  EXPECT_TRUE(ReadStagePasses(WithPassOfPlugin("just_enough2", "reorder")).ok());
  EXPECT_EQ(
      ReadStagePasses(WithPassOfPlugin("./helper.so", "run")).status().message(),
      "the Plan's stage lists pass 'run' of the strategy plugin './helper.so': a Plan names a "
      "plugin by its name and version, never by a path");
  const std::string long_name(1 << 20, 'a');
  for (const std::string& plugin :
       {std::string("helper.so"), std::string("/tmp/helper.so"), std::string("../helper"),
        std::string("a/b"), std::string("."), std::string(".."), std::string("~/helper"),
        std::string("Helper"), std::string(" helper"), std::string("helper\n"),
        std::string("$HOME"), std::string("helper\0", 7), std::string("\0", 1),
        std::string("\xff\xfe"), long_name}) {
    Plan plan;
    *plan.add_stages() = WithPassOfPlugin(plugin, "run");
    const absl::Status status = CheckPlanForm(plan);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << plugin;
    EXPECT_LT(status.message().size(), 400);
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  }
}

TEST(StagePassesTest, APassOfAPluginHasAPlainName) {
  for (const std::string& pass : {std::string(), std::string("../x"), std::string("two\nlines")}) {
    EXPECT_EQ(ReadStagePasses(WithPassOfPlugin("helper", pass)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << pass;
  }
}

TEST(StagePassesTest, OneProcessMayOffload) {
  const absl::Status status = CheckPlanForm(ParsePlan("stages { pass { name: 'offload' } }"));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StagePassesTest, APassNeedsAMesh) {
  const absl::Status status =
      CheckPlanForm(ParsePlan("stages { pass { name: 'bucket_gradients' } }"));
  EXPECT_EQ(std::string(status.message()),
            "the Plan has no mesh, but pass 'bucket_gradients' for the communication on one; name "
            "an axis: mesh { name: \"data\" }");
}

}  // namespace
}  // namespace tessera
