// Complete runs of the real program: their output and their run folder.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

TEST(TrainTest, ARunTrainsEvaluatesSavesAndSamples) {
  const std::string folder = NewFolder() + "/run";
  const Result result = RunProgram(
      GptProgram(), Tiny({"--out=" + folder, "--steps=60", "--lr=0.01", "--save_every=20",
                          "--eval_every=30", "--sample_tokens=24", "--prompt=Line "}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("run folder: " + folder + "\n"));
  EXPECT_THAT(result.out, HasSubstr("gpt: 3.06K parameters, 4 sequences of 16 tokens a step"));
  EXPECT_THAT(result.out, HasSubstr("step  1/60 | loss "));
  EXPECT_THAT(result.out, HasSubstr("step 60/60 | loss "));
  EXPECT_THAT(result.out, ContainsRegex("\\| MFU +[0-9.]+% \\| +[0-9.]+% of limit \\| "));
  EXPECT_THAT(result.out, HasSubstr("step 30: eval_loss "));
  EXPECT_THAT(result.out, HasSubstr("step 60: eval_loss "));
  EXPECT_THAT(result.out, HasSubstr("\nLine "));
  // The last line of the output to a pipe names the run folder.
  EXPECT_THAT(result.out.substr(result.out.size() - folder.size() - 14),
              HasSubstr("run folder: " + folder));

  EXPECT_THAT(Checkpoints(folder), ElementsAre("step_00000060", "step_00000040", "step_00000020"));
  const std::vector<nlohmann::json> metrics = Metrics(folder);
  ASSERT_EQ(metrics.size(), 60);
  for (int i = 0; i < 60; ++i) {
    const nlohmann::json& line = metrics[i];
    EXPECT_EQ(line["step"], i + 1);
    for (const char* field :
         {"loss", "grad_norm", "lr", "step_seconds", "tokens_per_second", "mfu", "peak_bytes"}) {
      EXPECT_TRUE(line[field].is_number()) << field;
      EXPECT_GT(line[field], 0) << field;
    }
    EXPECT_EQ(line.contains("eval_loss"), i == 29 || i == 59);
  }
  EXPECT_NEAR(metrics[0]["loss"], std::log(256), 0.3);
  EXPECT_LT(metrics[59]["loss"], 4.5) << "it learns";
  EXPECT_LT(metrics[59]["eval_loss"], metrics[29]["eval_loss"]);
}

TEST(TrainTest, APipeGetsPlainLinesAndNotTooMany) {
  const Result result =
      RunProgram(GptProgram(), Tiny({"--out=" + NewFolder(), "--steps=2000", "--lr=0.001"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("\r")));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  size_t lines = 0;
  for (size_t at = 0; (at = result.out.find("| loss ", at)) != std::string::npos; ++at) ++lines;
  EXPECT_GE(lines, 2);
  EXPECT_LT(lines, 100) << "every step is in metrics.jsonl, not on the screen";
}

TEST(TrainTest, WithoutOutEachRunHasAFolderOfItsOwn) {
  const std::string user = NewFolder();
  RunOptions options;
  options.environment["BUILD_WORKING_DIRECTORY"] = user;
  WriteFile(user + "/mine.txt", ReadFile(TextFile()));
  std::vector<std::string> flags = TinyFlags();
  flags.insert(flags.end(), {"--data=mine.txt", "--steps=1"});
  for (int runs = 1; runs <= 2; ++runs) {
    const Result result = RunProgram(GptProgram(), flags, options);
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("run folder: " + user + "/runs/gpt-"));
    int folders = 0;
    for (const auto& entry : std::filesystem::directory_iterator(user + "/runs")) {
      ++folders;
      EXPECT_THAT(entry.path().filename().string(),
                  ::testing::MatchesRegex("gpt-[0-9]+-[0-9]+(-2)?"));
      EXPECT_THAT(ReadFile(entry.path().string() + "/config.textproto"),
                  HasSubstr("file: \"" + user + "/mine.txt\""));
    }
    EXPECT_EQ(folders, runs);
  }
}

TEST(TrainTest, FieldsAreSetByNameAndWrittenOut) {
  const std::string folder = NewFolder();
  const std::string config = folder + "/my.textproto";
  WriteFile(config,
            "batch: 3\nmodel { [type.googleapis.com/tessera.GptConfig] { dropout: 0.5 } }\n");
  std::vector<std::string> flags = {"--config=" + config};
  for (const std::string& flag : TinyFlags()) {
    if (flag != "--batch=4") flags.push_back(flag);
  }
  flags.insert(flags.end(),
               {"--data=" + TextFile(), "--out=" + folder + "/run", "--steps=2",
                "--set=optimizer.lr=0.25,model.channels=4", "--set=sample.prompt=Well"});
  const Result result = RunProgram(GptProgram(), flags);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(ReadFile(folder + "/run/config.textproto"),
              AllOf(HasSubstr("batch: 3\n"), HasSubstr("    dropout: 0.5\n"),
                    HasSubstr("    channels: 4\n"), HasSubstr("  lr: 0.25\n"),
                    HasSubstr("  prompt: \"Well\"\n"), HasSubstr("memory_limit: \"\"\n")));

  // The same configuration results in the same run.
  const Result again = RunProgram(
      GptProgram(), {"--config=" + folder + "/run/config.textproto", "--out=" + folder + "/again"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(FilesIn(folder + "/run/checkpoints/step_00000002"),
            FilesIn(folder + "/again/checkpoints/step_00000002"));
}

TEST(TrainTest, ListsAreSetWithSemicolons) {
  const std::string folder = NewFolder();
  const Result result = RunProgram(
      MlpProgram(), {"--set=model.hidden=[12;6],model.window=4,model.channels=3", "--sequence=4",
                     "--batch=8", "--steps=3", "--threads=1", "--data=" + TextFile(),
                     "--sample_tokens=5", "--prompt=a", "--out=" + folder});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(ReadFile(folder + "/config.textproto"), HasSubstr("    hidden: [12, 6]\n"));
  EXPECT_THAT(result.out, HasSubstr("mlp: "));
  EXPECT_THAT(result.out, HasSubstr("\na"));
}

TEST(TrainTest, EveryDeviceOptimizerAndWayToSaveMemory) {
  const std::string folder = NewFolder();
  const auto loss_of = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--out=" + folder + "/" + name, "--steps=5", "--lr=0.01"};
    flags.insert(flags.end(), more.begin(), more.end());
    const Result result = RunProgram(GptProgram(), Tiny(flags));
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? Metrics(folder + "/" + name).back()["loss"].get<double>() : 0;
  };
  const double plain = loss_of("plain", {});
  EXPECT_NEAR(loss_of("reference", {"--device=reference"}), plain, 1e-4);
  EXPECT_NEAR(loss_of("saving", {"--recompute=block", "--micro_batches=4"}), plain, 1e-4);
  const double bf16 = loss_of("bf16", {"--dtype=bf16", "--recompute=block", "--micro_batches=2"});
  EXPECT_NEAR(bf16, plain, 1e-2);
  EXPECT_NE(bf16, plain);
  EXPECT_NEAR(loss_of("f16", {"--dtype=f16"}), plain, 1e-2);
  EXPECT_NE(loss_of("sgd", {"--optimizer=sgd", "--clip_norm=0"}), plain);
}

// A checkpoint holds masters, so a run of any dtype can continue from it. For f16 it also holds the
// loss scale.
TEST(TrainTest, ARunIsContinuedInAnotherDtype) {
  const std::vector<std::string> dtypes = {"f32", "bf16", "f16"};
  const std::string folder = NewFolder();
  const auto run = [](const std::vector<std::string>& flags) {
    Result result = RunProgram(GptProgram(), flags);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  };
  run(Tiny({"--out=" + folder + "/unbroken", "--steps=10", "--lr=0.01"}));
  const double expected = Metrics(folder + "/unbroken").back()["loss"];
  for (const std::string& first : dtypes) {
    run(Tiny({"--out=" + folder + "/" + first, "--steps=5", "--lr=0.01", "--dtype=" + first}));
    for (const std::string& second : dtypes) {
      std::string own = folder;
      own.append("/").append(first).append("_").append(second);
      const Result resumed = run(
          {"--resume=" + folder + "/" + first, "--out=" + own, "--dtype=" + second, "--steps=10"});
      const bool begins =
          resumed.out.find("note: the checkpoint has no loss scale") != std::string::npos;
      EXPECT_EQ(begins, first != "f16" && second == "f16") << own;
      EXPECT_NEAR(Metrics(own).back()["loss"].get<double>(), expected, 1e-2) << own;
    }
  }
}

TEST(TrainTest, PlanOnlyRunsNothing) {
  const std::string folder = NewFolder();
  RunOptions options;
  options.environment["BUILD_WORKING_DIRECTORY"] = folder;
  const Result result = RunProgram(GptProgram(), Tiny({"--plan_only"}), options);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("3.06K parameters"), HasSubstr("FLOP"), HasSubstr("\nactivations "),
                    HasSubstr("\nworkspace "), ContainsRegex("peak .* \\([0-9]+ bytes\\)"),
                    HasSubstr("fits in this machine")));
  EXPECT_TRUE(std::filesystem::is_empty(folder));

  // 13 billion parameters can be planned on a machine that cannot hold them.
  const Result large = RunProgram(GptProgram(), {"--preset=gpt3_13b", "--batch=1", "--plan_only"});
  ASSERT_EQ(large.code, 0) << large.err;
  EXPECT_THAT(large.out, HasSubstr("12.9B parameters"));
}

