// Damaged checkpoints, and folders that are no checkpoints.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/tensor/random.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/set_aside.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> Names(const std::string& run) { return *ListFolder(run + "/checkpoints"); }

std::vector<std::string> FilesOf(const SavedCheckpoint& saved) { return *ListFolder(saved.folder); }

// Writes in place, because ext4 waits for the disk if a file is truncated and written again.
void FlipBit(const std::string& path, size_t byte, int bit) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto offset = static_cast<std::streamoff>(byte);
  const int now = file.seekg(offset).get();
  file.seekp(offset).put(static_cast<char>(now ^ (1 << bit)));
  file.close();
  ASSERT_TRUE(file.good()) << path;
}

std::string OpenError(const std::string& path, absl::StatusCode code) {
  auto opened = OpenCheckpoint(path);
  EXPECT_EQ(opened.status().code(), code) << opened.status();
  std::string message(opened.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

// Without a check of checksums, a damaged header is either rejected, or accepted and then readable.
TEST(CheckpointDamageTest, SurvivesDamagedHeaders) {
  const std::string run = NewFolder("run");
  auto saved = SaveForTest(run, 1);
  ASSERT_TRUE(saved.ok());
  const std::string path = saved->folder + "/parameters.safetensors";
  const std::string original = ReadFile(path);
  const size_t header_bytes = 8 + static_cast<unsigned char>(original[0]) +
                              256 * static_cast<size_t>(static_cast<unsigned char>(original[1]));
  ASSERT_LT(header_bytes, original.size());
  OpenOptions options;
  options.verify_checksums = false;
  const RandomStream stream = MakeStream(13, "damage");
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    const PhiloxBlock random = RandomBlock(stream, trial, 0);
    // The length, in the first eight bytes, is changed more often than other bytes.
    const size_t byte = random[0] % (random[1] % 4 == 0 ? 8 : header_bytes);
    const int bit = static_cast<int>(random[2] % 8);
    FlipBit(path, byte, bit);
    auto checkpoint = Checkpoint::Open(saved->folder, options);
    if (checkpoint.ok()) {
      for (const StateEntry& entry : (*checkpoint)->state()) {
        std::vector<char> bytes(NumBytes(entry.type));
        EXPECT_TRUE((*checkpoint)
                        ->ReadShard(entry.path, FullShard(entry.type.shape), absl::MakeSpan(bytes))
                        .ok());
      }
    }
    FlipBit(path, byte, bit);
  }
  EXPECT_TRUE(Checkpoint::Open(saved->folder).ok());
}

TEST(CheckpointDamageTest, FindsAFlippedBitAnywhereInEveryFile) {
  const std::string run = NewFolder("run");
  auto saved = SaveForTest(run, 1);
  ASSERT_TRUE(saved.ok());
  for (const std::string& name : FilesOf(*saved)) {
    const std::string path = saved->folder + "/" + name;
    const size_t bytes = ReadFile(path).size();
    // Every byte of a safetensors header, and samples of the data; manifest_test has the rest.
    for (size_t i = 0; i < bytes; i += i < 400 ? 1 : 29) {
      const int bit = static_cast<int>((i * 5 + i / 8) % 8);
      FlipBit(path, i, bit);
      const auto checkpoint = Checkpoint::Open(saved->folder);
      ASSERT_FALSE(checkpoint.ok()) << "byte " << i << " of " << name;
      ASSERT_THAT(std::string(checkpoint.status().message()),
                  AllOf(HasSubstr(name == "manifest.json" ? "" : name), HasSubstr(saved->folder)));
      FlipBit(path, i, bit);
    }
  }
  EXPECT_TRUE(Checkpoint::Open(saved->folder).ok());
}

TEST(CheckpointDamageTest, FindsWhatIsMissingOrCut) {
  const std::string run = NewFolder("run");
  auto saved = SaveForTest(run, 1);
  ASSERT_TRUE(saved.ok());
  for (const std::string& name : FilesOf(*saved)) {
    const std::string path = saved->folder + "/" + name;
    const std::string original = ReadFile(path);
    for (size_t size : {size_t{0}, size_t{7}, original.size() / 2, original.size() - 1}) {
      WriteFile(path, original.substr(0, size));
      EXPECT_THAT(OpenError(saved->folder, absl::StatusCode::kDataLoss),
                  HasSubstr(name == "manifest.json" ? "the manifest is damaged" : name));
      EXPECT_FALSE(CheckComplete(saved->folder).ok());
    }
    WriteFile(path, original + " ");
    EXPECT_FALSE(Checkpoint::Open(saved->folder).ok()) << name;
    ASSERT_TRUE(RemoveTree(path).ok());
    if (name == "manifest.json") {
      EXPECT_THAT(OpenError(saved->folder, absl::StatusCode::kInvalidArgument),
                  HasSubstr("this is no checkpoint, which would have a manifest.json"));
    } else {
      EXPECT_THAT(OpenError(saved->folder, absl::StatusCode::kDataLoss),
                  HasSubstr("the file " + name + " is missing"));
    }
    EXPECT_FALSE(CheckComplete(saved->folder).ok());
    WriteFile(path, original);
  }
  EXPECT_TRUE(CheckComplete(saved->folder).ok());
}

// Headers that contradict the manifest, with matching checksums.
TEST(CheckpointDamageTest, FindsAManifestThatDoesNotFitItsFiles) {
  const std::string run = NewFolder("run");
  auto saved = SaveForTest(run, 1);
  ASSERT_TRUE(saved.ok());
  const std::string path = saved->folder + "/manifest.json";
  const std::string original = ReadFile(path);
  const auto error = [&](auto change) {
    auto manifest = ParseManifest(original);
    EXPECT_TRUE(manifest.ok());
    change(*manifest);
    WriteFile(path, ManifestToText(*manifest));
    return OpenError(saved->folder, absl::StatusCode::kDataLoss);
  };
  EXPECT_THAT(error([](Manifest& manifest) { manifest.state[0].path = "other"; }),
              HasSubstr("parameters.safetensors: it has no tensor 'other', and should have a f32"));
  EXPECT_THAT(error([](Manifest& manifest) {
                manifest.state[0].type.shape = {150, 7};
                manifest.shards[0][0] = FullShard({150, 7});
              }),
              HasSubstr("has f32[7, 150] 'blocks.0.w', and should have a f32[150, 7]"));
  EXPECT_THAT(error([](Manifest& manifest) { manifest.shard_files[0][0] = 2; }),
              HasSubstr("plan.textproto"));
}

TEST(CheckpointDamageTest, PassesOverATornOne) {
  const std::string run = NewFolder("run");
  for (int64_t step : {10, 20, 30}) ASSERT_TRUE(SaveForTest(run, step).ok());
  const std::string folder = run + "/checkpoints/";
  FlipBit(folder + "step_00000030/parameters.safetensors", 900, 3);
  ASSERT_TRUE(RemoveTree(folder + "step_00000020/manifest.json").ok());
  auto opened = OpenCheckpoint(run);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->checkpoint->step(), 10);
  EXPECT_EQ(Difference(*opened->checkpoint), "");
  ASSERT_THAT(opened->skipped, SizeIs(2));
  EXPECT_THAT(opened->skipped[0], HasSubstr("step_00000030: the file parameters.safetensors has "
                                            "changed: its XXH3-128 is "));
  EXPECT_THAT(opened->skipped[1], HasSubstr("step_00000020: this is no checkpoint"));

  // A rank that does not compare checksums gets the folder from one that did.
  OpenOptions options;
  options.verify_checksums = false;
  EXPECT_EQ(OpenCheckpoint(run, options)->checkpoint->step(), 30);

  WriteFile(folder + "step_00000010/plan.textproto", "");
  EXPECT_THAT(OpenError(run, absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("none of 3 checkpoints is complete"), HasSubstr("step_00000010")));
}

