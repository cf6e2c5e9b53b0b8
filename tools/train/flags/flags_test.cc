#include "tools/train/flags/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "core/train/config/testing/test_model.pb.h"
#include "tools/train/flags/help.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelDefinition TestModel() {
  ModelDefinition model;
  model.name = "test";
  model.default_config = &TestModelConfig::default_instance();
  model.presets = {{"small", "steps: 17 optimizer { lr: 0.25 }"}, {"large", ""}};
  model.example = "model.layers=6";
  return model;
}

class FlagsTest : public ::testing::Test {
 protected:
  static CommandLine Parse(const std::vector<std::string>& arguments) {
    const auto line = ParseCommandLine(arguments, TestModel());
    EXPECT_TRUE(line.ok()) << line.status();
    return line.ok() ? *line : CommandLine();
  }
  static std::string Error(const std::vector<std::string>& arguments) {
    const auto line = ParseCommandLine(arguments, TestModel());
    EXPECT_FALSE(line.ok());
    return absl::StrCat(line.status().message());
  }

 private:
  absl::FlagSaver saver_;  // each test starts with the defaults
};

TEST_F(FlagsTest, AllWaysToWriteAFlag) {
  const CommandLine line = Parse({"--preset=tiny", "--out", "a folder", "-trace=t.json",
                                  "--plan_only", "--nocheck_memory", "--dump=graph,memory"});
  EXPECT_EQ(line.preset, "tiny");
  EXPECT_EQ(line.out, "a folder");
  EXPECT_EQ(line.trace, "t.json");
  EXPECT_TRUE(line.plan_only);
  EXPECT_FALSE(line.check_memory);
  EXPECT_THAT(line.dump, ElementsAre("graph", "memory"));
  EXPECT_EQ(line.mode, Mode::kTrain);
}

TEST_F(FlagsTest, FlagsThatAreFieldsComeBehindSet) {
  const CommandLine line =
      Parse({"--lr=1e-3", "--set=model.hidden=[64;32],steps=4", "--steps=5", "--set=batch=2"});
  std::vector<std::string> settings;
  for (const FieldSetting& setting : line.settings) {
    settings.push_back(setting.source + " " + setting.path + " " + setting.value);
  }
  EXPECT_THAT(settings, ElementsAre("--set model.hidden [64;32]", "--set steps 4", "--set batch 2",
                                    "--lr optimizer.lr 1e-3", "--steps steps 5"));
}

TEST_F(FlagsTest, ModesNeedARun) {
  EXPECT_EQ(Parse({"--mode=sample", "--resume=x"}).mode, Mode::kSample);
  EXPECT_THAT(Error({"--mode=evaluate", "--resume="}), HasSubstr("--mode=evaluate needs --resume"));
}

TEST_F(FlagsTest, PredictionsNeedAModeThatMakesThem) {
  EXPECT_EQ(Parse({"--mode=evaluate", "--resume=x", "--predictions=f"}).predictions, "f");
  EXPECT_EQ(Parse({"--mode=predict", "--resume=x", "--data=d"}).mode, Mode::kPredict);
  EXPECT_THAT(Error({"--mode=train", "--predictions=f"}),
              HasSubstr("is for --mode=evaluate and --mode=predict"));
  EXPECT_THAT(Error({"--mode=sample", "--resume=x", "--predictions=f"}),
              HasSubstr("is for --mode=evaluate and --mode=predict"));
}

TEST_F(FlagsTest, PredictionsAreOfData) {
  EXPECT_THAT(Error({"--mode=predict", "--resume=x"}), HasSubstr("needs --data=FILE"));
}

TEST_F(FlagsTest, EpochsAreTheLengthOfARunInsteadOfSteps) {
  EXPECT_EQ(Parse({}).epochs, 0);
  EXPECT_EQ(Parse({"--epochs=3"}).epochs, 3);
  EXPECT_EQ(Error({"--epochs=-1"}), "--epochs is -1: it must be 1 or more");
  EXPECT_THAT(Error({"--epochs=3", "--steps=4"}), HasSubstr("exclude each other"));
  EXPECT_THAT(Error({"--epochs=3", "--set=steps=4"}), HasSubstr("exclude each other"));
  EXPECT_THAT(Error({"--epochs=3", "--mode=evaluate", "--resume=x"}), HasSubstr("leave it out"));
}

