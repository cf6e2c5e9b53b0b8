// Runs of several ranks, each a process, as a user starts them.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// A Plan in a file: of the whole batch on every rank, or as `stage` says.
std::string PlanFile(const std::string& stage = "mesh { name: \"data\" }") {
  const std::string path = NewFolder() + "/plan.textproto";
  WriteFile(path, "# A comment.\nstages { " + stage + " }\n");
  return path;
}

std::string DataParallel() { return fs::absolute("docs/plans/data_parallel.textproto").string(); }

// Tiny flags for a job of so many ranks.
std::vector<std::string> OnRanks(int ranks, const std::string& plan,
                                 const std::vector<std::string>& more) {
  std::vector<std::string> flags = Tiny({"--nproc=" + std::to_string(ranks), "--plan=" + plan});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// A field of every line of a run's metrics.
std::vector<double> Field(const std::string& folder, const std::string& name) {
  std::vector<double> values;
  for (const nlohmann::json& line : Metrics(folder)) {
    if (line.contains(name)) values.push_back(line[name]);
  }
  return values;
}

void ExpectSameMetrics(const std::string& folder, const std::string& expected) {
  for (const char* name : {"step", "loss", "grad_norm", "lr", "eval_loss"}) {
    EXPECT_EQ(Field(folder, name), Field(expected, name)) << name;
  }
}

// The folder of a run of one process.
std::string Alone(const std::vector<std::string>& more) {
  const std::string folder = NewFolder();
  std::vector<std::string> flags = more;
  flags.push_back("--out=" + folder);
  const Result result = RunProgram(GptProgram(), Tiny(flags));
  EXPECT_EQ(result.code, 0) << result.err;
  return folder;
}

std::string ReadProc(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The process of a rank of the job whose command line contains `mark`; 0 if there is none.
pid_t ProcessOf(int rank, const std::string& mark) {
  const std::string variable = std::string(1, '\0') + "RANK=" + std::to_string(rank) + '\0';
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string path = entry.path().string();
    if (ReadProc(path + "/cmdline").find(mark) == std::string::npos) continue;
    if (ReadProc(path + "/environ").find(variable) != std::string::npos) return std::stoi(name);
  }
  return 0;
}

int CountOf(const std::string& part, const std::string& text) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// One rank reports the error, in one line.
void ExpectOneError(const Result& result, const std::string& part) {
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(part));
  // The launcher repeats the end of what the rank wrote.
  std::string before = result.err.substr(0, result.err.find("\nerror: rank ") + 1);
  EXPECT_EQ(CountOf("] error: ", before), 1) << result.err;
}

TEST(RanksTest, ReplicasTrainAsOneProcessDoes) {
  const std::vector<std::string> more = {"--eval_every=10", "--set=model.dropout=0.1"};
  const std::string expected = Alone(more);
  struct Case {
    int ranks;
    std::vector<std::string> flags;
  };
  for (const Case& each : {Case{2, {}}, Case{2, {"--backend=tcp"}}, Case{3, {"--hosts=a,a,b"}}}) {
    const std::string folder = NewFolder();
    std::vector<std::string> flags = more;
    flags.insert(flags.end(), each.flags.begin(), each.flags.end());
    flags.push_back("--out=" + folder);
    const Result result = RunProgram(GptProgram(), OnRanks(each.ranks, PlanFile(), flags));
    EXPECT_EQ(result.code, 0) << result.err;
    ExpectSameMetrics(folder, expected);
    // Rank 0 alone prints.
    EXPECT_THAT(result.out, AllOf(HasSubstr("[0] run folder: "), Not(HasSubstr("[1] "))));
    EXPECT_THAT(result.out, HasSubstr("; " + std::to_string(each.ranks) + " ranks, "));
    EXPECT_EQ(Checkpoints(folder).size(), 1);
    EXPECT_FALSE(fs::exists(folder + "/seen_by_all_ranks"));
  }
}

// In double, the order of sums shows in the last digits only.
TEST(RanksTest, DataParallelTrainsAsOneProcessDoes) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--micro_batches=2", "--recompute=block"}}) {
    std::vector<std::string> flags = {"--device=reference", "--eval_every=5", "--batch=8",
                                      "--set=model.dropout=0.1"};
    flags.insert(flags.end(), more.begin(), more.end());
    const std::string expected = Alone(flags);
    for (const int ranks : {2, 4}) {
      const std::string folder = NewFolder();
      std::vector<std::string> on_ranks = flags;
      on_ranks.push_back("--out=" + folder);
      const Result result = RunProgram(GptProgram(), OnRanks(ranks, DataParallel(), on_ranks));
      ASSERT_EQ(result.code, 0) << result.err;
      for (const char* name : {"loss", "grad_norm", "eval_loss"}) {
        const std::vector<double> values = Field(folder, name), others = Field(expected, name);
        ASSERT_EQ(values.size(), others.size());
        for (size_t i = 0; i < values.size(); ++i) {
          EXPECT_NEAR(values[i], others[i], 1e-10 * others[i]) << name << " " << i;
        }
      }
    }
  }
}

