// Checks resumed runs and evaluations with changed data: rewritten, longer, or another file.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/train/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

constexpr char kNotTheSame[] =
    "the data is not what the checkpoint was trained on: that was text of ";

// A run of 20 steps on a text of its own.
class ChangedDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteFile(data_, ReadFile(TextFile()));
    ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--data=" + data_, "--out=" + run_})).code, 0);
  }

  Result Resume(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--resume=" + run_, "--steps=25"};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunProgram(GptProgram(), flags);
  }

  void ExpectRefused(const Result& result) {
    EXPECT_EQ(result.code, 1) << result.out;
    EXPECT_THAT(result.err, StartsWith(std::string("error: ") + kNotTheSame));
    EXPECT_THAT(result.err, HasSubstr("--allow_changed_data"));
    EXPECT_EQ(Metrics(run_).size(), 20);
  }

  const std::string folder_ = NewFolder();
  const std::string data_ = folder_ + "/data.txt";
  const std::string run_ = folder_ + "/run";
};

TEST_F(ChangedDataTest, RewrittenAtTheSameSizeItIsRefusedAtResume) {
  std::string text = ReadFile(data_);
  text[text.size() / 2] ^= 1;
  WriteFile(data_, text);
  ExpectRefused(Resume());
  const Result allowed = Resume({"--allow_changed_data"});
  ASSERT_EQ(allowed.code, 0) << allowed.err;
  EXPECT_THAT(allowed.out, HasSubstr(std::string("note: ") + kNotTheSame));
  EXPECT_EQ(Metrics(run_).size(), 25);
  // The new checkpoint has the fingerprint of the new data.
  const Result again = Resume({"--steps=30"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, Not(HasSubstr(kNotTheSame)));
}

TEST_F(ChangedDataTest, OfAnotherSizeItIsRefusedAtResume) {
  WriteFile(data_, ReadFile(data_) + "One more line.\n");
  ExpectRefused(Resume());
}

TEST_F(ChangedDataTest, AnotherFileIsRefusedAndTheSameElsewhereIsNot) {
  WriteFile(folder_ + "/other.txt", ReadFile(data_) + "One more line.\n");
  ExpectRefused(Resume({"--data=" + folder_ + "/other.txt"}));
  ExpectRefused(Resume({"--data=synthetic"}));
  fs::rename(data_, folder_ + "/moved.txt");
  const Result moved = Resume({"--data=" + folder_ + "/moved.txt"});
  EXPECT_EQ(moved.code, 0) << moved.err;
}

TEST_F(ChangedDataTest, EvaluationSaysSo) {
  WriteFile(data_, ReadFile(data_) + "One more line.\n");
  const Result result = RunProgram(GptProgram(), {"--resume=" + run_, "--mode=evaluate"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(std::string("note: ") + kNotTheSame));
}

TEST_F(ChangedDataTest, ACheckpointWithoutAFingerprintIsResumedWithANote) {
  const std::string path = run_ + "/checkpoints/" + Checkpoints(run_)[0] + "/manifest.json";
  auto manifest = ParseManifest(ReadFile(path));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_THAT(manifest->data, StartsWith("text of "));
  manifest->data = "";
  WriteFile(path, ManifestToText(*manifest));
  const Result result = Resume();
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: the checkpoint is of an older version and holds no "
                                    "fingerprint of its data: whether it was trained on " +
                                    data_ + ", which is read now, is not known\n"));
}

// Regression: the steps since the last checkpoint were lost.
TEST_F(ChangedDataTest, ChangedWhileARunReadsItItEndsTheRunAfterASave) {
  const std::string text = ReadFile(data_);
  size_t last = 20;
  for (const bool truncates : {false, true}) {
    RunningProgram running(GptProgram(), {"--resume=" + run_, "--steps=1000000"});
    ASSERT_TRUE(running.WaitFor([&] { return Metrics(run_).size() > last + 5; })) << running.Err();
    if (truncates) {
      fs::resize_file(data_, 0);  // as cp does
    } else {
      std::fstream(data_, std::ios::binary | std::ios::in | std::ios::out) << "X";
    }
    ASSERT_FALSE(running.WaitFor([] { return false; }));
    const Result result = running.Wait();
    EXPECT_EQ(result.code, 1) << result.signal;
    EXPECT_THAT(result.err, HasSubstr("data.txt: the file was changed while it was in use"));
    last = Metrics(run_).size();
    EXPECT_THAT(result.err, HasSubstr("the last checkpoint is of step " + std::to_string(last) +
                                      ", " + run_ + "/checkpoints/" + Checkpoints(run_)[0] +
                                      ": resume with the former data"));
    WriteFile(data_, text);
  }
  // No step has seen the change.
  const std::string steps = "--steps=" + std::to_string(last + 5);
  ASSERT_EQ(Resume({steps}).code, 0);
  const std::string unbroken = NewFolder();
  ASSERT_EQ(RunProgram(GptProgram(), Tiny({"--data=" + data_, "--out=" + unbroken, steps})).code,
            0);
  EXPECT_EQ(Metrics(run_).back()["loss"], Metrics(unbroken).back()["loss"]);
}

// Nearly all of its time such a run evaluates.
TEST_F(ChangedDataTest, ChangedInAnEvaluationItEndsTheRunAfterASave) {
  RunningProgram running(GptProgram(), {"--resume=" + run_, "--steps=1000000",
                                        "--set=eval_batches=0", "--eval_every=1"});
  ASSERT_TRUE(running.WaitFor([&] { return Metrics(run_).size() > 25; })) << running.Err();
  std::fstream(data_, std::ios::binary | std::ios::in | std::ios::out) << "X";
  const Result result = running.Wait();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("data.txt: the file was changed while it was in use"));
  EXPECT_THAT(result.err,
              HasSubstr("the last checkpoint is of step " + std::to_string(Metrics(run_).size())));
}

}  // namespace
}  // namespace tessera