TEST_F(FlagsTest, ErrorsNameTheFlag) {
  EXPECT_EQ(Error({"--stepps=3"}),
            "there is no flag '--stepps'; did you mean 'steps'? (see --help)");
  EXPECT_THAT(Error({"train"}), HasSubstr("'train' is no flag"));
  EXPECT_THAT(Error({"--steps"}), HasSubstr("--steps needs a value: --steps=N"));
  EXPECT_EQ(Error({"--steps=many"}), "--steps: 'many' is not a whole number that fits");
  EXPECT_EQ(Error({"--lr=fast"}), "--lr: 'fast' is not a number");
  EXPECT_EQ(Error({"--plan_only=perhaps"}), "--plan_only: 'perhaps' is not true or false");
  EXPECT_THAT(Error({"--mode=dream"}), HasSubstr("none of train, evaluate, predict and sample"));
  EXPECT_THAT(Error({"--dump=grap"}), HasSubstr("did you mean 'graph'?"));
  EXPECT_THAT(Error({"--set=steps"}), HasSubstr("--set: 'steps' is not FIELD=VALUE"));
  EXPECT_THAT(Error({"--dump=plan", "--preset=a", "--resume=b"}), HasSubstr("exclude each other"));
}

TEST_F(FlagsTest, NamesOfOtherToolsAreAliases) {
  const CommandLine line =
      Parse({"--batch_size=3", "--learning_rate", "0.5", "--grad_clip=2", "--seq_len=8",
             "--block_size=9", "--max_iters=10", "--output_dir=here"});
  std::vector<std::string> settings;
  for (const FieldSetting& setting : line.settings) {
    settings.push_back(setting.source + " " + setting.path + " " + setting.value);
  }
  EXPECT_THAT(settings, ElementsAre("--batch batch 3", "--lr optimizer.lr 0.5",
                                    "--clip_norm optimizer.clip_norm 2", "--sequence sequence 8",
                                    "--sequence sequence 9", "--steps steps 10"));
  EXPECT_EQ(line.out, "here");
}

TEST_F(FlagsTest, OtherNamesGetAHint) {
  EXPECT_EQ(Error({"--layers=3"}),
            "there is no flag '--layers': it is a field of the configuration, "
            "--set=model.layers=VALUE (see --help)");
  EXPECT_THAT(Error({"--warmup_steps=3"}), HasSubstr("--set=optimizer.warmup_steps=VALUE"));
  EXPECT_THAT(Error({"--dropout", "0.1"}), HasSubstr("--set=model.dropout=VALUE"));
  EXPECT_THAT(Error({"--keep_checkpoints=3"}), HasSubstr("--set=keep_checkpoints=VALUE"));
  EXPECT_THAT(Error({"--gradient_accumulation_steps=3"}),
              HasSubstr("--micro_batches=N splits the --batch sequences"));
  EXPECT_THAT(Error({"--n_layer=3"}), HasSubstr("--set=model.layers=VALUE"));
  EXPECT_THAT(Error({"--warmup-iters=3"}), HasSubstr("--set=optimizer.warmup_steps=VALUE"));
}

TEST_F(FlagsTest, NamesMayHaveDashes) {
  const CommandLine line = Parse({"--batch-size=3", "--eval-interval", "5", "--no-plan-only"});
  ASSERT_EQ(line.settings.size(), 2);
  EXPECT_EQ(line.settings[0].path, "batch");
  EXPECT_EQ(line.settings[1].path, "eval_every");
  EXPECT_FALSE(line.plan_only);
}

