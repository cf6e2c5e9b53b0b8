// The reports that all ranks send to rank 0 on the shards that they wrote (shard_report.proto).
//
// Thread safety: functions without state.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_SHARD_REPORT_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_SHARD_REPORT_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/posix/folder.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/shard_report.pb.h"
#include "core/train/checkpoint/state_entry.h"
#include "core/train/checkpoint/state_files.h"

namespace tessera {

// Returns the report of a rank that has written these files of these shards. written[i] is the
// record of files[i].
ShardReport MakeShardReport(int rank, const std::vector<StateEntry>& state,
                            absl::Span<const OwnedShard> shards, absl::Span<const StateFile> files,
                            absl::Span<const Manifest::File> written);

// Returns the report of a rank that could not write.
ShardReport MakeFailureReport(int rank, const absl::Status& error);

// Returns a manifest of these states without files, to which the files of all ranks and the shards
// in them are added. reports[i] is that of rank i. Returns the first rank's error if there is one,
// InvalidArgument if a report is of another rank or other states, and FailedPrecondition if a file
// is not in `folder` as reported.
absl::StatusOr<Manifest> JoinReports(Manifest manifest, absl::Span<const ShardReport> reports,
                                     const Folder& folder);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_SHARD_REPORT_H_
