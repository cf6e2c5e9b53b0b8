// Kernels that are chosen by measurement: what a user sees, and that runs repeat.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

// A model whose steps are just long enough for a choice to matter.
std::vector<std::string> Flags(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {
      "--set=model.layers=2,model.heads=4,model.channels=128,model.context=64",
      "--sequence=64",
      "--batch=16",
      "--threads=1",
      "--sample_tokens=0",
      "--steps=3",
      "--data=" + TextFile()};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

class KernelsTest : public ::testing::Test {
 protected:
  KernelsTest() { options_.environment["XDG_CACHE_HOME"] = NewFolder(); }

  std::string Path() const {
    return options_.environment.at("XDG_CACHE_HOME") + "/tessera/kernels.json";
  }
  Result Run(const std::vector<std::string>& more) const {
    Result result = RunProgram(GptProgram(), Flags(more), options_);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  }
  // Runs until a start finds the machine quiet. Returns false if it is busy all the time.
  bool RunUntilMeasured(const std::vector<std::string>& more, std::string* out) const {
    for (int i = 0; i < 3; ++i) {
      std::vector<std::string> flags = more;
      flags.push_back("--out=" + NewFolder() + "/run");
      *out = Run(flags).out;
      if (out->find("measured the kernels for") != std::string::npos) return true;
      EXPECT_THAT(*out, HasSubstr("other processes have used"));
      EXPECT_FALSE(fs::exists(Path())) << "figures of a busy machine are not kept";
    }
    return false;
  }

  RunOptions options_;
};

constexpr char kBusy[] = "other processes are busy, so no kernel is measured";

TEST_F(KernelsTest, ASecondStartMeasuresNothingAndRepeatsTheFirst) {
  std::string out;
  if (!RunUntilMeasured({}, &out)) GTEST_SKIP() << kBusy;
  EXPECT_THAT(out, HasSubstr("kept the times in " + Path()));
  const std::string file = ReadFile(Path());
  std::vector<std::string> losses;
  for (int i = 0; i < 2; ++i) {
    const std::string folder = NewFolder() + "/run";
    EXPECT_THAT(Run({"--out=" + folder}).out, Not(HasSubstr("measured the kernels")));
    std::string text;
    for (const nlohmann::json& line : Metrics(folder)) text += line["loss"].dump() + "\n";
    losses.push_back(text);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(ReadFile(Path()), file);
}

TEST_F(KernelsTest, AReplayedPlanAndAResumedRunKeepTheirKernels) {
  std::string out;
  if (!RunUntilMeasured({}, &out)) GTEST_SKIP() << kBusy;
  const std::string folder = NewFolder() + "/run";
  Run({"--out=" + folder, "--dump=plan"});
  const std::string losses = Metrics(folder).back()["loss"].dump();
  fs::remove(Path());
  const std::string replayed = NewFolder() + "/run";
  const Result replay =
      Run({"--out=" + replayed, "--plan=" + folder + "/dump/plan.textproto", "--dump=plan"});
  EXPECT_THAT(replay.out, Not(HasSubstr("measured the kernels")));
  EXPECT_EQ(Metrics(replayed).back()["loss"].dump(), losses);
  EXPECT_EQ(ReadFile(replayed + "/dump/plan.textproto"), ReadFile(folder + "/dump/plan.textproto"));
  const Result resumed = RunProgram(GptProgram(), {"--resume=" + folder, "--steps=5"}, options_);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, Not(HasSubstr("measured the kernels")));
}

TEST_F(KernelsTest, DefaultKernelsNeedNoFile) {
  const Result result = Run({"--kernels=default", "--out=" + NewFolder() + "/run"});
  EXPECT_THAT(result.out, Not(HasSubstr("kernels")));
  EXPECT_FALSE(fs::exists(Path()));
  const Result wrong = RunProgram(GptProgram(), Flags({"--kernels=fast"}), options_);
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("--kernels is 'fast': it must be measured or default"));
}

TEST_F(KernelsTest, ShortStepsAreNotMeasured) {
  const Result result = RunProgram(GptProgram(), Tiny({"--out=" + NewFolder() + "/run"}), options_);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("measured")));
  EXPECT_FALSE(fs::exists(Path()));
}

TEST_F(KernelsTest, PlanOnlySaysWhichKernelsAreMeasured) {
  const Result before = Run({"--plan_only"});
  EXPECT_THAT(before.out, ContainsRegex("\nkernels: measured for 0 of [0-9]+ requests "));
  EXPECT_FALSE(fs::exists(Path())) << "nothing is measured";
  std::string out;
  if (!RunUntilMeasured({}, &out)) GTEST_SKIP() << kBusy;
  EXPECT_THAT(Run({"--plan_only"}).out, ContainsRegex("\nkernels: measured for [1-9][0-9]* of "));
}

TEST_F(KernelsTest, AFileThatIsNoneIsReportedAndMadeAnew) {
  fs::create_directories(fs::path(Path()).parent_path());
  WriteFile(Path(), "{\"format\": 1, \"machi");
  std::string out;
  for (int i = 0; i < 3 && out.find("measured the kernels for") == std::string::npos; ++i) {
    out = Run({"--out=" + NewFolder() + "/run"}).out;
    EXPECT_THAT(out, HasSubstr(Path() + " is no file of kernel times: it is no JSON object: "
                                        "kernels are measured again"));
  }
  if (out.find("measured the kernels for") == std::string::npos) GTEST_SKIP() << kBusy;
  EXPECT_TRUE(nlohmann::json::parse(ReadFile(Path())).is_object());
}

TEST_F(KernelsTest, AFolderThatCannotBeWrittenIsReported) {
  options_.environment["XDG_CACHE_HOME"] = "/proc/none";
  const Result result = Run({"--out=" + NewFolder() + "/run"});
  if (result.out.find("other processes have used") != std::string::npos) GTEST_SKIP() << kBusy;
  EXPECT_THAT(result.out, HasSubstr("the next start measures again, because the times cannot be "
                                    "kept: "));
}

TEST_F(KernelsTest, RankZeroMeasuresForAll) {
  std::string out;
  if (!RunUntilMeasured({"--nproc=2"}, &out)) GTEST_SKIP() << kBusy;
  EXPECT_EQ(out.find("measured the kernels for"), out.rfind("measured the kernels for"));
  EXPECT_THAT(Run({"--nproc=2", "--out=" + NewFolder() + "/run"}).out,
              Not(HasSubstr("measured the kernels")));
}

}  // namespace
}  // namespace tessera
