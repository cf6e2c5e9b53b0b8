#include "tools/train/setup/find_cluster.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/cluster.h"
#include "core/posix/program_files.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"
#include "core/text/plain_name.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

constexpr absl::string_view kClusters[] = {"a100", "h100",     "h200",        "b200",        "v100",
                                           "p100", "cpu_host", "ethernet_1g", "ethernet_10g"};

}  // namespace

absl::Span<const absl::string_view> BundledClusters() { return kClusters; }

absl::StatusOr<std::string> FindCluster(const std::string& cluster) {
  if (absl::c_linear_search(kClusters, cluster)) {
    return FindProgramFile(absl::StrCat("tessera/docs/clusters/", cluster, ".textproto"));
  }
  std::string path = UserPath(cluster);
  std::error_code error;
  if (!IsPlainName(cluster) || std::filesystem::exists(path, error)) return path;
  const std::vector<std::string> names(std::begin(kClusters), std::end(kClusters));
  return absl::NotFoundError(absl::StrCat(
      "there is no cluster ", Quote(cluster), DidYouMean(cluster, names), "; Tessera has ",
      absl::StrJoin(names, ", "), ", and a cluster may be named by its file"));
}

absl::StatusOr<Cluster> ReadNamedCluster(const std::string& cluster) {
  ASSIGN_OR_RETURN(const std::string path, FindCluster(cluster));
  return ReadCluster(path);
}

}  // namespace tessera
