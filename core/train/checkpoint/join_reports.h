// Combines the reports of all ranks on a save.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_JOIN_REPORTS_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_JOIN_REPORTS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/posix/folder.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/shard_report.pb.h"

namespace tessera {

// Appends the files of all ranks to the manifest, and the shards in them to its states. reports[i]
// is that of rank i. Returns the first rank's error if there is one, InvalidArgument if a report is
// of another rank or other states, and FailedPrecondition if a file is not in `folder` as reported.
absl::Status JoinReports(absl::Span<const ShardReport> reports, const Folder& folder,
                         Manifest* manifest);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_JOIN_REPORTS_H_
