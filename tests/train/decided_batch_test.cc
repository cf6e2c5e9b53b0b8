// Checks --batch=search in the training program, as a user starts it: with a strategy that decides
// the batch, the run is one of that batch.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDefault[] = "--batch=4";
constexpr char kSearch[] = "--batch=search";

// Returns flags of a run on two ranks. The default batch is 4, and is not a flag: with one, a Plan
// for another batch is an error.
std::vector<std::string> Flags(const std::vector<std::string>& more) {
  static const std::string* const config = [] {
    auto* const path = new std::string(NewFolder() + "/default.textproto");
    WriteFile(*path, "batch: 4\n");
    return path;
  }();
  std::vector<std::string> flags;
  for (const std::string& flag : Tiny({"--nproc=2", "--steps=6", "--eval_every=3"})) {
    if (flag != kDefault) flags.push_back(flag);
  }
  flags.push_back("--config=" + *config);
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<std::string> ByPlugin(const std::string& options,
                                  const std::vector<std::string>& more) {
  static const std::string* const plugin = new std::string(
      std::filesystem::absolute("strategies/host/testing/fills_memory.so").string());
  std::vector<std::string> flags =
      Flags({"--strategy=" + *plugin, "--strategy_options=" + options});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Trains in a new folder, and returns it.
std::string Trained(std::vector<std::string> flags) {
  std::string folder = NewFolder();
  flags.insert(flags.end(), {"--out=" + folder, "--dump=plan"});
  const Result result = RunProgram(GptProgram(), flags);
  EXPECT_EQ(result.code, 0) << result.err;
  return folder;
}

// Returns the files of a checkpoint without its Plan, which says whether it decides the batch.
std::map<std::string, std::string> StateAndConfig(const std::string& folder, int64_t step) {
  std::map<std::string, std::string> files = CheckpointFiles(folder, step);
  EXPECT_EQ(files.erase("plan.textproto"), 1);
  EXPECT_EQ(files.erase("manifest.json"), 1);  // it has the Plan's checksum
  EXPECT_GE(files.size(), 2);
  return files;
}

TEST(DecidedBatchTest, TheRunIsThatOfTheDecidedBatchAndItsPlanReplays) {
  const std::string stated = Trained(ByPlugin("most=16", {"--batch=16"}));
  const std::string searched = Trained(ByPlugin("most=16", {kSearch}));
  const std::string plan = searched + "/dump/plan.textproto";
  EXPECT_THAT(ReadFile(plan), HasSubstr("batch: 16"));
  EXPECT_THAT(ReadFile(stated + "/dump/plan.textproto"), Not(HasSubstr("batch: 16")));
  EXPECT_EQ(ReadFile(searched + "/config.textproto"), ReadFile(stated + "/config.textproto"));
  ExpectSameMetrics(searched, stated);
  EXPECT_EQ(StateAndConfig(searched, 6), StateAndConfig(stated, 6));
  const std::string by_default = Trained(ByPlugin("most=16", {}));
  EXPECT_NE(Field(by_default, "loss"), Field(stated, "loss"));

  for (const std::vector<std::string>& batch :
       std::vector<std::vector<std::string>>{{}, {"--batch=16"}, {kSearch}}) {
    std::vector<std::string> flags = Flags(batch);
    flags.push_back("--plan=" + plan);
    const std::string replayed = Trained(flags);
    ExpectSameMetrics(replayed, stated);
    EXPECT_EQ(StateAndConfig(replayed, 6), StateAndConfig(stated, 6));
  }
  ExpectOneError(RunProgram(GptProgram(), Flags({"--plan=" + plan, "--batch=8"})),
                 "--batch is 8, and the Plan is for a batch of 16: leave out --batch");
}

TEST(DecidedBatchTest, AResumedRunKeepsItsBatch) {
  const std::string unbroken = Trained(ByPlugin("most=16", {"--batch=16"}));
  const std::string folder = Trained(ByPlugin("most=16", {kSearch, "--steps=3"}));
  const std::vector<std::string> resume = {"--resume=" + folder, "--nproc=2", "--threads=1"};
  const auto resumed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = resume;
    flags.insert(flags.end(), more.begin(), more.end());
    return RunProgram(GptProgram(), flags);
  };
  const Result kept = resumed({"--steps=6", kSearch});
  ASSERT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.out, HasSubstr("--batch=search is for a new run: this one keeps its batch of "
                                  "16"));
  EXPECT_EQ(Field(folder, "loss"), Field(unbroken, "loss"));
  EXPECT_EQ(ReadFile(folder + "/config.textproto"), ReadFile(unbroken + "/config.textproto"));
  // The saved Plan has the batch of the run until a flag sets another.
  const Result other = resumed({"--steps=8", "--batch=8"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("batch 16 -> 8"));
}

TEST(DecidedBatchTest, TheLimitOfMemoryBoundsTheBatch) {
  const auto planned = [](const std::vector<std::string>& more) {
    std::vector<std::string> flags = ByPlugin("most=4096", more);
    flags.push_back("--plan_only");
    return RunProgram(GptProgram(), flags);
  };
  const Result searched = planned({kSearch, "--memory_limit=1MiB"});
  ASSERT_EQ(searched.code, 0) << searched.err;
  int batch = 4;
  while (batch < 4096 &&
         planned({"--batch=" + std::to_string(2 * batch), "--memory_limit=1MiB"}).code == 0) {
    batch *= 2;
  }
  EXPECT_GT(batch, 4);
  EXPECT_LT(batch, 4096);
  EXPECT_THAT(searched.out, HasSubstr(std::to_string(batch) + " sequences of 16 "));
}

TEST(DecidedBatchTest, ABatchThatNothingDecidesIsTheDefault) {
  std::vector<std::string> flags = Flags({kSearch, "--strategy=ddp", "--steps=1"});
  flags.push_back("--out=" + NewFolder());
  const Result result = RunProgram(GptProgram(), flags);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: strategy ddp does not decide the batch: it is the "
                                    "default, 4; --batch=N sets another"));
  const Result alone = RunProgram(GptProgram(), Tiny({kSearch, "--plan_only"}));
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("note: no strategy decides the batch: it is the default, 4"));
}