TEST(RanksTest, ASignalToOneRankStopsAllAndSaves) {
  const std::string folder = NewFolder();
  RunningProgram running(GptProgram(),
                         OnRanks(2, PlanFile(), {"--out=" + folder, "--steps=1000000"}));
  ASSERT_TRUE(running.WaitFor([&] { return running.Out().find("| loss ") != std::string::npos; }))
      << running.Err();
  const pid_t second = ProcessOf(1, folder);
  ASSERT_GT(second, 0);
  kill(second, SIGTERM);
  const Result stopped = running.Wait();
  EXPECT_EQ(stopped.code, 128 + SIGTERM) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("[0] stopping, as rank 1 has got SIGTERM"));
  EXPECT_THAT(stopped.out, AllOf(HasSubstr("[0] stopped after step "), HasSubstr(" --nproc=2 ")));
  ASSERT_EQ(Checkpoints(folder).size(), 1);
  // The run goes on with the Plan of its checkpoint.
  const int64_t step = std::stoll(Checkpoints(folder)[0].substr(5));
  const std::string steps = "--steps=" + std::to_string(step + 3);
  const Result result = RunProgram(GptProgram(), {"--nproc=2", "--resume=" + folder, steps});
  ASSERT_EQ(result.code, 0) << result.err;
  ExpectSameMetrics(folder, Alone({steps}));
}

TEST(RanksTest, AKilledRankEndsTheOthersWithALine) {
  for (const std::string backend : {"shm", "tcp"}) {
    const std::string folder = NewFolder();
    RunningProgram running(
        GptProgram(),
        OnRanks(3, PlanFile(), {"--out=" + folder, "--backend=" + backend, "--steps=1000000"}));
    ASSERT_TRUE(running.WaitFor([&] { return running.Out().find("| loss ") != std::string::npos; }))
        << running.Err();
    const pid_t second = ProcessOf(1, folder);
    ASSERT_GT(second, 0);
    const auto begin = std::chrono::steady_clock::now();
    kill(second, SIGKILL);
    const Result ended = running.Wait();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(seconds.count(), 3) << "1 s, and time for a busy machine";
    EXPECT_EQ(ended.code, 128 + SIGKILL);
    EXPECT_THAT(ended.err, HasSubstr("error: rank 1 failed first, killed by SIGKILL"));
    EXPECT_THAT(ended.err, AllOf(HasSubstr("rank 1 (process "), HasSubstr(" died; waiting in ")));
    EXPECT_LE(CountOf("] error: ", ended.err), 2) << ended.err;
  }
}

// Starts the ranks of a job by tools/launch, each with a shell command.
Result LaunchShell(int ranks, const std::string& command) {
  return RunProgram(fs::absolute("tools/launch/launch").string(),
                    {"--nproc=" + std::to_string(ranks), "sh", "-c", command});
}

std::string CommandOf(const std::string& program, const std::vector<std::string>& flags) {
  std::string command = "exec " + program;
  for (const std::string& flag : flags) command += " '" + flag + "'";
  return command;
}

TEST(RanksTest, RanksWithOtherFlagsOrModelsAreNamed) {
  const std::string plan = "--plan=" + PlanFile();
  const std::string gpt = CommandOf(GptProgram(), Tiny({plan, "--out=" + NewFolder() + "/run"}));
  ExpectOneError(LaunchShell(3, "if [ $RANK = 2 ]; then " + gpt + " --lr=0.002; fi; " + gpt),
                 "rank 2 differs from rank 0 in optimizer.lr: 0.002, and rank 0 has ");
  ExpectOneError(LaunchShell(2, "if [ $RANK = 1 ]; then " + gpt + " --threads=2; fi; " + gpt),
                 "rank 1 differs from rank 0 in threads: 2, and rank 0 has 1");
  ExpectOneError(LaunchShell(2, "if [ $RANK = 1 ]; then " + gpt + " --data=synthetic; fi; " + gpt),
                 "rank 1 differs from rank 0 in the data: random tokens below ");
  ExpectOneError(
      LaunchShell(2, "if [ $RANK = 1 ]; then " +
                         CommandOf(MlpProgram(), {"--data=" + TextFile(), plan}) + "; fi; " + gpt),
      "rank 1 differs from rank 0 in the model: mlp, and rank 0 has gpt");
  // Errors that one rank alone finds.
  ExpectOneError(LaunchShell(2, "if [ $RANK = 1 ]; then " + gpt + " --data=/no/file; fi; " + gpt),
                 "[0] error: rank 1: ");
}

