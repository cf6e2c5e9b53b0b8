// Checks that no file and no folder of someone else decides which code runs: a Plan or a checkpoint
// that names a library by its path, and a working directory with files of the same names as the
// program's own. The library `leaves_a_mark` makes a file `mark` in the working directory when it
// is loaded, whatever it is asked for.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr char kHelper[] = "strategies/host/testing/leaves_a_mark.so";
constexpr char kIsLoaded[] = "is loaded from";

std::vector<std::string> With(std::vector<std::string> flags,
                              const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Returns the stage of a Plan with a pass of this plugin.
std::string StageOf(const std::string& plugin) {
  return "mesh { name: \"data\" } pass { plugin { name: \"" + plugin +
         "\" version: \"1.0\" pass: \"keep\" } }";
}

// A working directory in which someone has put the library under several names.
class ForeignPluginsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PutHelper("helper.so");
    PutHelper("helper/helper.so");
    PutHelper("../helper.so");
    options_.folder = here_;
  }

  void PutHelper(const std::string& name) const {
    fs::create_directories(fs::path(here_ + "/" + name).parent_path());
    fs::copy_file(kHelper, here_ + "/" + name);
  }
  bool WasLoaded() const { return fs::exists(here_ + "/mark"); }

  // The names by which a Plan could lead to the library, and the error of each.
  std::vector<std::pair<std::string, std::string>> HostileNames() const {
    constexpr char kNoPath[] = "a Plan names a plugin by its name and version, never by a path";
    return {{"helper.so", kNoPath},          {"./helper.so", kNoPath},
            {here_ + "/helper.so", kNoPath}, {"../helper", kNoPath},
            {"../helper.so", kNoPath},       {"helper/helper", kNoPath},
            {"", "lists pass 'keep'"},       {"helper", "is not installed"}};
  }

  // Runs the program in that folder, and expects that it refuses with one line what would load the
  // library.
  void ExpectRefused(const std::vector<std::string>& flags, const std::string& part) const {
    const Result result = RunProgram(GptProgram(), flags, options_);
    EXPECT_EQ(CountOf("error: ", result.err), 1) << result.err;
    ExpectOneError(result, part);
    EXPECT_FALSE(WasLoaded());
  }

  const std::string here_ = NewFolder() + "/here";
  RunOptions options_;
};

// Regression: the library was loaded, before anything was checked.
TEST_F(ForeignPluginsTest, APlanLoadsNoLibraryByItsPath) {
  for (const auto& [name, error] : HostileNames()) {
    SCOPED_TRACE("'" + name + "'");
    const std::vector<std::string> flags = Tiny({"--plan=" + PlanFile(StageOf(name)), "--out=run"});
    ExpectRefused(flags, error);
    ExpectRefused(With(flags, {"--nproc=2"}), error);
    ExpectRefused(With(flags, {"--plan_only"}), error);
    ExpectRefused(With(flags, {"--plan_only", "--ranks=2"}), error);
  }
  EXPECT_FALSE(fs::exists(here_ + "/run"));
}

// A checkpoint of step 10 whose Plan someone has changed, with checksums that match.
TEST_F(ForeignPluginsTest, ACheckpointLoadsNoLibraryByItsPath) {
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--out=run", "--steps=10"}), options_).code, 0);
  const std::string folder = here_ + "/run/checkpoints/step_00000010/";
  const std::string plan = ReadFile(folder + "plan.textproto");
  const auto parsed = ParseManifest(ReadFile(folder + "manifest.json"));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  for (const auto& [name, error] : HostileNames()) {
    SCOPED_TRACE("'" + name + "'");
    std::string text = plan;
    const std::string stage = "stages {";
    ASSERT_NE(text.find(stage), std::string::npos);
    text.insert(text.find(stage) + stage.size(), " " + StageOf(name));
    WriteFile(folder + "plan.textproto", text);
    Manifest manifest = *parsed;
    for (Manifest::File& file : manifest.files) {
      const std::string contents = ReadFile(folder + file.name);
      file.bytes = static_cast<int64_t>(contents.size());
      file.checksum = ChecksumOf(contents);
    }
    WriteFile(folder + "manifest.json", ManifestToText(manifest));
    for (const char* flag : {"--steps=20", "--plan_only", "--mode=sample", "--mode=evaluate"}) {
      SCOPED_TRACE(flag);
      ExpectRefused({"--resume=run", flag}, error);
    }
  }
}