TEST(TrainTest, DumpsAndTraces) {
  const std::string folder = NewFolder();
  const Result result = RunProgram(
      GptProgram(), Tiny({"--out=" + folder, "--dump=graph,plan,program,memory", "--steps=4",
                          "--trace=" + folder + "/trace.json", "--check_memory"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(FilesIn(folder + "/dump"),
              AllOf(Contains(Key("graph-train.txt")), Contains(Key("program-train.txt")),
                    Contains(Key("program-evaluate.txt")), Contains(Key("plan.textproto")),
                    Contains(Key("memory.txt"))));
  EXPECT_THAT(ReadFile(folder + "/dump/graph-train.txt"), HasSubstr("blocks.0.attn.qkv.weight"));
  EXPECT_THAT(result.out, HasSubstr("memory checked"));
  EXPECT_THAT(result.out, HasSubstr("step 3: traced to " + folder + "/trace.json"));
  EXPECT_THAT(result.out, HasSubstr("of the step outside of kernels"));
  const nlohmann::json trace = nlohmann::json::parse(ReadFile(folder + "/trace.json"));
  int slices = 0;
  for (const auto& event : trace["traceEvents"]) slices += event["ph"] == "X" ? 1 : 0;
  EXPECT_GT(slices, 50);

  // Traces and dumps change nothing.
  const std::string plain = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=" + plain, "--steps=4"})).code, 0);
  EXPECT_EQ(FilesIn(folder + "/checkpoints/step_00000004"),
            FilesIn(plain + "/checkpoints/step_00000004"));
}

TEST(TrainTest, SyntheticDataNeedsNoFile) {
  std::vector<std::string> flags = TinyFlags();
  const std::string folder = NewFolder();
  flags.insert(flags.end(), {"--data=synthetic", "--out=" + folder, "--sample_tokens=5"});
  const Result result = RunProgram(GptProgram(), flags);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: no sample"));
  EXPECT_NEAR(Metrics(folder).back()["loss"], std::log(256), 0.5);
}

TEST(TrainTest, WithoutDataItReadsTheCorpusThatComesWithIt) {
  const std::string folder = NewFolder();
  std::vector<std::string> flags = TinyFlags();
  flags.insert(flags.end(), {"--out=" + folder, "--steps=1"});
  const Result result = RunProgram(GptProgram(), flags);
  EXPECT_EQ(result.code, 0) << result.err;

  // A program that was moved finds the corpus beside itself, without Bazel's environment.
  const std::string elsewhere = NewFolder();
  std::filesystem::copy_file(GptProgram(), elsewhere + "/train");
  RunOptions options;
  options.folder = folder;
  for (const char* name : {"RUNFILES_DIR", "RUNFILES_MANIFEST_FILE", "TEST_SRCDIR"}) {
    options.environment[name] = "";
  }
  flags.back() = "--plan_only";
  const Result without = RunProgram(elsewhere + "/train", flags, options);
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.err, HasSubstr("name a text with --data=FILE"));
  std::filesystem::copy_file("third_party/bible_kjv/bible_kjv.txt", elsewhere + "/bible_kjv.txt");
  const Result with = RunProgram(elsewhere + "/train", flags, options);
  EXPECT_EQ(with.code, 0) << with.err;
}

TEST(TrainTest, HelpTeaches) {
  const Result result = RunProgram(GptProgram(), {"--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("Examples\n"), HasSubstr("--resume=my_run"),
                    HasSubstr("  --recompute=WHAT "), HasSubstr("with the model: tiny,")));
  EXPECT_LT(result.out.find("Examples"), result.out.find("--steps=N"));
  EXPECT_THAT(result.out, Not(HasSubstr("flagfile")));
}

}  // namespace
}  // namespace tessera
