// Runs the tool that plans without ranks, as a user would.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/train/documented_json.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// A small GPT on H100s.
std::vector<std::string> Small(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {
      "--set=model.layers=2,model.heads=2,model.channels=16,model.vocabulary=64,model.context=16",
      "--sequence=16", "--batch=8", "--threads=1", "--cluster=h100"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

Result RunPlan(const std::vector<std::string>& arguments) {
  return RunProgram(std::filesystem::absolute("tools/plan/plan").string(), arguments);
}

Result RunCommand(const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = Small(more);
  arguments.insert(arguments.begin(), command);
  return RunPlan(arguments);
}

// Expects one line on stderr, and nothing on stdout.
void ExpectError(const Result& result, const std::string& text) {
  EXPECT_EQ(result.code, 1) << text;
  EXPECT_EQ(result.out, "") << text;
  EXPECT_THAT(result.err, HasSubstr(text));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(PlanTool, WithoutFlags) {
  const Result result = RunPlan({});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("ddp\nranks"), HasSubstr("fsdp\nranks"),
                                HasSubstr("by these predictions")));
  for (const absl::string_view line : absl::StrSplit(result.out, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(PlanTool, EveryFieldOfItsFileIsDocumentedAndEveryDocumentedFieldOccurs) {
  DocumentedFields fields = ReadDocumentedFields("tools/compare/json.md");
  CopyFields("strategies[].estimated", "steps[].estimated", &fields);
  std::erase_if(fields, [](const auto& field) { return field.first.rfind("steps[].", 0) != 0; });
  fields.merge(ReadDocumentedFields("tools/plan/json.md"));
  const std::string file = NewFolder() + "/plan.json";
  const std::string plan = NewFolder() + "/three.textproto";
  WriteFile(plan, "stages { mesh { name: \"data\" size: 3 } }");
  const Result result =
      RunPlan(Small({"--strategies=ddp,fsdp:offload=all," + plan, "--ranks=4,16", "--fit",
                     "--memory_limit=40KiB", "--tokens=1B", "--json=" + file}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("error: three on 4 ranks: "));
  std::set<std::string> found;
  ExpectDocumented(Json::parse(ReadFile(file)), fields, &found);
  // Here both fit, so there is a recommendation.
  const Result fits = RunPlan(Small({"--ranks=2", "--json=" + file}));
  EXPECT_EQ(fits.code, 0) << fits.err;
  ExpectDocumented(Json::parse(ReadFile(file)), fields, &found);
  for (const auto& [path, field] : fields) {
    EXPECT_EQ(found.count(path), 1u) << path << " is documented, and does not occur";
  }
}

TEST(PlanTool, AgreesWithComparePlanOnly) {
  const std::string mine = NewFolder() + "/plan.json", other = NewFolder() + "/compare.json";
  ASSERT_EQ(RunPlan(Small({"--ranks=16", "--json=" + mine})).code, 0);
  const Result compare =
      RunProgram(std::filesystem::absolute("tools/compare/compare").string(),
                 Small({"--plan_only", "--ranks=16", "--data=synthetic", "--json=" + other}));
  ASSERT_EQ(compare.code, 0) << compare.err;
  const Json steps = Json::parse(ReadFile(mine))["steps"];
  const Json strategies = Json::parse(ReadFile(other))["strategies"];
  ASSERT_EQ(steps.size(), 2u);
  ASSERT_EQ(strategies.size(), 2u);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i]["estimated"], strategies[i]["estimated"]);
  }
}

// A training run with the Plan that --save writes has the same peak.
TEST(PlanTool, ASavedPlanTrains) {
  const std::string folder = NewFolder();
  const std::string json = folder + "/plan.json", plan = folder + "/plan.textproto";
  const std::vector<std::string> model = {
      "--set=model.layers=2,model.heads=2,model.channels=16,model.vocabulary=64,model.context=16",
      "--sequence=16", "--batch=8", "--threads=1", "--kernels=default"};
  std::vector<std::string> flags = model;
  flags.insert(flags.end(), {"--strategies=fsdp", "--ranks=2", "--save=" + plan, "--json=" + json,
                             "--trace=" + folder + "/trace.json"});
  const Result planned = RunPlan(flags);
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_GT(Json::parse(ReadFile(folder + "/trace.json")).size(), 0u);
  const int64_t peak = Json::parse(ReadFile(json))["steps"][0]["estimated"]["peak_bytes"];
  flags = model;
  flags.insert(flags.end(), {"--data=synthetic", "--sample_tokens=0", "--backend=fake", "--nproc=2",
                             "--steps=2", "--plan=" + plan, "--out=" + folder + "/run"});
  const Result trained = RunProgram(GptProgram(), flags);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("(" + std::to_string(peak) + " bytes)"));
  // The same Plan under its file's name.
  const Result diff = RunPlan([&] {
    std::vector<std::string> arguments = model;
    arguments.insert(arguments.begin(), "diff");
    arguments.insert(arguments.end(), {"--strategies=fsdp," + plan, "--ranks=2"});
    return arguments;
  }());
  EXPECT_EQ(diff.code, 0) << diff.err;
  EXPECT_THAT(diff.out, HasSubstr("all decisions are the same"));
}

TEST(PlanTool, Commands) {
  const Result explained = RunCommand("explain", {"--strategies=fsdp", "--micro_batches=2"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.out,
              AllOf(HasSubstr("fsdp on 8 ranks: a step of"), HasSubstr("blocks.* (2)"),
                    HasSubstr("what one change would bring")));
  const Result diff = RunCommand("diff", {});
  EXPECT_EQ(diff.code, 0) << diff.err;
  EXPECT_THAT(diff.out, HasSubstr("pass bucket_gradients"));
  const Result costs = RunCommand("costs", {"--strategies=fsdp"});
  EXPECT_EQ(costs.code, 0) << costs.err;
  EXPECT_THAT(costs.out, AllOf(HasSubstr("by rates"), HasSubstr("all-gather of ")));
}

TEST(PlanTool, AReportHasEveryStrategy) {
  const std::string file = NewFolder() + "/report.html";
  const Result result =
      RunPlan(Small({"--ranks=2,8", "--memory_limit=150KiB", "--report=" + file}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(ReadFile(file), AllOf(HasSubstr("ddp, 2 ranks"), HasSubstr("fsdp, 8 ranks"),
                                    HasSubstr("does not fit"), Not(HasSubstr("<script"))));
}

TEST(PlanTool, AnInterruptPrintsWhatIsFinished) {
  RunningProgram program(std::filesystem::absolute("tools/plan/plan").string(),
                         {"--preset=gpt3_175b", "--dtype=bf16", "--cluster=h100", "--threads=1",
                          "--strategies=ddp,fsdp,fsdp:reshard=no", "--ranks=8,16,32,64,128,256"});
  ASSERT_TRUE(program.WaitFor([&] { return program.Err().rfind("planned ", 0) == 0; }));
  program.Signal(SIGINT);
  const Result result = program.Wait();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("ddp\nranks"), Not(HasSubstr("reshard=no"))));
}

TEST(PlanTool, BadInputIsOneLine) {
  ExpectError(RunPlan({"explan"}), "there is no command 'explan'");
  ExpectError(RunPlan({"--cluster=h1000"}), "did you mean 'h100'?");
  ExpectError(RunPlan({"--model=gtp"}), "did you mean 'gpt'?");
  ExpectError(RunPlan({"--preset=7b"}), "there is no preset '7b'");
  ExpectError(RunPlan({"--strategies=fsdpp"}), "did you mean 'fsdp'?");
  ExpectError(RunPlan({"--strategies=fsdp:shards=2"}), "did you mean 'shard'?");
  ExpectError(RunPlan({"--strategies=nothing.textproto"}), "nothing.textproto");
  ExpectError(RunPlan({"--json=/nonexistent/plan.json"}), "--json: ");
  ExpectError(RunPlan({"--report=/nonexistent/report.html"}), "--report: ");
  ExpectError(RunPlan({"--memory_limit=much"}), "memory_limit");
}

TEST(PlanTool, WhatCannotBePlannedIsNamedAndTheRestIsPlanned) {
  // The Plan of another model.
  const std::string plan = NewFolder() + "/other.textproto";
  ASSERT_EQ(RunPlan(Small({"--strategies=fsdp", "--ranks=4", "--save=" + plan})).code, 0);
  const Result other = RunPlan({"--model=mlp", "--strategies=ddp,other=" + plan, "--ranks=4"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("error: other on 4 ranks: "));
  EXPECT_THAT(other.out, AllOf(HasSubstr("ddp\nranks"), HasSubstr("could not be planned")));
  // Ranks that do not fit its mesh.
  const Result ranks = RunPlan(Small({"--strategies=other=" + plan, "--ranks=6"}));
  EXPECT_EQ(ranks.code, 2);
  EXPECT_THAT(ranks.err, AllOf(HasSubstr("other on 6 ranks"), HasSubstr("mesh")));
}

}  // namespace
}  // namespace tessera
