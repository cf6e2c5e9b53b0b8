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
  const Plan plan = WithPasses(R"(pass { bucket_gradients { cap_mib: 8 first_mib: 0.5 } }
                                  pass { prefetch_gathers { distance: 3 } }
                                  pass { limit_gathers { in_flight: 4 } }
                                  pass { offload { distance: 2
                                         tensors: [OPTIMIZER_STATE, GRADIENTS] } })");
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

TEST(StagePassesTest, BytesAreRoundedUp) {
  const Plan plan =
      WithPasses("pass { bucket_gradients { cap_mib: 1.00000001 first_mib: 1e-300 } }");
  const auto passes = ReadStagePasses(plan.stages(0));
  ASSERT_TRUE(passes.ok()) << passes.status();
  EXPECT_EQ(passes->bucket_gradients->cap_bytes, (1 << 20) + 1);
  EXPECT_EQ(passes->bucket_gradients->first_bytes, 1);
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
      group { path: "blocks.*" each: true over: "data" }
      group { path: "wte|wpe|ln_f" over: "data" gather: ONCE }
      pass { bucket_gradients { cap_mib: 8 } } pass { prefetch_gathers {} }
      pass { limit_gathers {} } pass { offload {} })text");
  const Plan plan = Completed(open, graphs, 2);
  std::string text;
  for (const PassChoice& pass : plan.stages(0).pass()) text += pass.ShortDebugString() + "\n";
  EXPECT_EQ(text, R"(bucket_gradients { cap_mib: 8 first_mib: 1 }
prefetch_gathers { distance: 1 }
limit_gathers { in_flight: 2 }
offload { tensors: PARAMETERS tensors: GRADIENTS tensors: OPTIMIZER_STATE distance: 1 }
)");
  EXPECT_EQ(plan.stages(0).group(0).gather(), GroupChoice::EACH_PHASE);
  EXPECT_EQ(plan.stages(0).group(0).reduce(), GroupChoice::AFTER_LAST);
  EXPECT_EQ(plan.stages(0).group(1).gather(), GroupChoice::ONCE);
  EXPECT_EQ(Completed(plan, graphs, 2).DebugString(), plan.DebugString());
  const auto passes = ReadStagePasses(open.stages(0));
  ASSERT_TRUE(passes.ok()) << passes.status();
  EXPECT_EQ(passes->bucket_gradients->first_bytes, 1 << 20);
  EXPECT_EQ(passes->prefetch_distance, 1);
  EXPECT_EQ(passes->gathers_in_flight, 2);
}

TEST(StagePassesTest, ACompletedPlanAddsNothingToAPassOfAPlugin) {
  Stage stage;
  stage.add_pass()->mutable_plugin()->set_name("mine");
  const std::string before = stage.DebugString();
  CompleteStagePasses(stage);
  EXPECT_EQ(stage.DebugString(), before);
}

TEST(StagePassesTest, RefusesInOneLineWhatDoesNotFit) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"pass {}",
       "the Plan's stage lists an empty pass; there are bucket_gradients, prefetch_gathers, "
       "limit_gathers, offload and plugin"},
      {"pass { limit_gathers {} } pass { limit_gathers {} }",
       "the Plan's pass 'limit_gathers': it is listed twice"},
      {"pass { bucket_gradients { cap_mib: nan } }",
       "the Plan's pass 'bucket_gradients': cap_mib: nan is no number of MiB above 0 and below "
       "2^42"},
      {"pass { bucket_gradients { cap_mib: inf } }",
       "the Plan's pass 'bucket_gradients': cap_mib: inf is no number of MiB above 0 and below "
       "2^42"},
      {"pass { bucket_gradients { cap_mib: 4398046511104 } }",
       "the Plan's pass 'bucket_gradients': cap_mib: 4.39805e+12 is no number of MiB above 0 and "
       "below 2^42"},
      {"pass { bucket_gradients { first_mib: 0 } }",
       "the Plan's pass 'bucket_gradients': first_mib: 0 is no number of MiB above 0 and below "
       "2^42"},
      {"pass { bucket_gradients { first_mib: -1e-300 } }",
       "the Plan's pass 'bucket_gradients': first_mib: -1e-300 is no number of MiB above 0 and "
       "below 2^42"},
      {"pass { prefetch_gathers { distance: -1 } }",
       "the Plan's pass 'prefetch_gathers': distance: -1; it must be at least 1"},
      {"pass { limit_gathers { in_flight: -7 } }",
       "the Plan's pass 'limit_gathers': in_flight: -7; it must be at least 1"},
      {"pass { offload { tensors: PARAMETERS tensors: 3 } }",
       "the Plan's pass 'offload': tensors: 3 is none of PARAMETERS, GRADIENTS and "
       "OPTIMIZER_STATE"},
      {"pass { offload { distance: -2 } }",
       "the Plan's pass 'offload': distance: -2; it must be at least 1"},
      {"parts { graph: 'train' passes: 'limit_gathers' }",
       "the Plan's part for graph 'train' lists pass 'limit_gathers', which the stage lists: "
       "stages { pass { limit_gathers {} } }"},
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
  PassChoice::PluginPass& choice = *stage.add_pass()->mutable_plugin();
  choice.set_name(plugin);
  choice.set_version("1.0");
  choice.set_pass(pass);
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
  const absl::Status status = CheckPlanForm(ParsePlan("stages { pass { offload {} } }"));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StagePassesTest, APassNeedsAMesh) {
  const absl::Status status = CheckPlanForm(ParsePlan("stages { pass { bucket_gradients {} } }"));
  EXPECT_EQ(std::string(status.message()),
            "the Plan has no mesh, but pass 'bucket_gradients' for the communication on one; name "
            "an axis: mesh { name: \"data\" }");
}

}  // namespace
}  // namespace tessera
