// Tests saving and opening together. Damage, kills and full disks have their own tests.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/remains.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Names(const std::string& run) { return *ListFolder(run + "/checkpoints"); }

std::vector<std::string> FilesOf(const SavedCheckpoint& saved) { return *ListFolder(saved.folder); }

TEST(CheckpointTest, OpensWhatWasSaved) {
  const std::string run = NewFolder("run") + "/made/by/save";
  auto saved = SaveForTest(run, 120);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_THAT(saved->warnings, IsEmpty());
  EXPECT_EQ(saved->folder, run + "/checkpoints/step_00000120");
  EXPECT_THAT(*ListFolder(saved->folder),
              ElementsAre("config.textproto", "manifest.json", "optimizer.safetensors",
                          "parameters.safetensors", "plan.textproto"));
  int64_t bytes = 0;
  for (const std::string& name : FilesOf(*saved)) {
    bytes += static_cast<int64_t>(ReadFile(saved->folder + "/" + name).size());
  }
  EXPECT_EQ(saved->bytes, bytes);

  for (const std::string& path : {run, run + "/", run + "/checkpoints", run + "/checkpoints/",
                                  saved->folder, saved->folder + "/"}) {
    auto opened = OpenCheckpoint(path);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_THAT(opened->skipped, IsEmpty());
    EXPECT_EQ(opened->checkpoint->step(), 120);
    EXPECT_EQ(opened->checkpoint->rows(), 240);
    EXPECT_EQ(Difference(*opened->checkpoint), "");
  }
}