TEST(DecidedBatchTest, ABatchThatDoesNotFitIsOneError) {
  const auto run = [](const std::string& options, const std::vector<std::string>& more) {
    std::vector<std::string> flags = ByPlugin(options, more);
    flags.push_back("--out=" + NewFolder());
    return RunProgram(GptProgram(), flags);
  };
  ExpectOneError(run("rows=-3", {kSearch}),
                 "strategy fills_memory: its Plan cannot be run: the Plan is for a batch of -3 "
                 "rows; it must be at least 1");
  ExpectOneError(run("rows=9", {kSearch, "--micro_batches=2"}),
                 "strategy fills_memory: its Plan cannot be run: micro_batches is 2: it must "
                 "divide batch, which is 9");
  ExpectOneError(run("rows=9,micro_batches=4", {kSearch}),
                 "strategy fills_memory: its Plan cannot be run: micro_batches is 4: it must "
                 "divide batch, which is 9");
  ExpectOneError(run("rows=1000000000", {kSearch}),
                 "strategy fills_memory: its Plan cannot be run: batch times sequence is "
                 "1000000000 times 16: it must be below 2^31 tokens");
  ExpectOneError(run("rows=9", {}),
                 "strategy fills_memory: its Plan is for a batch of 9 rows, but the run has 4: "
                 "set --batch=9");
  ExpectOneError(run("rows=9", {"--batch=many"}),
                 "--batch: 'many' is neither a whole number that fits nor search");
}

// Rows need not divide among the ranks, as without --batch=search.
TEST(DecidedBatchTest, AnUnevenBatchTrainsAndAnIdleRankIsNoted) {
  const std::string decided = Trained(ByPlugin("rows=9", {kSearch}));
  ExpectSameMetrics(decided, Trained(ByPlugin("rows=9", {"--batch=9"})));
  // Also with micro-batches that do not divide the default batch.
  ExpectSameMetrics(Trained(ByPlugin("rows=9,micro_batches=3", {kSearch})),
                    Trained(ByPlugin("rows=9,micro_batches=3", {"--batch=9"})));
  std::vector<std::string> flags = ByPlugin("rows=1", {kSearch, "--plan_only"});
  const Result idle = RunProgram(GptProgram(), flags);
  ASSERT_EQ(idle.code, 0) << idle.err;
  EXPECT_THAT(idle.out, HasSubstr("the batch has 1 row for 2 ranks, and 1 of them have nothing to "
                                  "compute"));
}

TEST(DecidedBatchTest, AConfigurationFileMayLeaveTheBatchOpen) {
  const std::string file = NewFolder() + "/open.textproto";
  WriteFile(file, "batch: 4\nsearch_batch: true\n");
  const auto planned = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = ByPlugin("most=16", {"--config=" + file, "--plan_only"});
    flags.insert(flags.end(), more.begin(), more.end());
    return RunProgram(GptProgram(), flags).out;
  };
  EXPECT_THAT(planned({}), HasSubstr("16 sequences of 16 "));
  EXPECT_THAT(planned({"--batch=8"}), HasSubstr("8 sequences of 16 "));
}

}  // namespace
}  // namespace tessera