// Regression: a program whose name the shell finds in $PATH took its plugins and its data from
// folders below the working directory.
TEST_F(ForeignPluginsTest, TheWorkingDirectoryHasNoFilesOfTheProgram) {
  constexpr char kCorpus[] = "third_party/bible_kjv/bible_kjv.txt";
  const std::string installed = NewFolder(), own = installed + "/train.runfiles/tessera/";
  fs::copy_file(GptProgram(), installed + "/train");
  for (const char* file : {"strategies/ddp/ddp.so", kCorpus}) {
    fs::create_directories(fs::path(own + file).parent_path());
    fs::copy_file(file, own + file);
  }
  const std::string other = "train.runfiles/tessera/";
  PutHelper(other + "strategies/ddp/ddp.so");
  PutHelper(other + "strategies/helper/helper.so");
  fs::create_directories(fs::path(here_ + "/" + other + kCorpus).parent_path());
  WriteFile(here_ + "/" + other + kCorpus, ReadFile(TextFile()));
  fs::copy_file(here_ + "/" + other + kCorpus, here_ + "/bible_kjv.txt");

  const auto run = [&](const std::string& command) {
    std::string line =
        "unset RUNFILES_DIR RUNFILES_MANIFEST_FILE; PATH=" + installed + ":$PATH; exec " + command;
    for (const std::string& flag : TinyFlags()) line += " '" + flag + "'";
    return RunProgram("/bin/sh", {"-c", line + " --steps=1"}, options_);
  };
  const std::string launch = fs::absolute("tools/launch/launch").string() + " --nproc=2 ";
  for (const std::string& command :
       {std::string("train --out=alone --strategy=ddp"), std::string("train --out=ranks --nproc=2"),
        launch + "train --out=launched"}) {
    const Result result = run(command);
    EXPECT_EQ(result.code, 0) << command << "\n" << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr(kIsLoaded)));
  }
  for (const char* folder : {"/alone", "/ranks", "/launched"}) {
    const auto manifest =
        ParseManifest(ReadFile(here_ + folder + "/checkpoints/step_00000001/manifest.json"));
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_THAT(manifest->data, HasSubstr(" " + std::to_string(fs::file_size(kCorpus)) + " bytes"));
  }
  EXPECT_THAT(run("train --out=run --nproc=2 --strategy=helper").err,
              HasSubstr("there is no strategy 'helper'"));
  EXPECT_FALSE(WasLoaded());
}

// A plugin that the user has installed does what it did, and a line says where it is.
TEST_F(ForeignPluginsTest, AnInstalledPluginOfAPlanIsLoadedAndNamed) {
  const std::string installed = fs::canonical(NewFolder()).string();
  fs::copy_file(kHelper, installed + "/helper.so");
  options_.environment["TESSERA_STRATEGY_PATH"] = installed;
  const std::string note = "note: strategy helper 1.0 is loaded from " + installed + "/helper.so\n";
  const auto train = [&](const std::string& folder, const std::vector<std::string>& more) {
    const Result result = RunProgram(
        GptProgram(), With(Tiny({"--nproc=2", "--steps=10", "--out=" + folder}), more), options_);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(CountOf(note, result.out), 1) << result.out;
    EXPECT_TRUE(WasLoaded());
  };
  train("made", {"--strategy=helper", "--dump=plan"});
  const std::string plan = here_ + "/made/dump/plan.textproto";
  EXPECT_THAT(ReadFile(plan), HasSubstr("name: \"helper\""));
  fs::remove(here_ + "/mark");
  train("replayed", {"--plan=" + plan});
  EXPECT_EQ(Field(here_ + "/replayed", "loss"), Field(here_ + "/made", "loss"));
  fs::remove(here_ + "/mark");
  const Result resumed = RunProgram(
      GptProgram(), {"--resume=replayed", "--steps=12", "--nproc=2", "--threads=1"}, options_);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(CountOf(note, resumed.out), 1) << resumed.out;
  const Result planned = RunProgram(
      GptProgram(), Tiny({"--plan_only", "--ranks=2", "--strategy=" + installed + "/helper.so"}),
      options_);
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(CountOf(note, planned.out), 1) << planned.out;
  // Another version is not that of the Plan.
  std::string text = ReadFile(plan);
  const std::string version = "version: \"1.0\"";
  WriteFile(plan, text.replace(text.find(version), version.size(), "version: \"2.0\""));
  ExpectOneError(
      RunProgram(GptProgram(), Tiny({"--nproc=2", "--out=run", "--plan=" + plan}), options_),
      "the Plan was made with version '2.0' of strategy helper");
}

TEST_F(ForeignPluginsTest, APluginInAFolderThatEveryUserCanWriteIsRefused) {
  const std::string open = fs::canonical(NewFolder()).string() + "/open";
  fs::create_directory(open);
  fs::copy_file(kHelper, open + "/helper.so");
  fs::permissions(open, fs::perms::all);
  options_.environment["TESSERA_STRATEGY_PATH"] = open;
  const std::string error = "every user can change the folder " + open;
  for (const std::string& flag :
       {"--strategy=" + open + "/helper.so", std::string("--strategy=helper"),
        "--plan=" + PlanFile(StageOf("helper"))}) {
    SCOPED_TRACE(flag);
    ExpectRefused(Tiny({"--nproc=2", "--out=run", flag}), error);
    ExpectRefused(Tiny({"--plan_only", "--ranks=2", flag}), error);
  }
}

}  // namespace
}  // namespace tessera
