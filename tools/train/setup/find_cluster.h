// Finds and reads the cluster of --cluster.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_FIND_CLUSTER_H_
#define TESSERA_TOOLS_TRAIN_SETUP_FIND_CLUSTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/proto/cluster.pb.h"

namespace tessera {

// The clusters that come with Tessera, files of docs/clusters.
absl::Span<const absl::string_view> BundledClusters();

// Returns the file of a cluster as the user writes it: the name of a bundled one, which is found
// among the files of the program (core/posix/program_files.h), or a path.
absl::StatusOr<std::string> FindCluster(const std::string& cluster);

// Reads and checks that file. Errors begin with its path, or list the bundled clusters.
absl::StatusOr<Cluster> ReadNamedCluster(const std::string& cluster);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_FIND_CLUSTER_H_