TEST(RanksTest, APlanThatDoesNotFitIsOneLine) {
  const auto run = [](const std::string& plan, const std::vector<std::string>& more) {
    std::vector<std::string> flags = more;
    flags.push_back("--out=" + NewFolder() + "/run");
    return RunProgram(GptProgram(), OnRanks(2, plan, flags));
  };
  ExpectOneError(run(PlanFile("mesh { name: \"data\" size: 3 }"), {}), "the Plan's mesh: ");
  ExpectOneError(run(PlanFile("parts { graph: \"train\" }"), {}),
                 "the Plan has no mesh for the 2 ranks of the job");
  ExpectOneError(run("/no/such/plan", {}), "cannot read the Plan /no/such/plan: No such file");
  ExpectOneError(run(PlanFile("mesh { nmae: \"data\" }"), {}),
                 "plan.textproto: is no Plan: line 2: ");
  ExpectOneError(
      run(PlanFile("mesh { name: \"data\" } store { path: \"wtf\" layout: \"data: S(0)\" }"), {}),
      "wtf");
  const std::string part = "mesh { name: \"data\" } parts { graph: \"train\" micro_batches: 2 ";
  ExpectOneError(run(PlanFile(part + "}"), {"--micro_batches=4"}),
                 "--micro_batches is 4, and the Plan says 2 for graph 'train'");
  ExpectOneError(run(PlanFile(part + "recompute: \"blocks.0\" }"), {"--recompute=none"}),
                 "--recompute is none, and the Plan says that blocks are recomputed");
  EXPECT_EQ(run(PlanFile(part + "}"), {"--micro_batches=2"}).code, 0);

  // A completed Plan is for the Graphs that it was made for.
  const std::string other = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(),
                       OnRanks(2, PlanFile(), {"--batch=8", "--dump=plan", "--out=" + other}))
                .code,
            0);
  const std::string completed = other + "/dump/plan.textproto";
  ExpectOneError(run(completed, {}), "the Plan was made for another graph '");
  EXPECT_EQ(run(completed, {"--batch=8"}).code, 0);
}

TEST(RanksTest, FlagsThatDoNotFitEachOther) {
  const auto error = [](const std::vector<std::string>& flags) {
    const Result result = RunProgram(GptProgram(), Tiny(flags));
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(CountOf("\n", result.err), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"--ranks=2"}), HasSubstr("--nproc=N starts ranks"));
  EXPECT_THAT(error({"--max_restarts=2"}), HasSubstr("--max_restarts is for ranks that --nproc=N"));
  EXPECT_THAT(error({"--nproc=0"}), HasSubstr("give the number of ranks, from 1 to"));
  EXPECT_THAT(error({"--timeout=0"}), HasSubstr("--timeout=0 is not a number of seconds"));
  ExpectOneError(RunProgram(GptProgram(), Tiny({"--nproc=2", "--out=" + NewFolder() + "/run"})),
                 "a run of 2 ranks needs a Plan: --plan=FILE");
  EXPECT_THAT(LaunchShell(2, CommandOf(GptProgram(), OnRanks(2, PlanFile(), {}))).err,
              HasSubstr("leave out --nproc"));
}

TEST(RanksTest, APlanForAnyNumberOfRanksNeedsNoneOfThem) {
  for (const std::string flag : {"--ranks=64", "--nproc=64"}) {
    const Result result = RunProgram(
        GptProgram(), Tiny({"--plan_only", flag, "--batch=64", "--plan=" + DataParallel()}));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("; 64 ranks\n"), HasSubstr(" on each of 64 ranks")));
  }
}

TEST(RanksTest, ATraceHasAProcessForEachRank) {
  const std::string folder = NewFolder();
  const std::string path = folder + "/trace.json";
  const Result result =
      RunProgram(GptProgram(), OnRanks(2, DataParallel(), {"--out=" + folder, "--trace=" + path}));
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json trace = nlohmann::json::parse(ReadFile(path));
  std::vector<std::string> names;
  std::vector<double> begins;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
    if (event["name"] == "step") begins.push_back(event["ts"]);
  }
  EXPECT_THAT(names, ElementsAre("rank 0: tessera train", "rank 1: tessera train"));
  ASSERT_EQ(begins.size(), 2);
  for (const double begin : begins) EXPECT_GE(begin, 0);
}

