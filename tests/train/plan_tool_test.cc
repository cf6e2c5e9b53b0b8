// Runs the tool that plans without ranks, as a user would.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("ddp\nranks"), HasSubstr("fsdp\nranks"), HasSubstr("osdp\nranks"),
                    HasSubstr("tensor\nranks"), HasSubstr("by these predictions")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("note: osdp on 2 ranks: its memory limit is "),
                                HasSubstr("\n       may use ")));
  for (const absl::string_view line :
       absl::StrSplit(result.out.substr(result.out.find("gpt: ")), '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(PlanTool, ByDefaultOsdpMayUseTheMemoryBetweenTheOthers) {
  const std::string file = NewFolder() + "/plan.json";
  const auto steps = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--ranks=2,4", "--json=" + file};
    flags.insert(flags.end(), more.begin(), more.end());
    const Result result = RunPlan(Small(flags));
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(ReadFile(file))["steps"];
  };
  const Json of_default = steps({});
  ASSERT_EQ(of_default.size(), 8u);
  for (const int i : {0, 1}) {  // by the number of ranks
    const int64_t ddp = of_default[i]["estimated"]["peak_bytes"];
    const int64_t fsdp = of_default[2 + i]["estimated"]["peak_bytes"];
    EXPECT_LT(fsdp, ddp);
    EXPECT_EQ(of_default[4 + i]["limit_bytes"], ddp + (fsdp - ddp) / 2);
    EXPECT_LE(of_default[4 + i]["estimated"]["peak_bytes"], of_default[4 + i]["limit_bytes"]);
    EXPECT_GT(of_default[i]["limit_bytes"], ddp);  // that of the device
  }
  // A limit of the user's is that of all, and one of an entry only its own.
  for (const Json& each : steps({"--memory_limit=1MiB"})) EXPECT_EQ(each["limit_bytes"], 1 << 20);
  const Json of_entry = steps({"--strategies=osdp:memory_limit=1MiB,ddp"});
  EXPECT_EQ(of_entry[0]["limit_bytes"], 1 << 20);
  EXPECT_GT(of_entry[2]["limit_bytes"], 1 << 30);
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
    // A strategy need not know a bound; explanation_test has one.
    if (path == "steps[].explanation.bound_seconds" || path == "steps[].explanation.gap") continue;
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
  ASSERT_EQ(steps.size(), 4u);
  ASSERT_EQ(strategies.size(), 4u);
  EXPECT_EQ(steps[2]["limit_bytes"], strategies[2]["memory_limit_bytes"]);
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
  EXPECT_THAT(explained.out, Not(HasSubstr("why this Plan")));
  const Result reasons = RunCommand("explain", {"--strategies=osdp"});
  EXPECT_EQ(reasons.code, 0) << reasons.err;
  EXPECT_THAT(reasons.out, AllOf(HasSubstr("\nwhy this Plan, by osdp\n"),
                                 HasSubstr("the smallest limit for which it knows a Plan is "),
                                 HasSubstr("decision, and estimated changes"),
                                 HasSubstr("parameters outside of blocks (wte, wpe, ln_f): "),
                                 Not(HasSubstr("change of a setting")),
                                 Not(HasSubstr("one change would bring"))));
  const Result diff = RunCommand("diff", {});
  EXPECT_EQ(diff.code, 0) << diff.err;
  EXPECT_THAT(diff.out, HasSubstr("pass bucket_gradients"));
  const Result costs = RunCommand("costs", {"--strategies=fsdp"});
  EXPECT_EQ(costs.code, 0) << costs.err;
  EXPECT_THAT(costs.out, AllOf(HasSubstr("by rates"), HasSubstr("all-gather of ")));
}

// The least batch that is tried has a row of each rank in each micro-batch.
TEST(PlanTool, OsdpSearchesTheBatchWithGivenMicroBatches) {
  const Result planned =
      RunPlan({"--set=model.layers=2,model.heads=2,model.channels=16,model.vocabulary=64",
               "--sequence=16", "--strategies=osdp", "--batch=search", "--micro_batches=4",
               "--ranks=2", "--cluster=ethernet_1g", "--memory_limit=1MiB"});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("with --micro_batches=4"));
}

