#include "core/train/checkpoint/testing/test_state.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/shard_report.h"
#include "core/train/checkpoint/state_files.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

char ByteOf(int64_t step, int entry, int64_t offset) {
  return static_cast<char>(step * 31 + entry * 101 + offset * 7 + offset / 251);
}

absl::StatusOr<ShardReport> WriteFiles(const std::string& path, int rank, int ranks,
                                       const std::vector<StateEntry>& state,
                                       absl::Span<const OwnedShard> shards,
                                       const ReadState& read_state, const WriteOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<StateFile> files, PlanStateFiles(state, shards, rank, ranks));
  ASSIGN_OR_RETURN(const Folder folder, OpenTemporaryFolder(path));
  std::vector<Manifest::File> written;
  for (const StateFile& plan : files) {
    ASSIGN_OR_RETURN(DurableWriter file,
                     DurableWriter::Create(folder, plan.name, options.before_change));
    RETURN_IF_ERROR(file.Write(plan.header.bytes));
    for (const StateChunk& chunk : ChunksOf(plan, options.chunk_bytes)) {
      std::vector<char> bytes(chunk.bytes);
      const absl::Status read =
          read_state(plan.shards[chunk.tensor], chunk.offset, absl::MakeSpan(bytes));
      if (!read.ok()) return CannotRead(plan, chunk, read);
      RETURN_IF_ERROR(file.Write(bytes));
    }
    ASSIGN_OR_RETURN(written.emplace_back(), file.Finish());
  }
  return MakeShardReport(rank, state, shards, files, written);
}

}  // namespace

ShardReport WriteShards(const std::string& folder, int rank, int ranks,
                        const std::vector<StateEntry>& state, absl::Span<const OwnedShard> shards,
                        const ReadState& read_state, const WriteOptions& options) {
  const absl::StatusOr<ShardReport> report =
      WriteFiles(folder, rank, ranks, state, shards, read_state, options);
  return report.ok() ? *report : MakeFailureReport(rank, report.status());
}

absl::StatusOr<SavedCheckpoint> SaveCheckpoint(const std::string& run_folder,
                                               const CheckpointContents& contents,
                                               const ReadState& read_state,
                                               const SaveOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointSave> save,
                   CheckpointSave::Begin(run_folder, contents, options));
  std::vector<OwnedShard> shards;
  for (size_t i = 0; i < contents.state.size(); ++i) {
    shards.push_back({static_cast<int>(i), FullShard(contents.state[i].type.shape)});
  }
  const ShardReport report =
      WriteShards(save->folder(), 0, 1, contents.state, shards, read_state, options);
  return save->Finish(absl::MakeConstSpan(&report, 1));
}

CheckpointContents ContentsForTest(int64_t step) {
  const std::string parameter(kParameterRole), optimizer(kOptimizerRole);
  CheckpointContents contents;
  contents.step = step;
  contents.rows = 2 * step;
  contents.sequence = 16;
  contents.data = absl::StrCat("text of ", step, " bytes");
  contents.state = {
      {"blocks.0.w", parameter, {DType::kF32, {7, 150}}},
      {"blocks.0.b", parameter, {DType::kBF16, {7}}},
      {"embedding", parameter, {DType::kF16, {3, 5, 2}}},
      {"nothing", parameter, {DType::kF32, {0, 4}}},
      {"mean \"of\" \xc3\xa4", parameter, {DType::kF64, {1}}},
      {"blocks.0.w.adam_m", optimizer, {DType::kF32, {7, 150}}},
      {"blocks.0.b.adam_m", optimizer, {DType::kF64, {7}}},
      {"bytes", optimizer, {DType::kU8, {13}}},
      {"ints", optimizer, {DType::kI32, {3}}},
      {"step", optimizer, {DType::kI64, {}}},
  };
  contents.plan = absl::StrCat("plan of step ", step, "\n");
  contents.config = "model: \"mlp\"\n";
  return contents;
}

ReadState ReadStateForTest(int64_t step) {
  return [step](int entry, int64_t byte_offset, absl::Span<char> out) {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = ByteOf(step, entry, byte_offset + static_cast<int64_t>(i));
    }
    return absl::OkStatus();
  };
}

ReadState ReadShardsForTest(int64_t step, const std::vector<StateEntry>& state,
                            std::vector<OwnedShard> shards) {
  return [step, state, shards = std::move(shards)](int index, int64_t byte_offset,
                                                   absl::Span<char> out) {
    const OwnedShard& owned = shards[index];
    const TensorType& type = state[owned.state].type;
    const int64_t element = SizeOf(type.dtype), first = byte_offset / element;
    const StateShard chunk =
        owned.shard.Part(first, first + static_cast<int64_t>(out.size()) / element);
    SharedRuns runs(FullShard(type.shape), chunk);
    while (const std::optional<SharedRun> run = runs.Next()) {
      for (int64_t i = 0; i < run->count * element; ++i) {
        out[run->second * element + i] = ByteOf(step, owned.state, run->first * element + i);
      }
    }
    return absl::OkStatus();
  };
}

std::vector<OwnedShard> ShardsForTest(const std::vector<StateEntry>& state, int rank, int ranks) {
  std::vector<OwnedShard> shards;
  for (int i = 0; i < static_cast<int>(state.size()); ++i) {
    const Shape& shape = state[i].type.shape;
    const bool rows = i % 2 == 0 && !shape.empty();
    const int64_t count = rows ? shape[0] : NumElements(shape);
    const int64_t begin = count * rank / ranks, end = count * (rank + 1) / ranks;
    if (rows) {
      Box box = {Shape(shape.size(), 0), shape};
      box.start[0] = begin;
      box.extent[0] = end - begin;
      shards.push_back({i, StateShard(std::move(box))});
    } else {
      shards.push_back({i, FullShard(shape).Part(begin, end)});
    }
  }
  return shards;
}

ShardReport WriteShardsForTest(const std::string& folder, int64_t step, int rank, int ranks,
                               const WriteOptions& options) {
  const std::vector<StateEntry> state = ContentsForTest(step).state;
  const std::vector<OwnedShard> shards = ShardsForTest(state, rank, ranks);
  return WriteShards(folder, rank, ranks, state, shards, ReadShardsForTest(step, state, shards),
                     options);
}

absl::StatusOr<SavedCheckpoint> SaveShardedForTest(const std::string& run, int64_t step, int ranks,
                                                   const SaveOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointSave> save,
                   CheckpointSave::Begin(run, ContentsForTest(step), options));
  std::vector<ShardReport> reports;
  for (int rank = 0; rank < ranks; ++rank) {
    reports.push_back(WriteShardsForTest(save->folder(), step, rank, ranks, options));
  }
  return save->Finish(reports);
}

SaveOptions OptionsForTest(int keep) {
  SaveOptions options;
  options.keep = keep;
  options.chunk_bytes = 1000;
  return options;
}

absl::StatusOr<SavedCheckpoint> SaveForTest(const std::string& run, int64_t step, int keep) {
  return SaveCheckpoint(run, ContentsForTest(step), ReadStateForTest(step), OptionsForTest(keep));
}

std::string Difference(const Checkpoint& checkpoint) {
  const int64_t step = checkpoint.step();
  const CheckpointContents expected = ContentsForTest(step);
  if (checkpoint.rows() != expected.rows || checkpoint.sequence() != expected.sequence) {
    return "position";
  }
  if (checkpoint.data() != expected.data) return "data";
  if (checkpoint.plan() != expected.plan || checkpoint.config() != expected.config) return "texts";
  if (checkpoint.state().size() != expected.state.size()) return "number of states";
  for (size_t i = 0; i < expected.state.size(); ++i) {
    const StateEntry& entry = expected.state[i];
    const StateEntry& found = checkpoint.state()[i];
    if (found.path != entry.path || found.role != entry.role || found.type != entry.type) {
      return absl::StrCat("entry ", i);
    }
    std::vector<char> bytes(NumBytes(entry.type));
    const absl::Status status =
        checkpoint.ReadShard(entry.path, FullShard(entry.type.shape), absl::MakeSpan(bytes));
    if (!status.ok()) return absl::StrCat(status.message());
    for (size_t j = 0; j < bytes.size(); ++j) {
      if (bytes[j] != ByteOf(step, static_cast<int>(i), static_cast<int64_t>(j))) {
        return absl::StrCat("byte ", j, " of ", entry.path);
      }
    }
  }
  return "";
}

std::string NewFolder(const std::string& name) {
  std::string path = absl::StrCat(::testing::TempDir(), "/tessera_", getpid(), "_", name);
  TESSERA_CHECK(RemoveTree(path).ok() && MakeFolders(path).ok()) << path;
  return path;
}

Folder OpenForTest(const std::string& path) {
  absl::StatusOr<Folder> folder = Folder::Open(path);
  TESSERA_CHECK(folder.ok()) << folder.status();
  return *std::move(folder);
}

Folder CheckpointsForTest(const std::string& run) { return OpenForTest(CheckpointsFolder(run)); }

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? absl::ErrnoToStatus(error.value(), path) : absl::OkStatus();
}

absl::Status RenameFolder(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  return error ? absl::ErrnoToStatus(error.value(), from) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const Folder folder, Folder::Open(path));
  return folder.List();
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TESSERA_CHECK(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

void WriteFile(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TESSERA_CHECK(file.good()) << path;
}

}  // namespace tessera