// Regression: a damaged checkpoint took a place among those that are kept, so that a good one was
// removed.
TEST(CheckpointDamageTest, ADamagedOneTakesNoPlaceAmongThoseThatAreKept) {
  const std::string run = NewFolder("run");
  for (int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(SaveForTest(run, step, 4).ok());
  const std::string folder = run + "/checkpoints/";
  FlipBit(folder + "step_00000040/parameters.safetensors", 900, 3);
  ASSERT_TRUE(RemoveTree(folder + "step_00000020/manifest.json").ok());
  auto opened = OpenCheckpoint(run);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->checkpoint->step(), 30);
  const auto lines = SetAsideDamaged(CheckpointsForTest(run), opened->damaged);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_THAT(*lines, ElementsAre(HasSubstr("the damaged checkpoint step_00000040 is now called "),
                                  HasSubstr("checkpoints/damaged-step_00000020")));
  ASSERT_TRUE(SaveForTest(run, 50, 3).ok());
  EXPECT_THAT(Names(run), ElementsAre("damaged-step_00000020", "damaged-step_00000040",
                                      "step_00000010", "step_00000030", "step_00000050"));
}

// A file that cannot be opened now, for any user: its name leads to itself.
void MakeUnreadable(const std::string& path) {
  ASSERT_TRUE(RemoveTree(path).ok());
  std::filesystem::create_symlink(std::filesystem::path(path).filename(), path);
}

