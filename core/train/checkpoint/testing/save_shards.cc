#include "core/train/checkpoint/testing/save_shards.h"

#include <memory>

#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/shard_report.h"
#include "core/train/checkpoint/state_files.h"

namespace tessera {
namespace {

absl::StatusOr<Manifest::File> WriteStateFile(const StateFile& plan, const Folder& folder,
                                              const ReadState& read_state,
                                              const WriteOptions& options) {
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
  return file.Finish();
}

absl::StatusOr<ShardReport> WriteFiles(const std::string& path, int rank, int ranks,
                                       const std::vector<StateEntry>& state,
                                       absl::Span<const OwnedShard> shards,
                                       const ReadState& read_state, const WriteOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<StateFile> files, PlanStateFiles(state, shards, rank, ranks));
  ASSIGN_OR_RETURN(const Folder folder, OpenTemporaryFolder(path));
  std::vector<Manifest::File> written;
  for (const StateFile& file : files) {
    ASSIGN_OR_RETURN(written.emplace_back(), WriteStateFile(file, folder, read_state, options));
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

}  // namespace tessera
