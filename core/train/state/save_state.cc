#include "core/train/state/save_state.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/shard_report.h"
#include "core/train/state/engine_states.h"

namespace tessera {
namespace {

// Returns the number of parts of a flat group that hold elements of a member.
int64_t PartsHolding(const FlatRule& flat) {
  const FlatGroup::Range range = flat.group->InGathered(flat.member);
  if (range.size() == 0) return 0;
  return (range.end - 1) / flat.group->part() - range.begin / flat.group->part() + 1;
}

// Returns an upper bound of the number of shards in which a state is saved.
int64_t MostShards(const StateInfo& state, const Mesh& mesh) {
  if (!state.part.has_value()) return 1;
  int64_t shards = 1;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (state.part->layout.axis(axis).split()) shards *= mesh.axis(axis).size;
  }
  return state.flat.has_value() ? shards * PartsHolding(*state.flat) : shards;
}

// The shards that a rank writes, with their source in its engine.
struct RankShards {
  std::vector<OwnedShard> shards;
  std::vector<const StateInfo*> states;  // of each shard
  std::vector<StatePart> parts;          // of each shard
};

// Returns the shards of `entries`, those of the engine's states, that its rank saves.
RankShards ShardsToWrite(const Engine& engine, const std::vector<StateEntry>& entries) {
  absl::flat_hash_map<absl::string_view, int> entry_of;
  for (const StateEntry& entry : entries) {
    entry_of.emplace(entry.path, static_cast<int>(entry_of.size()));
  }
  RankShards result;
  for (const StateInfo& state : engine.states()) {
    StatePart part = PartOf(engine, state);
    if (!part.saves) continue;
    result.shards.push_back({entry_of.at(state.origin), part.shard});
    result.states.push_back(&state);
    result.parts.push_back(std::move(part));
  }
  return result;
}

// Fills `bytes` with the elements of the part from `first` on.
absl::Status ReadElements(Engine& engine, const StateInfo& state, const StatePart& part,
                          int64_t first, absl::Span<char> bytes) {
  const int64_t size = SizeOf(state.type.dtype), count = static_cast<int64_t>(bytes.size()) / size;
  SharedRuns runs(part.shard.Part(first, first + count), part.buffer);
  while (const std::optional<SharedRun> run = runs.Next()) {
    RETURN_IF_ERROR(engine.ReadState(state, run->second * size,
                                     bytes.subspan(run->first * size, run->count * size)));
  }
  return absl::OkStatus();
}

// Copies the chunks of one file from the engine to the disk. Returns its record in the manifest.
absl::StatusOr<Manifest::File> WriteStateFile(Engine& engine, const RankShards& source,
                                              const StateFile& plan, const Folder& folder,
                                              const WriteOptions& options) {
  ASSIGN_OR_RETURN(DurableWriter file,
                   DurableWriter::Create(folder, plan.name, options.before_change));
  RETURN_IF_ERROR(file.Write(plan.header.bytes));
  std::vector<char> bytes;
  for (const StateChunk& chunk : ChunksOf(plan, options.chunk_bytes)) {
    const int shard = plan.shards[chunk.tensor];
    const StateInfo& state = *source.states[shard];
    bytes.resize(chunk.bytes);
    const absl::Status read =
        ReadElements(engine, state, source.parts[shard], chunk.offset / SizeOf(state.type.dtype),
                     absl::MakeSpan(bytes));
    if (!read.ok()) return CannotRead(plan, chunk, read);
    RETURN_IF_ERROR(file.Write(bytes));
  }
  return file.Finish();
}

// Writes the files of this rank, and returns the report on them.
absl::StatusOr<ShardReport> WriteFiles(Engine& engine, int ranks, const std::string& path,
                                       const WriteOptions& options) {
  const int rank = engine.options().rank.rank;
  const std::vector<StateEntry> entries = EntriesOf(engine.states());
  const RankShards source = ShardsToWrite(engine, entries);
  ASSIGN_OR_RETURN(const std::vector<StateFile> files,
                   PlanStateFiles(entries, source.shards, rank, ranks));
  ASSIGN_OR_RETURN(const Folder folder, OpenTemporaryFolder(path));
  std::vector<Manifest::File> written;
  for (const StateFile& file : files) {
    ASSIGN_OR_RETURN(written.emplace_back(), WriteStateFile(engine, source, file, folder, options));
  }
  return MakeShardReport(rank, entries, source.shards, files, written);
}

}  // namespace

absl::Status CheckSavable(absl::Span<const StateInfo> states, const Mesh& mesh, std::string plan) {
  CheckpointContents contents;
  contents.plan = std::move(plan);
  contents.state = EntriesOf(states);
  absl::Status status = CheckContents(contents);
  if (status.ok()) {
    int64_t shards = 0;
    for (const StateInfo& state : states) shards += MostShards(state, mesh);
    status = CheckNumShards(shards);
  }
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("the run cannot be saved in a checkpoint: ", status.message()));
}

int64_t SavedBytes(absl::Span<const StateInfo> states) {
  int64_t bytes = 0;
  for (const StateEntry& entry : EntriesOf(states)) bytes += NumBytes(entry.type);
  return bytes;
}

ShardReport WriteStates(Engine& engine, int ranks, const std::string& folder,
                        const WriteOptions& options) {
  absl::StatusOr<ShardReport> report = WriteFiles(engine, ranks, folder, options);
  if (report.ok()) return *std::move(report);
  return MakeFailureReport(engine.options().rank.rank, report.status());
}

}  // namespace tessera