// The expected bytes are those that `save` of Python's safetensors.numpy (0.8.0) writes for {"w":
// [1, -2], "counts": [42]}.
TEST(CheckpointTest, WritesSafetensorsToTheByte) {
  const std::string run = NewFolder("golden");
  CheckpointContents contents;
  contents.state = {{"w", "parameter", {DType::kF32, {2}}},
                    {"counts", "parameter", {DType::kI64, {1}}}};
  const std::vector<std::string> data = {std::string("\0\0\x80\x3f\0\0\0\xc0", 8),
                                         std::string("\x2a\0\0\0\0\0\0\0", 8)};
  auto saved = SaveCheckpoint(run, contents, [&](int entry, int64_t offset, absl::Span<char> out) {
    data[entry].copy(out.data(), out.size(), offset);
    return absl::OkStatus();
  });
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(ReadFile(saved->folder + "/parameters.safetensors"),
            std::string("\x78\0\0\0\0\0\0\0", 8) +
                R"({"counts":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                R"("w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}       )" +
                std::string("\x2a\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\xc0", 16));
  EXPECT_EQ(ReadFile(saved->folder + "/optimizer.safetensors"),
            std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(CheckpointTest, ReadsAnyShard) {
  const std::string run = NewFolder("run");
  ASSERT_TRUE(SaveForTest(run, 3).ok());
  auto opened = OpenCheckpoint(run);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Checkpoint& checkpoint = *opened->checkpoint;
  const std::string path = "blocks.0.w.adam_m";  // f32[7, 150]
  std::vector<char> all(4200);
  ASSERT_TRUE(checkpoint.ReadShard(path, FullShard({7, 150}), absl::MakeSpan(all)).ok());
  for (const auto& [begin, end] : {std::pair(0, 1), {17, 1000}, {1049, 1050}, {0, 0}}) {
    std::vector<char> part(4 * (end - begin));
    const StateShard shard(Box{{0, 0}, {7, 150}}, begin, end);
    ASSERT_TRUE(checkpoint.ReadShard(path, shard, absl::MakeSpan(part)).ok());
    EXPECT_EQ(part, std::vector<char>(all.begin() + 4 * begin, all.begin() + 4 * end));
  }
  std::vector<char> box(2 * 3 * 4);
  ASSERT_TRUE(
      checkpoint.ReadShard(path, StateShard(Box{{5, 10}, {2, 3}}), absl::MakeSpan(box)).ok());
  std::vector<char> rows(all.begin() + 4 * 760, all.begin() + 4 * 763);
  rows.insert(rows.end(), all.begin() + 4 * 910, all.begin() + 4 * 913);
  EXPECT_EQ(box, rows);

  const auto error = [&](const std::string& name, const StateShard& shard, size_t bytes) {
    std::vector<char> out(bytes);
    return checkpoint.ReadShard(name, shard, absl::MakeSpan(out));
  };
  for (const absl::Status& status :
       {error(path, FullShard({7, 150}), 4196), error(path, FullShard({7, 151}), 4228),
        error(path, FullShard({7}), 28), error(path, StateShard(Box{{0, 0}, {7, 150}}, -1, 1), 8),
        error(path, StateShard(Box{{0, 0}, {1, 150}}, 149, 151), 8)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  }
  const absl::Status status = error("blocks.9.w", FullShard({1}), 4);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("there is no state 'blocks.9.w' in this checkpoint; it has 10, of which "
                        "the first is 'blocks.0.w'"));
  EXPECT_EQ((*checkpoint.Find("ints"))->type, (TensorType{DType::kI32, {3}}));
  EXPECT_EQ(checkpoint.Find("no").status().code(), absl::StatusCode::kNotFound);
}

TEST(CheckpointTest, StaysReadableWhenRemoved) {
  const std::string run = NewFolder("run");
  ASSERT_TRUE(SaveForTest(run, 3).ok());
  auto opened = OpenCheckpoint(run);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_TRUE(RemoveTree(run).ok());
  EXPECT_EQ(Difference(*opened->checkpoint), "");
}

TEST(CheckpointTest, ReadsTheStateInChunksOfFullElements) {
  const CheckpointContents contents = ContentsForTest(1);
  for (int64_t chunk_bytes : {1, 8, 15, 1000, 1 << 20}) {
    SaveOptions options;
    options.chunk_bytes = chunk_bytes;
    std::vector<int64_t> next(contents.state.size(), 0);  // byte of each state
    auto saved = SaveCheckpoint(
        NewFolder("chunks"), contents,
        [&](int entry, int64_t offset, absl::Span<char> out) {
          EXPECT_EQ(offset, next[entry]);
          next[entry] += static_cast<int64_t>(out.size());
          EXPECT_LE(static_cast<int64_t>(out.size()), std::max<int64_t>(chunk_bytes, 8));
          EXPECT_EQ(offset % SizeOf(contents.state[entry].type.dtype), 0);
          EXPECT_EQ(out.size() % SizeOf(contents.state[entry].type.dtype), 0);
          return absl::OkStatus();
        },
        options);
    ASSERT_TRUE(saved.ok()) << saved.status();
    for (size_t i = 0; i < next.size(); ++i) EXPECT_EQ(next[i], NumBytes(contents.state[i].type));
  }
}

TEST(CheckpointTest, KeepsTheNewest) {
  const std::string run = NewFolder("run");
  for (int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(SaveForTest(run, step, 2).ok());
  EXPECT_THAT(Names(run), ElementsAre("step_00000030", "step_00000040"));
  ASSERT_TRUE(SaveForTest(run, 50, 0).ok());
  EXPECT_THAT(Names(run), SizeIs(3));
  ASSERT_TRUE(SaveForTest(run, 123456789012, 1).ok());
  EXPECT_THAT(Names(run), ElementsAre("step_123456789012"));
  // The newly written one is never removed.
  ASSERT_TRUE(SaveForTest(run, 60, 1).ok());
  EXPECT_THAT(Names(run), ElementsAre("step_00000060"));
}

TEST(CheckpointTest, DoesNotCountATornOneAmongThoseToKeep) {
  const std::string run = NewFolder("run");
  for (int64_t step : {10, 20, 30}) ASSERT_TRUE(SaveForTest(run, step, 0).ok());
  WriteFile(run + "/checkpoints/step_00000030/optimizer.safetensors", "cut");
  ASSERT_TRUE(SaveForTest(run, 40, 2).ok());
  EXPECT_THAT(Names(run), ElementsAre("step_00000020", "step_00000030", "step_00000040"));
  ASSERT_TRUE(SaveForTest(run, 50, 2).ok());
  EXPECT_THAT(Names(run), ElementsAre("step_00000040", "step_00000050"));
}

TEST(CheckpointTest, LeavesAloneWhatIsNotACheckpoint) {
  const std::string run = NewFolder("run");
  const std::vector<std::string> foreign = {"best", "notes.txt", "step_12", "step_00000012x",
                                            "step_-0000012"};
  for (const std::string& name : foreign)
    ASSERT_TRUE(MakeFolders(absl::StrCat(run, "/checkpoints/", name)).ok());
  ASSERT_TRUE(SaveForTest(run, 10, 1).ok());
  ASSERT_TRUE(SaveForTest(run, 20, 1).ok());
  EXPECT_THAT(Names(run), SizeIs(foreign.size() + 1));
  EXPECT_EQ(OpenCheckpoint(run)->checkpoint->step(), 20);
}

TEST(CheckpointTest, ReplacesACheckpointOfTheSameStep) {
  const std::string run = NewFolder("run");
  ASSERT_TRUE(SaveForTest(run, 10).ok());
  CheckpointContents contents = ContentsForTest(10);
  contents.plan = "another plan";
  ASSERT_TRUE(SaveCheckpoint(run, contents, ReadStateForTest(10)).ok());
  EXPECT_THAT(Names(run), ElementsAre("step_00000010"));
  EXPECT_EQ(OpenCheckpoint(run)->checkpoint->plan(), "another plan");
}

TEST(CheckpointTest, CleansUpAfterKilledSaves) {
  const std::string run = NewFolder("run");
  const std::string folder = run + "/checkpoints/";
  ASSERT_TRUE(SaveForTest(run, 10).ok());
  ASSERT_TRUE(SaveForTest(run, 20).ok());
  ASSERT_TRUE(MakeFolders(folder + ".tmp-step_00000030").ok());
  WriteFile(folder + ".tmp-step_00000030/parameters.safetensors", "half of it");
  // Killed between the two renames of a file system that cannot exchange names.
  ASSERT_TRUE(RenameFolder(folder + "step_00000020", folder + ".old-step_00000020").ok());
  EXPECT_EQ(OpenCheckpoint(run)->checkpoint->step(), 20);
  ASSERT_TRUE(SaveForTest(run, 40, 0).ok());
  EXPECT_THAT(Names(run), ElementsAre("step_00000010", "step_00000020", "step_00000040"));
  // Killed after both.
  ASSERT_TRUE(MakeFolders(folder + ".old-step_00000020").ok());
  ASSERT_TRUE(SaveForTest(run, 50, 0).ok());
  EXPECT_THAT(Names(run), SizeIs(4));
  EXPECT_EQ(Difference(**Checkpoint::Open(folder + "step_00000020")), "");
}

// Regression: only the next save removed them, which did not begin if they filled the disk.
TEST(CheckpointTest, RemainsAreRemovedWithoutASave) {
  const std::string run = NewFolder("run");
  const std::string folder = run + "/checkpoints/";
  for (int64_t step : {10, 20, 30}) ASSERT_TRUE(SaveForTest(run, step).ok());
  ASSERT_TRUE(MakeFolders(folder + ".tmp-step_00000040-0123abcd").ok());
  WriteFile(folder + ".tmp-step_00000040-0123abcd/plan.textproto", "half of it");
  // One was being replaced, one was replaced, and the replacement of one is damaged.
  ASSERT_TRUE(RenameFolder(folder + "step_00000010", folder + ".old-step_00000010").ok());
  ASSERT_TRUE(MakeFolders(folder + ".old-step_00000020").ok());
  ASSERT_TRUE(RenameFolder(folder + "step_00000030", folder + ".old-step_00000030").ok());
  ASSERT_TRUE(MakeFolders(folder + "step_00000030").ok());
  const auto left = RemoveRemains(CheckpointsForTest(run));
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_THAT(*left, SizeIs(0));
  EXPECT_THAT(Names(run),
              ElementsAre(".old-step_00000030", "step_00000010", "step_00000020", "step_00000030"));
  EXPECT_EQ(Difference(*OpenCheckpoint(run)->checkpoint), "");
}

TEST(CheckpointTest, RefusesWhatItCannotSave) {
  const std::string run = NewFolder("run");
  const auto error = [&](const CheckpointContents& contents, absl::StatusCode code) {
    auto saved = SaveCheckpoint(run, contents, ReadStateForTest(1));
    EXPECT_EQ(saved.status().code(), code) << saved.status();
    return absl::StrCat(saved.status().message());
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  CheckpointContents contents = ContentsForTest(1);
  contents.state[5].path = "blocks.0.w";  // also where the other file has it
  EXPECT_EQ(error(contents, invalid),
            "cannot save the checkpoint of step 1: two states have the path 'blocks.0.w'");
  contents = ContentsForTest(1);
  contents.state[2].role = "gradient";
  EXPECT_THAT(error(contents, invalid),
              HasSubstr("'parameter', 'statistic' or 'optimizer' would be right"));
  contents = ContentsForTest(1);
  contents.state[2].path = "\xff";
  EXPECT_THAT(error(contents, invalid), HasSubstr("not UTF-8"));
  contents = ContentsForTest(1);
  contents.step = -1;
  EXPECT_THAT(error(contents, invalid), HasSubstr("it must be from 0 to 10000000"));
  contents.step = kMaxSteps + 1;
  EXPECT_THAT(error(contents, invalid), HasSubstr("it must be from 0 to 10000000"));
  contents = ContentsForTest(1);
  contents.plan.resize(kMaxTextBytes + 1, ' ');
  EXPECT_THAT(error(contents, invalid),
              HasSubstr("plan.textproto would have 16777217 bytes, and at most 16777216 can be"));
  EXPECT_FALSE(CheckContents(contents).ok());
  contents = ContentsForTest(1);
  EXPECT_TRUE(CheckContents(contents).ok());
  contents.state[2].path = std::string(kMaxTextBytes - 100, 'a');
  EXPECT_THAT(error(contents, invalid), HasSubstr("would have 1677"));
  EXPECT_FALSE(Exists(run + "/checkpoints"));

  ASSERT_TRUE(MakeFolders(run + "/checkpoints").ok());
  const auto lock = CheckpointsForTest(run).Lock();
  EXPECT_THAT(error(ContentsForTest(1), absl::StatusCode::kUnavailable),
              HasSubstr("another process is saving to "));
  EXPECT_THAT(Names(run), IsEmpty());
}

TEST(CheckpointTest, ReturnsTheErrorOfReadState) {
  const std::string run = NewFolder("run");
  ASSERT_TRUE(SaveForTest(run, 1).ok());
  auto saved = SaveCheckpoint(
      run, ContentsForTest(2),
      [](int entry, int64_t offset, absl::Span<char>) {
        return entry == 0 && offset >= 2000 ? absl::InternalError("the device is gone")
                                            : absl::OkStatus();
      },
      OptionsForTest(1));
  EXPECT_EQ(saved.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(saved.status().message(),
            "cannot save the checkpoint of step 2: cannot read bytes 2000 to 3000 of 'blocks.0.w': "
            "the device is gone; earlier checkpoints are as they were");
  EXPECT_THAT(Names(run), ElementsAre("step_00000001"));
}

}  // namespace
}  // namespace tessera