// Regression: it was renamed as a damaged one.
TEST(CheckpointDamageTest, OneThatCannotBeReadNowKeepsItsName) {
  const std::string run = NewFolder("run");
  for (int64_t step : {10, 20, 30}) ASSERT_TRUE(SaveForTest(run, step).ok());
  const std::string folder = run + "/checkpoints/";
  MakeUnreadable(folder + "step_00000030/manifest.json");
  MakeUnreadable(folder + "step_00000020/parameters.safetensors");
  auto opened = OpenCheckpoint(run);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->checkpoint->step(), 10);
  EXPECT_THAT(opened->skipped, SizeIs(2));
  EXPECT_THAT(opened->damaged, SizeIs(0));
  const auto lines = SetAsideDamaged(CheckpointsForTest(run), opened->damaged);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_THAT(*lines, SizeIs(0));
  for (const char* name : {"step_00000020", "step_00000030"}) {
    const absl::Status status = CheckComplete(folder + name);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(IsDamage(status)) << status;
  }
}

// Regression: the second damaged checkpoint of a step replaced the first.
TEST(CheckpointDamageTest, DamagedOnesOfTheSameStepAreAllThere) {
  const std::string run = NewFolder("run");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(SaveForTest(run, 10).ok());
    ASSERT_TRUE(RemoveTree(run + "/checkpoints/step_00000010/manifest.json").ok());
    ASSERT_TRUE(SetAsideDamaged(CheckpointsForTest(run), {}).ok());
  }
  EXPECT_THAT(Names(run), ElementsAre("damaged-step_00000010", "damaged-step_00000010-2",
                                      "damaged-step_00000010-3"));
}

TEST(CheckpointDamageTest, DoesNotPassOverANewerVersion) {
  const std::string run = NewFolder("run");
  for (int64_t step : {10, 20}) ASSERT_TRUE(SaveForTest(run, step).ok());
  const std::string path = run + "/checkpoints/step_00000020/manifest.json";
  std::string text = ReadFile(path);
  const std::string version = "\"format_version\": ";
  text[text.find(version) + version.size()] = '5';
  const size_t at = text.size() - std::string("\"\n}\n").size() - 32;
  text.replace(at, 32, std::string(32, '0'));
  text.replace(at, 32, ChecksumOf(text));
  WriteFile(path, text);
  EXPECT_THAT(OpenError(run, absl::StatusCode::kUnimplemented),
              HasSubstr("step_00000020: the checkpoint has version 5, and this Tessera reads "
                        "versions 2 to 4"));
  // A save does not consider it incomplete either.
  ASSERT_TRUE(SaveForTest(run, 30, 2).ok());
  EXPECT_THAT(Names(run), ElementsAre("step_00000020", "step_00000030"));
}

TEST(CheckpointDamageTest, NamesWhatIsNoCheckpoint) {
  const std::string run = NewFolder("run");
  EXPECT_THAT(OpenError(run + "/none", absl::StatusCode::kNotFound),
              HasSubstr("/none: there is no such folder"));
  EXPECT_THAT(OpenError("", absl::StatusCode::kNotFound), HasSubstr("no such folder"));
  EXPECT_THAT(OpenError(run, absl::StatusCode::kInvalidArgument),
              HasSubstr("no run, which would have a folder checkpoints"));
  ASSERT_TRUE(MakeFolders(run + "/checkpoints").ok());
  for (const std::string& path : {run, run + "/checkpoints"}) {
    EXPECT_THAT(OpenError(path, absl::StatusCode::kNotFound),
                HasSubstr("there is no checkpoint in it yet"));
  }
  ASSERT_TRUE(MakeFolders(run + "/app").ok());
  WriteFile(run + "/app/manifest.json", R"({"name": "a web app"})");
  EXPECT_THAT(OpenError(run + "/app", absl::StatusCode::kInvalidArgument),
              HasSubstr("/app: this is no checkpoint of Tessera"));
  WriteFile(run + "/file", "");
  EXPECT_EQ(OpenCheckpoint(run + "/file").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera
