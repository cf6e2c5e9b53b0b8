// Sharded checkpoints with wrong files or manifests, and incomplete saves: each gives an error of
// one line, and earlier checkpoints are unchanged.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRanks = 3;

std::string OneLine(const absl::Status& status, absl::StatusCode code) {
  EXPECT_EQ(status.code(), code) << status;
  std::string message(status.message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

std::string OpenError(const std::string& folder) {
  return OneLine(Checkpoint::Open(folder).status(), absl::StatusCode::kDataLoss);
}

// A checkpoint of step 1 by three ranks.
class ShardedDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto saved = SaveShardedForTest(run_, 1, kRanks, OptionsForTest(0));
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(Difference(*OpenCheckpoint(run_)->checkpoint), "");
    folder_ = saved->folder + "/";
  }

  // Changes the manifest, and makes the checksums of all files match it.
  template <typename Change>
  void ChangeManifest(Change change) {
    auto manifest = ParseManifest(ReadFile(folder_ + "manifest.json"));
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    change(*manifest);
    for (Manifest::File& file : manifest->files) {
      const std::string contents = ReadFile(folder_ + file.name);
      file.bytes = static_cast<int64_t>(contents.size());
      file.checksum = ChecksumOf(contents);
    }
    WriteFile(folder_ + "manifest.json", ManifestToText(*manifest));
  }

  void Swap(const std::string& one, const std::string& other) {
    const std::string bytes = ReadFile(one);
    WriteFile(one, ReadFile(other));
    WriteFile(other, bytes);
  }

  const std::string run_ = NewFolder("run");
  std::string folder_;
};

TEST_F(ShardedDamageTest, AFileThatIsMissing) {
  ASSERT_TRUE(RemoveTree(folder_ + "optimizer-rank00001.safetensors").ok());
  EXPECT_THAT(OpenError(folder_), HasSubstr("the file optimizer-rank00001.safetensors is missing"));
  EXPECT_FALSE(CheckComplete(folder_).ok());
}

TEST_F(ShardedDamageTest, AFileOfAnotherRank) {
  Swap(folder_ + "parameters-rank00000.safetensors", folder_ + "parameters-rank00001.safetensors");
  EXPECT_THAT(OpenError(folder_), HasSubstr("the file parameters-rank00000.safetensors has "));
  // A tensor's name contains its shard, so the fault is found even if the checksums match.
  ChangeManifest([](Manifest&) {});
  EXPECT_THAT(OpenError(folder_),
              AllOf(HasSubstr("the file parameters-rank00000.safetensors: it has no tensor '"),
                    HasSubstr("[0:2, 0:150]', and should have a f32[2, 150]")));
}

TEST_F(ShardedDamageTest, AFileOfAnotherRun) {
  const std::string other = NewFolder("other");
  const auto saved = SaveShardedForTest(other, 2, kRanks, OptionsForTest(0));
  ASSERT_TRUE(saved.ok());
  const std::string name = "parameters-rank00002.safetensors";
  WriteFile(folder_ + name, ReadFile(saved->folder + "/" + name));
  EXPECT_THAT(OpenError(folder_), HasSubstr(absl::StrCat("the file ", name, " has changed")));
}

TEST_F(ShardedDamageTest, AFileOfAnotherNumberOfRanks) {
  const std::string other = NewFolder("other");
  const auto saved = SaveShardedForTest(other, 1, 2, OptionsForTest(0));
  ASSERT_TRUE(saved.ok());
  const std::string name = "parameters-rank00001.safetensors";
  WriteFile(folder_ + name, ReadFile(saved->folder + "/" + name));
  ChangeManifest([](Manifest&) {});
  EXPECT_THAT(OpenError(folder_), HasSubstr(absl::StrCat("the file ", name, ": it has no tensor")));
}

TEST_F(ShardedDamageTest, AFileThatIsTooShortForItsTensors) {
  const std::string path = folder_ + "optimizer-rank00000.safetensors";
  const std::string bytes = ReadFile(path);
  WriteFile(path, bytes.substr(0, bytes.size() - 8));
  ChangeManifest([](Manifest&) {});
  EXPECT_THAT(OpenError(folder_), HasSubstr("optimizer-rank00000.safetensors: the safetensors "
                                            "header is damaged: its tensors have "));
}

TEST_F(ShardedDamageTest, AShardInAnotherFileThanTheManifestSays) {
  ChangeManifest(
      [](Manifest& manifest) { manifest.shard_files[0][0] = manifest.shard_files[0][1]; });
  EXPECT_THAT(OpenError(folder_), HasSubstr("it has no tensor 'blocks.0.w[0:2, 0:150]'"));
}

TEST_F(ShardedDamageTest, AShardOfAnotherSizeThanTheFileHas) {
  ChangeManifest([](Manifest& manifest) {
    manifest.shards[0][0] = StateShard(Box{{0, 0}, {3, 150}});
    manifest.shards[0][1] = StateShard(Box{{3, 0}, {1, 150}});
  });
  EXPECT_THAT(OpenError(folder_), HasSubstr("it has no tensor 'blocks.0.w[0:3, 0:150]'"));
}

TEST_F(ShardedDamageTest, ShardsThatOverlapOrAreMissing) {
  const auto error = [&](auto change) {
    const std::string before = ReadFile(folder_ + "manifest.json");
    ChangeManifest(change);
    std::string message = OpenError(folder_);
    WriteFile(folder_ + "manifest.json", before);
    return message;
  };
  EXPECT_THAT(error([](Manifest& manifest) { manifest.shards[0][1].box.start[0] = 1; }),
              HasSubstr("the manifest is damaged: the state 'blocks.0.w': its shards "
                        "[0:2, 0:150] and [1:3, 0:150] overlap"));
  EXPECT_THAT(error([](Manifest& manifest) {
                manifest.shards[0].pop_back();
                manifest.shard_files[0].pop_back();
              }),
              HasSubstr("the state 'blocks.0.w': its shards hold 600 of its 1050 elements"));
  EXPECT_THAT(error([](Manifest& manifest) { manifest.shards[0][2].box.start[0] = 5; }),
              HasSubstr("the state 'blocks.0.w': a shard of [3, 150] at [5, 0] does not lie within "
                        "[7, 150]"));
  EXPECT_EQ(Difference(*OpenCheckpoint(run_)->checkpoint), "");
}

// Saves that rank 0 refuses to complete.
class IncompleteSaveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(SaveForTest(run_, 1).ok());
    auto save = CheckpointSave::Begin(run_, ContentsForTest(2), OptionsForTest(1));
    ASSERT_TRUE(save.ok()) << save.status();
    save_ = *std::move(save);
    for (int rank = 0; rank < kRanks; ++rank) {
      reports_.push_back(WriteShardsForTest(save_->folder(), 2, rank, kRanks, {}));
    }
  }

  std::string Error(absl::StatusCode code) {
    std::string message = OneLine(save_->Finish(reports_).status(), code);
    EXPECT_THAT(message, ::testing::StartsWith("cannot save the checkpoint of step 2: "));
    EXPECT_THAT(message, ::testing::EndsWith("; earlier checkpoints are as they were"));
    save_.reset();
    EXPECT_THAT(*ListFolder(run_ + "/checkpoints"), ElementsAre("step_00000001"));
    EXPECT_EQ(Difference(*OpenCheckpoint(run_)->checkpoint), "");
    return message;
  }

  const std::string run_ = NewFolder("run");
  std::unique_ptr<CheckpointSave> save_;
  std::vector<ShardReport> reports_;
};

TEST_F(IncompleteSaveTest, ARankThatCouldNotWrite) {
  reports_[1] = WriteShardsForTest(save_->folder() + "/none", 2, 1, kRanks, {});
  EXPECT_THAT(Error(absl::StatusCode::kNotFound),
              HasSubstr("step 2: rank 1: cannot open the folder "));
}

TEST_F(IncompleteSaveTest, ARankWithoutAReport) {
  reports_.pop_back();
  EXPECT_THAT(Error(absl::StatusCode::kInvalidArgument),
              HasSubstr("the state 'blocks.0.w': its shards hold 600 of its 1050 elements"));
}

TEST_F(IncompleteSaveTest, ARankWithOtherStates) {
  std::vector<StateEntry> state = ContentsForTest(2).state;
  state[0].type.shape = {150, 7};
  reports_[2] = WriteShards(save_->folder(), 2, kRanks, state, {}, ReadStateForTest(2), {});
  EXPECT_THAT(Error(absl::StatusCode::kInvalidArgument),
              HasSubstr("rank 2: its states are not those of rank 0"));
}

TEST_F(IncompleteSaveTest, ReportsInTheWrongOrder) {
  std::swap(reports_[0], reports_[1]);
  EXPECT_THAT(Error(absl::StatusCode::kInvalidArgument),
              HasSubstr("rank 0: the report in its place is of rank 1"));
}

TEST_F(IncompleteSaveTest, AFileThatRank0DoesNotSee) {
  const std::string path = save_->folder() + "/parameters-rank00002.safetensors";
  WriteFile(path, "short");
  EXPECT_THAT(Error(absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("rank 2: it wrote "), HasSubstr(", and rank 0 sees 5 there: all "
                                                              "ranks must see the run's folder")));
}

TEST_F(IncompleteSaveTest, AFileThatIsGone) {
  ASSERT_TRUE(RemoveTree(save_->folder() + "/parameters-rank00002.safetensors").ok());
  EXPECT_THAT(Error(absl::StatusCode::kFailedPrecondition),
              HasSubstr(", and rank 0 sees no such file there"));
}

TEST_F(IncompleteSaveTest, AShardThatTwoRanksWrote) {
  *reports_[1].add_shards() = reports_[0].shards(0);
  EXPECT_THAT(Error(absl::StatusCode::kInvalidArgument), HasSubstr(" overlap"));
}

}  // namespace
}  // namespace tessera