TEST(RanksTest, AFailedJobGoesOnFromItsLastCheckpoint) {
  const std::string here = NewFolder();
  RunOptions options;
  options.folder = here;
  RunningProgram running(GptProgram(),
                         OnRanks(2, DataParallel(),
                                 {"--max_restarts=2", "--save_every=50", "--steps=3000",
                                  "--set=sample.prompt=" + here}),
                         options);
  std::string folder;
  ASSERT_TRUE(running.WaitFor([&] {
    for (const auto& entry : fs::directory_iterator(here)) {
      if (entry.path().filename() != "runs") continue;
      for (const auto& run : fs::directory_iterator(entry.path())) folder = run.path().string();
    }
    return !folder.empty() && Checkpoints(folder).size() >= 2;
  })) << running.Err();
  const pid_t second = ProcessOf(1, here);
  ASSERT_GT(second, 0);
  kill(second, SIGKILL);
  const Result ended = running.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("note: starting all ranks again, restart 1 of 2\n"));
  EXPECT_THAT(ended.out, AllOf(HasSubstr("this job was started again, and goes on in " + folder),
                               HasSubstr("going on from step ")));
  EXPECT_EQ(std::distance(fs::directory_iterator(here + "/runs"), fs::directory_iterator()), 1);
  const std::string uninterrupted = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(),
                       OnRanks(2, DataParallel(),
                               {"--steps=3000", "--save_every=50", "--out=" + uninterrupted}))
                .code,
            0);
  ExpectSameMetrics(folder, uninterrupted);
}

TEST(RanksTest, AJobThatFailsBeforeItsFirstCheckpointStartsAgain) {
  const std::string folder = NewFolder();
  RunningProgram running(
      GptProgram(),
      OnRanks(2, PlanFile(), {"--max_restarts=1", "--steps=2000", "--out=" + folder}));
  ASSERT_TRUE(running.WaitFor([&] { return running.Out().find("| loss ") != std::string::npos; }))
      << running.Err();
  kill(ProcessOf(0, folder), SIGKILL);
  const Result ended = running.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("restart 1 of 1\n"));
  ExpectSameMetrics(folder, Alone({"--steps=2000"}));
}

TEST(RanksTest, EvaluationAndSamplesAreThoseOfOneProcess) {
  const std::string folder = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), OnRanks(2, PlanFile(), {"--out=" + folder})).code, 0);
  for (const std::string mode : {"evaluate", "sample"}) {
    const std::vector<std::string> flags = {"--resume=" + folder, "--mode=" + mode,
                                            "--sample_tokens=30", "--prompt=Line"};
    std::vector<std::string> on_ranks = flags;
    on_ranks.push_back("--nproc=2");
    const Result together = RunProgram(GptProgram(), on_ranks);
    const Result alone = RunProgram(GptProgram(), flags);
    ASSERT_EQ(together.code, 0) << together.err;
    ASSERT_EQ(alone.code, 0) << alone.err;
    EXPECT_THAT(alone.out, HasSubstr("the checkpoint's Plan is for several ranks"));
    if (mode == "evaluate") {
      const auto loss = [](const std::string& out) {
        const size_t at = out.find("eval_loss ");
        return out.substr(at, out.find(" (", at) - at);
      };
      EXPECT_EQ(loss(together.out), loss(alone.out));
    } else {
      std::string text;  // without the launcher's "[0] "
      for (size_t at = 0; at < together.out.size();) {
        const size_t end = together.out.find('\n', at);
        text += together.out.substr(at + 4, end - at - 3);
        at = end + 1;
      }
      EXPECT_EQ(text.substr(text.find("--- sample")),
                alone.out.substr(alone.out.find("--- sample")));
    }
  }
  // Another number of ranks needs a Plan.
  ExpectOneError(RunProgram(GptProgram(), {"--nproc=3", "--resume=" + folder, "--mode=evaluate"}),
                 "name a Plan for them with --plan=FILE");
  EXPECT_EQ(RunProgram(GptProgram(), {"--nproc=3", "--resume=" + folder, "--mode=evaluate",
                                      "--plan=" + PlanFile()})
                .code,
            0);
}

TEST(RanksTest, MemoryIsLimitedPerRankAndChecked) {
  ExpectOneError(
      RunProgram(GptProgram(),
                 OnRanks(2, PlanFile(), {"--memory_limit=1KiB", "--out=" + NewFolder() + "/r"})),
      "memory_limit is 1KiB, and each rank needs ");
  const Result result =
      RunProgram(GptProgram(), OnRanks(2, PlanFile(), {"--check_memory", "--out=" + NewFolder()}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("memory checked: "));
}

}  // namespace
}  // namespace tessera
