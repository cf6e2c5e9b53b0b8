// Checks the tool that compares strategies, on a small model.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string CompareProgram() { return std::filesystem::absolute("tools/compare/compare").string(); }

// Returns the arguments of a comparison on the model of TinyFlags().
std::vector<std::string> TinyComparison(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {
      "--set=model.layers=1,model.heads=2,model.channels=8,model.context=16",
      "--set=optimizer.schedule=constant,optimizer.warmup_steps=0",
      "--sequence=16",
      "--batch=4",
      "--threads=1",
      "--data=" + TextFile(),
      "--steps=4",
      "--rounds=2"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

Result Compare(const std::vector<std::string>& flags) {
  return RunProgram(CompareProgram(), flags);
}

// Returns the loss of step 5 when one process trains the same model.
double LossOfOneProcess() {
  const std::string folder = NewFolder();
  const Result result = RunProgram(GptProgram(), Tiny({"--steps=5", "--out=" + folder}));
  EXPECT_EQ(result.code, 0) << result.err;
  return Metrics(folder).back()["loss"];
}

void ExpectEstimateHolds(const Json& strategy) {
  const Json& estimated = strategy["estimated"];
  const Json& measured = strategy["measured"];
  EXPECT_EQ(estimated["peak_bytes"], measured["peak_bytes"]);
  ASSERT_EQ(estimated["collectives"].size(), measured["collectives"].size()) << strategy.dump(2);
  for (const Json& each : estimated["collectives"]) {
    bool found = false;
    for (const Json& other : measured["collectives"]) {
      if (each["operation"] != other["operation"] || each["mesh_axes"] != other["mesh_axes"]) {
        continue;
      }
      found = true;
      EXPECT_EQ(each["calls"], other["calls"]) << each;
      EXPECT_EQ(each["bytes"], other["bytes"]) << each;
      EXPECT_GT(other["calls"], 0);
    }
    EXPECT_TRUE(found) << each;
  }
}

TEST(Compare, FourStrategiesOnTwoProcessesByDefault) {
  const std::string file = NewFolder() + "/comparison.json";
  const Result result = Compare(TinyComparison({"--json=" + file}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 ranks, shm"));
  EXPECT_THAT(result.out, HasSubstr("round 2/2 | fsdp | "));
  EXPECT_THAT(result.out, HasSubstr("trained with osdp to compare, in "));
  EXPECT_THAT(result.out, HasSubstr("note: osdp: its memory limit is "));
  EXPECT_THAT(result.out, HasSubstr("exposed communication"));
  EXPECT_THAT(result.out, HasSubstr("loss of step 5"));
  EXPECT_THAT(result.out, Not(HasSubstr("[0] ")));
  const Json json = Json::parse(ReadFile(file));
  EXPECT_EQ(json["tokens"], 64);
  const std::string recommendation = json["recommendation"];
  EXPECT_THAT(recommendation, HasSubstr(" here"));
  // The output breaks it into lines.
  std::string words = result.out;
  std::replace(words.begin(), words.end(), '\n', ' ');
  EXPECT_THAT(words, HasSubstr(recommendation));
  EXPECT_TRUE(json["alternated"]);
  ASSERT_EQ(json["strategies"].size(), 4u);
  EXPECT_EQ(json["strategies"][0]["name"], "ddp");
  EXPECT_EQ(json["strategies"][1]["name"], "fsdp");
  EXPECT_EQ(json["strategies"][3]["name"], "tensor");
  EXPECT_FALSE(json["strategies"][0].contains("memory_limit_bytes"));
  const Json& osdp = json["strategies"][2];
  const int64_t ddp_peak = json["strategies"][0]["measured"]["peak_bytes"];
  const int64_t fsdp_peak = json["strategies"][1]["measured"]["peak_bytes"];
  EXPECT_EQ(osdp["memory_limit_bytes"], ddp_peak + (fsdp_peak - ddp_peak) / 2);
  EXPECT_LE(osdp["measured"]["peak_bytes"], osdp["memory_limit_bytes"]);
  const double loss = LossOfOneProcess();
  for (const Json& strategy : json["strategies"]) {
    ExpectEstimateHolds(strategy);
    const Json& measured = strategy["measured"];
    EXPECT_EQ(measured["steps"].size(), 4u);
    EXPECT_EQ(measured["computations"].size(), 4u);
    EXPECT_EQ(measured["communications"].size(), 4u);
    EXPECT_GT(measured["step_seconds"], 0);
    EXPECT_GE(measured["exposed_seconds"], 0);
    EXPECT_EQ(measured["last_step"], 5);
    // Steps without communication leave no trace in the state.
    EXPECT_NEAR(measured["last_loss"].get<double>(), loss, 1e-5 * loss);
  }
}

TEST(Compare, PlansAndOptionsOnThreads) {
  const std::string file = NewFolder() + "/comparison.json";
  const std::string plan = std::filesystem::absolute("docs/plans/fully_sharded.textproto").string();
  const Result result = Compare(TinyComparison(
      {"--backend=fake", "--nproc=4", "--json=" + file,
       "--strategies=tensor_parallel,mine=" + plan + ",ddp:bucket=1MiB,hybrid_sharded"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(ReadFile(file));
  ASSERT_EQ(json["strategies"].size(), 4u);
  const double loss = LossOfOneProcess();
  for (size_t i = 0; i < 4; ++i) {
    const Json& strategy = json["strategies"][i];
    const std::vector<std::string> names = {"tensor_parallel", "mine", "ddp:bucket=1MiB",
                                            "hybrid_sharded"};
    EXPECT_EQ(strategy["name"], names[i]);
    ExpectEstimateHolds(strategy);
    EXPECT_NEAR(strategy["measured"]["last_loss"].get<double>(), loss, 1e-4 * loss);
  }
}

TEST(Compare, EntriesMaySetTheBatchMicroBatchesAndRecomputation) {
  const std::string file = NewFolder() + "/comparison.json";
  const Result result = Compare(TinyComparison(
      {"--backend=fake", "--json=" + file,
       "--strategies=big=ddp:batch=8,ddp,lean=fsdp:recompute=block:micro_batches=2:prefetch=2,"
       "data_parallel:micro_batches=2"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("gpt: 3.06K parameters, 4 sequences of 16 tokens a step"));
  EXPECT_THAT(result.out, HasSubstr("note: big alone has a batch of 8: there is no other to "));
  EXPECT_THAT(result.out, HasSubstr("batch 8:\n"));
  const Json json = Json::parse(ReadFile(file));
  EXPECT_EQ(json["batch"], 4);
  EXPECT_THAT(json["recommendation"].get<std::string>(),
              HasSubstr("big, another training with batch 8, processes "));
  const double loss = LossOfOneProcess();
  const std::vector<int> batches = {8, 4, 4, 4}, micro_batches = {1, 1, 2, 2};
  for (int i = 0; i < 4; ++i) {
    const Json& each = json["strategies"][i];
    EXPECT_EQ(each["batch"], batches[i]);
    EXPECT_EQ(each["micro_batches"], micro_batches[i]);
    ExpectEstimateHolds(each);
    const Json& measured = each["measured"];
    EXPECT_NEAR(measured["samples_per_second"].get<double>(),
                batches[i] / measured["step_seconds"].get<double>(), 1e-6);
    if (i == 0) continue;
    EXPECT_NEAR(measured["last_loss"].get<double>(), loss, 1e-4 * loss);
  }
  // Each trains as it would alone with its settings.
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--steps=5", "--batch=8", "--out=" + folder})).code, 0);
  const double of_big = Metrics(folder).back()["loss"];
  EXPECT_NEAR(json["strategies"][0]["measured"]["last_loss"].get<double>(), of_big, 1e-4 * of_big);
}

TEST(Compare, WithoutStepsOnlyPricesAreMeasured) {
  const std::string file = NewFolder() + "/comparison.json";
  const Result result = Compare(TinyComparison(
      {"--steps=0", "--backend=fake", "--strategies=ddp,fsdp,tensor_parallel", "--json=" + file}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("round 2/2 | tensor_parallel | "));
  EXPECT_THAT(result.out, HasSubstr("predicted by the prices that 2 rounds have measured"));
  EXPECT_THAT(result.out, Not(HasSubstr("loss of step")));
  const Json json = Json::parse(ReadFile(file));
  for (const Json& strategy : json["strategies"]) {
    EXPECT_EQ(strategy["outcome"], "only priced");
    EXPECT_GT(strategy["calibrated"]["step_seconds"], 0);
    EXPECT_EQ(strategy["calibrated"]["rounds"].size(), 2u);
    EXPECT_EQ(strategy["calibrated"]["peak_bytes"], strategy["estimated"]["peak_bytes"]);
    EXPECT_FALSE(strategy.contains("measured"));
  }
}

TEST(Compare, OneAtATimeGivesTheSameLosses) {
  const std::string folder = NewFolder();
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> flags =
        TinyComparison({"--model=gpt", "--backend=fake", "--json=" + folder + "/" + name});
    flags.insert(flags.end(), more.begin(), more.end());
    const Result result = Compare(flags);
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(ReadFile(folder + "/" + name));
  };
  const Json together = run("together", {}), alone = run("alone", {"--one_at_a_time"});
  EXPECT_FALSE(alone["alternated"]);
  for (int i : {0, 1}) {
    EXPECT_EQ(alone["strategies"][i]["measured"]["last_loss"],
              together["strategies"][i]["measured"]["last_loss"]);
  }
}

TEST(Compare, OneProcessHasNoCommunication) {
  const std::string file = NewFolder() + "/comparison.json";
  const Result result =
      Compare(TinyComparison({"--nproc=1", "--strategies=ddp", "--json=" + file}));
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(ReadFile(file));
  EXPECT_TRUE(json["strategies"][0]["measured"]["collectives"].empty());
}

TEST(Compare, OtherModels) {
  const Result result = Compare({"--model=mlp", "--backend=fake", "--steps=2", "--batch=2",
                                 "--sequence=16", "--data=" + TextFile()});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("mlp: "));
}

TEST(Compare, RanksThatALauncherStarts) {
  const auto options = [](const std::string& rank) {
    RunOptions with;
    with.environment = {{"RANK", rank},
                        {"WORLD_SIZE", "2"},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", std::to_string(20000 + getpid() % 10000)}};
    return with;
  };
  RunningProgram second(CompareProgram(), TinyComparison({}), options("1"));
  const Result first = RunProgram(CompareProgram(), TinyComparison({}), options("0"));
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("loss of step 5"));
  const Result other = second.Wait();
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.out, "");
}

TEST(Compare, HelpFitsInto80Columns) {
  const Result help = RunProgram("/bin/sh", {"-c", CompareProgram() + " --help"});
  EXPECT_EQ(help.code, 0);
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(CompareProgram()) != std::string::npos) continue;
    EXPECT_LE(line.size(), 80u) << line;
  }
  EXPECT_THAT(help.out, HasSubstr("--strategies=ENTRY"));
  EXPECT_THAT(help.out, HasSubstr("gpt or mlp or picture_mlp or ratings or"));
  EXPECT_THAT(help.out, HasSubstr("(default 20)"));
}

struct BadFlags {
  std::vector<std::string> flags;
  std::string message;
};

TEST(Compare, BadFlagsAreOneLine) {
  for (const BadFlags& each : std::vector<BadFlags>{
           {{"--model=gp"},
            "--model: there is no model 'gp': it is gpt or mlp or picture_mlp or ratings or vgg; "
            "did you mean 'gpt'?"},
           {{"--strategies="}, "--strategies is empty"},
           {{"--strategies=ddp,ddp"}, "the second entry with the label ddp"},
           {{"--strategies=ddb"}, "ddb: there is no strategy 'ddb'; did you mean 'ddp'?"},
           {{"--strategies=ddp:bucket_mb=1"}, "has no option 'bucket_mb'"},
           {{"--strategies=nowhere/plan.textproto"}, "cannot read the Plan"},
           {{"--strategies=tensor_parallel:x=1"}, "is a Plan, which has no option 'x'"},
           {{"--strategies=ddp:batch=8:batch=16"}, "sets batch twice"},
           {{"--strategies=ddp,ddp:batch=0"}, "ddp:batch=0: batch is 0: it must be "},
           {{"--strategies=ddp:batch=x"},
            "ddp:batch=x: --strategies: batch: 'x' is not a whole number"},
           {{"--strategies=ddp:micro_batches=3"}, "micro_batches is 3"},
           {{"--strategies=/no/such.so:batch=8"},
            "such.so:batch=8: there is no strategy plugin /no/such.so"},
           {{"--steps=-1"}, "--steps is -1: it must be 0 or more"},
           {{"--rounds=5"}, "--rounds is 5: it must be from 0 to 4, the number of --steps"},
           {{"--layers=3"}, "--set=model.layers=VALUE"},
           {{"--out=run"}, "--out"},
           {{"--json", "--steps=2"}, "--json needs a value, and '--steps=2' is the next flag"},
           {{"--json", "-steps=2"}, "--json needs a value, and '-steps=2' is the next flag"},
           {{"--json=/nonexistent/file"}, "--json: cannot write /nonexistent/file"}}) {
    std::vector<std::string> flags = TinyComparison({"--backend=fake"});
    flags.insert(flags.end(), each.flags.begin(), each.flags.end());
    const Result result = Compare(flags);
    EXPECT_EQ(result.code, 1) << each.message;
    EXPECT_THAT(result.err, HasSubstr(each.message));
    EXPECT_EQ(result.err.find("error: "), 0u) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("step time")));
  }
}

TEST(Compare, StrategiesThatFailAreColumns) {
  const std::string file = NewFolder() + "/comparison.json";
  // The Plan has a mesh of 3 ranks.
  const std::string plan = NewFolder() + "/three.textproto";
  WriteFile(plan, "stages { mesh { name: \"data\" size: 3 } }");
  const Result result =
      Compare(TinyComparison({"--json=" + file, "--strategies=ddp," + plan + ",fsdp"}));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error: three failed: "));
  EXPECT_THAT(result.out, HasSubstr("loss of step 5"));
  const Json json = Json::parse(ReadFile(file));
  EXPECT_EQ(json["strategies"][0]["outcome"], "ran");
  EXPECT_EQ(json["strategies"][1]["outcome"], "failed");
  EXPECT_EQ(json["strategies"][2]["outcome"], "ran");
}

// An entry that does not fit the model or the ranks is one line, and the others go on.
TEST(Compare, EntriesThatDoNotFitTheModelAreNamed) {
  struct Entry {
    std::string model, entry, message;
  };
  for (const Entry& each :
       std::vector<Entry>{{"mlp", "tensor_parallel", "error: tensor_parallel failed: "},
                          {"gpt", "lean=fsdp:recompute=no_such_scope",
                           "error: lean failed: strategy fsdp: its Plan "}}) {
    const Result result =
        Compare({"--model=" + each.model, "--backend=fake", "--steps=2", "--batch=2",
                 "--sequence=16", "--data=" + TextFile(), "--strategies=ddp," + each.entry});
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(result.err.find(each.message), 0u) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    EXPECT_THAT(result.out, HasSubstr("step time, median"));
  }
}

TEST(Compare, StrategiesThatDoNotFitAreNamed) {
  const Result result =
      Compare(TinyComparison({"--backend=fake", "--memory_limit=1KiB", "--strategies=ddp,fsdp"}));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error: ddp does not fit: memory_limit is 1KiB"));
  EXPECT_THAT(result.err, HasSubstr("error: fsdp does not fit: memory_limit is 1KiB"));
  EXPECT_THAT(result.out, HasSubstr("\nnone of ddp and fsdp fits; fsdp needs the least, "));
}

// FSDP needs less memory than DDP: a limit between the two excludes one of them.
TEST(Compare, OneThatDoesNotFitIsAColumn) {
  const std::string file = NewFolder() + "/comparison.json";
  const std::vector<std::string> on_four = {"--backend=fake", "--nproc=4", "--json=" + file,
                                            "--strategies=ddp,fsdp"};
  ASSERT_EQ(Compare(TinyComparison(on_four)).code, 0);
  const Json both = Json::parse(ReadFile(file));
  const int64_t limit = both["strategies"][1]["estimated"]["peak_bytes"];
  ASSERT_LT(limit, both["strategies"][0]["estimated"]["peak_bytes"].get<int64_t>());
  std::vector<std::string> limited = on_four;
  limited.push_back("--memory_limit=" + std::to_string(limit));
  const Result result = Compare(TinyComparison(limited));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error: ddp does not fit: memory_limit is "));
  EXPECT_THAT(result.out, HasSubstr("   does not fit:"));
  EXPECT_THAT(result.out, HasSubstr("\nonly fsdp fits; ddp ("));
  EXPECT_THAT(result.out, HasSubstr("step time, median"));
  const Json one = Json::parse(ReadFile(file));
  EXPECT_EQ(one["strategies"][0]["outcome"], "does not fit");
  EXPECT_FALSE(one["strategies"][0].contains("measured"));
  EXPECT_EQ(one["strategies"][1]["outcome"], "ran");
}

TEST(Compare, ALossThatIsNotFiniteIsNamed) {
  const Result result = Compare(TinyComparison({"--backend=fake", "--set=optimizer.lr=1e30"}));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("is not finite: choose a smaller --lr"));
}

// An interrupt ends it with the rounds that were finished.
TEST(Compare, AnInterruptPrintsFinishedRounds) {
  RunningProgram running(CompareProgram(), TinyComparison({"--steps=100000", "--rounds=10000"}));
  ASSERT_TRUE(running.WaitFor(
      [&] { return running.Out().find("round 2/10000 | fsdp") != std::string::npos; }));
  running.Signal(SIGINT);
  const Result result = running.Wait();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.out, HasSubstr("stopped: the table is of the first "));
  EXPECT_THAT(result.out, HasSubstr("step time, median"));
}

TEST(Compare, EmulatedHostsAreMarked) {
  const Result result = Compare(TinyComparison({"--hosts=a,b"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("measured*"));
  EXPECT_THAT(result.out, HasSubstr("* all ranks ran on this host"));
}

}  // namespace
}  // namespace tessera