TEST_F(FlagsTest, TheBatchIsANumberOrSearched) {
  EXPECT_EQ(Parse({"--batch=search"}).settings[0].value, "search");
  for (const char* batch : {"many", "3.5", "99999999999999999999", ""}) {
    EXPECT_EQ(
        Error({absl::StrCat("--batch=", batch)}),
        absl::StrCat("--batch: '", batch, "' is neither a whole number that fits nor search"));
  }
}

TEST_F(FlagsTest, RanksGetTheArgumentsButThoseOfTheirLauncher) {
  const CommandLine line =
      Parse({"--nproc", "3", "-steps=5", "--max_restarts=2", "--nocheck_memory", "--set=a=b,c=d",
             "--batch_size", "4", "--grace=1", "--backend=tcp", "--plan=p"});
  EXPECT_EQ(line.launch.nproc, 3);
  EXPECT_EQ(line.launch.max_restarts, 2);
  EXPECT_EQ(line.launch.times.grace, std::chrono::seconds(1));
  EXPECT_THAT(line.launch.arguments,
              ElementsAre("--steps=5", "--check_memory=false", "--set=a=b,c=d", "--batch=4",
                          "--backend=tcp", "--plan=p"));
  EXPECT_EQ(line.world.backend, "tcp");
  EXPECT_EQ(line.plan, "p");
  EXPECT_EQ(Parse({"--steps=5", "--nproc=1"}).launch.nproc, 1);
}

TEST_F(FlagsTest, RanksAreStartedOrPlanned) {
  EXPECT_EQ(Parse({"--plan_only", "--ranks=64"}).ranks, 64);
  EXPECT_EQ(Parse({"--plan_only", "--nproc=8"}).launch.nproc, 8);
  EXPECT_THAT(Error({"--plan_only", "--ranks=8,64"}), HasSubstr("a run has one number of ranks"));
  EXPECT_THAT(Error({"--plan_only", "--ranks=many"}), HasSubstr("--ranks=many: it must be from 1"));
  EXPECT_THAT(Error({"--plan_only", "--ranks=0"}), HasSubstr("--ranks=0: it must be from 1 to"));
  EXPECT_THAT(Error({"--ranks=2", "--noplan_only"}), HasSubstr("--ranks=N is for --plan_only"));
  EXPECT_THAT(Error({"--plan_only", "--ranks=2", "--nproc=2"}), HasSubstr("exclude each other"));
  EXPECT_THAT(Error({"--ranks=-1", "--nproc=2"}), HasSubstr("--ranks=-1: it must be from 1 to"));
}

TEST_F(FlagsTest, HelpShowsDefaults) {
  const std::string help = HelpText("train", TestModel());
  EXPECT_THAT(help, HasSubstr("(default 17)"));    // steps, of the preset
  EXPECT_THAT(help, HasSubstr("(default 0.25)"));  // lr
  EXPECT_THAT(help, HasSubstr("(default adamw)"));
  EXPECT_THAT(help, HasSubstr("% of limit"));
  EXPECT_THAT(help, HasSubstr("--set=model.layers=6"));
}

TEST_F(FlagsTest, HelpKnowsEveryFlagAndOnlyOurs) {
  const std::string help = HelpText("train", TestModel());
  int ours = 0;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    bool of_this_tool = false;
    for (const char* folder : {"tools/train/", "tools/launch/", "tools/world_flags/"}) {
      of_this_tool = of_this_tool || flag->Filename().find(folder) != std::string::npos;
    }
    ours += of_this_tool ? 1 : 0;
    EXPECT_EQ(help.find("  --" + std::string(name) + " ") != std::string::npos ||
                  help.find("  --" + std::string(name) + "=") != std::string::npos,
              of_this_tool)
        << name;
  }
  EXPECT_GT(ours, 25);
  EXPECT_THAT(help, HasSubstr("with the model: small,\n"));
  EXPECT_TRUE(Parse({"--steps=3", "--help", "--nonsense"}).help);
  EXPECT_TRUE(Parse({"--steps=3", "--version", "--nonsense"}).version);
}

}  // namespace
}  // namespace tessera
