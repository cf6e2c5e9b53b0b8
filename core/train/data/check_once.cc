#include "core/train/data/check_once.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "collectives/host_identity.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Begins the text that stands for an error; a checksum does not begin with it.
constexpr char kError[] = "error ";

}  // namespace

absl::StatusOr<std::string> CheckOncePerHost(const DataFile* file, const CheckContents& check,
                                             Ranks& ranks) {
  const std::string mine =
      file == nullptr ? "" : absl::StrCat(comm::HostIdentity(), " ", file->Identity());
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ranks.AllGather(mine));
  // The first rank that has opened the same file checks it.
  const auto checking_rank = std::find(files.begin(), files.end(), mine) - files.begin();
  std::string found;
  if (file != nullptr && checking_rank == ranks.rank()) {
    const absl::StatusOr<std::string> checked = check(*file);
    found = checked.ok() ? *checked : absl::StrCat(kError, checked.status().message());
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> results, ranks.AllGather(found));
  absl::string_view result = results[checking_rank];
  if (absl::ConsumePrefix(&result, kError)) return absl::InvalidArgumentError(result);
  return std::string(result);
}

}  // namespace tessera