TEST(PlanTool, AReportHasEveryStrategy) {
  const std::string file = NewFolder() + "/report.html";
  const Result result =
      RunPlan(Small({"--strategies=ddp,fsdp,osdp=osdp:memory_limit=1GiB", "--ranks=2,8",
                     "--memory_limit=150KiB", "--report=" + file}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(ReadFile(file), AllOf(HasSubstr("Why this Plan, by osdp, 2 ranks"),
                                    HasSubstr("aria-label=\"Decisions of osdp, 2 ranks\""),
                                    Not(HasSubstr("Why this Plan, by fsdp"))));
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

// Returns the path of the plugin that has faults, with one of them.
std::string Faulty(const std::string& fault) {
  return "faulty=" +
         std::filesystem::absolute("strategies/conformance/testing/faulty.so").string() +
         ":fault=" + fault;
}

// Runs the tool with a strategy that does not end by itself, and interrupts it when it has shown
// its progress.
Result InterruptSearch(const std::string& fault) {
  RunningProgram program(std::filesystem::absolute("tools/plan/plan").string(),
                         Small({"--strategies=ddp," + Faulty(fault), "--ranks=2"}));
  EXPECT_TRUE(program.WaitFor([&] {
    return program.Err().find("strategy faulty: 50%: half done; ") != std::string::npos;
  }));
  program.Signal(SIGINT);
  return program.Wait();
}

TEST(PlanTool, AnInterruptedSearchEndsWithItsBestPlanSoFar) {
  const Result with_plan = InterruptSearch("hang_with_plan");
  EXPECT_EQ(with_plan.code, 130) << with_plan.err;
  EXPECT_THAT(with_plan.out,
              AllOf(HasSubstr("faulty\nranks"),
                    HasSubstr("note: faulty on 2 ranks: strategy faulty: stopped while it planned: "
                              "its best Plan so far is used\n")));
  const Result without = InterruptSearch("hang");
  EXPECT_EQ(without.code, 130) << without.err;
  EXPECT_THAT(without.out, AllOf(HasSubstr("ddp\nranks"), HasSubstr("could not be planned")));
  EXPECT_THAT(without.err, HasSubstr("error: faulty on 2 ranks: strategy faulty: stopped while it "
                                     "planned\n"));
}

// Regression: what a strategy said after a search that was cut short was taken for its answer.
TEST(PlanTool, AnInterruptedCheckSaysNothingOfThePlan) {
  const std::string plan = NewFolder() + "/plan.textproto";
  const std::vector<std::string> model = {"--preset=124m", "--cluster=ethernet_1g", "--ranks=2",
                                          "--strategies=osdp", "--kernels=default"};
  std::vector<std::string> flags = model;
  flags.insert(flags.end(), {"--save=" + plan, "--strategies=fsdp"});
  ASSERT_EQ(RunPlan(flags).code, 0);
  flags = model;
  flags.insert(flags.begin(), {"holds", "--plan=" + plan});
  RunningProgram program(std::filesystem::absolute("tools/plan/plan").string(), flags);
  ASSERT_TRUE(
      program.WaitFor([&] { return program.Err().find("strategy osdp: ") != std::string::npos; }));
  program.Signal(SIGINT);
  const Result result = program.Wait();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("error: stopped before it was known whether " + plan));
}

// Returns the result of `plan holds` with a small GPT, or with other flags.
Result Holds(const std::string& plan, const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"--plan=" + plan, "--kernels=default"};
  flags.insert(flags.end(), more.begin(), more.end());
  return RunCommand("holds", flags);
}

void ExpectHoldsNot(const Result& result, const std::string& why) {
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr(" does not hold for "), HasSubstr(why)));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
}

TEST(PlanTool, ASavedPlanHoldsUntilSomethingChanges) {
  const std::string folder = NewFolder();
  const std::string json = folder + "/plan.json";
  // Little memory, so that osdp has to trade time for it.
  ASSERT_EQ(
      RunPlan(Small({"--ranks=4", "--cluster=ethernet_1g", "--kernels=default", "--json=" + json}))
          .code,
      0);
  const int64_t least = Json::parse(ReadFile(json))["steps"][2]["explanation"]["least_limit_bytes"];
  for (const std::string strategy : {"osdp", "fsdp"}) {
    const std::string plan = absl::StrCat(folder, "/", strategy, ".textproto");
    const std::vector<std::string> request = {"--strategies=" + strategy, "--ranks=4",
                                              "--cluster=ethernet_1g"};
    const auto with = [&](const std::string& flag) {
      std::vector<std::string> flags = request;
      flags.push_back(flag);
      return flags;
    };
    const std::string same = strategy == "osdp"
                                 ? "--memory_limit=" + std::to_string(least + least / 50)
                                 : "--memory_limit=1MiB";
    std::vector<std::string> save = Small(with(same));
    save.insert(save.end(), {"--kernels=default", "--save=" + plan, "--json=" + json});
    const Result saved = RunPlan(save);
    ASSERT_EQ(saved.code, 0) << saved.err;
    const int64_t peak = Json::parse(ReadFile(json))["steps"][0]["estimated"]["peak_bytes"];
    const Result holds = Holds(plan, with(same));
    EXPECT_EQ(holds.code, 0) << holds.out << holds.err;
    EXPECT_THAT(holds.out,
                HasSubstr(absl::StrCat(plan, " holds for ", strategy, " on 4 ranks: a step of ")));
    EXPECT_EQ(std::count(holds.out.begin(), holds.out.end(), '\n'), 1) << holds.out;
    ExpectHoldsNot(Holds(plan, with("--memory_limit=" + std::to_string(peak - 1))),
                   ": a rank needs ");
    if (strategy == "osdp") {
      ExpectHoldsNot(Holds(plan, with("--memory_limit=1GiB")), ": another Plan is faster by ");
    }
    const Result other = RunPlan({"holds", "--plan=" + plan, "--model=mlp", "--ranks=4",
                                  "--strategies=" + strategy, "--cluster=ethernet_1g"});
    ExpectError(other, plan);
    ExpectError(Holds(plan, {"--strategies=" + strategy, "--ranks=3"}), "mesh");
  }
}

TEST(PlanTool, BadInputIsOneLine) {
  ExpectError(RunPlan({"holds", "--strategies=osdp"}), "name its file with --plan=FILE");
  ExpectError(RunPlan({"holds", "--strategies=osdp", "--plan=/nonexistent"}), "/nonexistent");
  ExpectError(RunPlan({"--strategies=osdp:memory_limit=much"}), "memory_limit");
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
