#include "core/train/checkpoint/join_reports.h"

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/write_shards.h"

namespace tessera {
namespace {

absl::Status CheckVisible(const Folder& folder, const ShardReport::File& file) {
  const auto seen = FileReader::Open(folder, file.name());
  if (seen.ok() && (*seen)->bytes() == file.bytes()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "it wrote ", file.bytes(), " bytes to ", folder.PathOf(file.name()), ", and rank 0 sees ",
      seen.ok() ? absl::StrCat((*seen)->bytes()) : "no such file",
      " there: all ranks must see the run's folder"));
}

absl::Status CheckReport(const ShardReport& report, int rank, const std::string& states_checksum,
                         const Folder& folder) {
  const auto code = static_cast<absl::StatusCode>(report.error_code());
  if (code != absl::StatusCode::kOk) return absl::Status(code, report.error());
  if (report.rank() != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("the report in its place is of rank ", report.rank()));
  }
  if (report.states_checksum() != states_checksum) {
    return absl::InvalidArgumentError("its states are not those of rank 0");
  }
  for (const ShardReport::File& file : report.files()) RETURN_IF_ERROR(CheckVisible(folder, file));
  return absl::OkStatus();
}

absl::Status AddShard(const ShardReport::Shard& shard, int first_file, int files,
                      Manifest* manifest) {
  const bool known = shard.state() >= 0 &&
                     shard.state() < static_cast<int>(manifest->state.size()) &&
                     shard.file() >= 0 && shard.file() < files;
  if (!known) return absl::InvalidArgumentError("its report is malformed");
  manifest->shards[shard.state()].push_back(
      {Box{Shape(shard.start().begin(), shard.start().end()),
           Shape(shard.extent().begin(), shard.extent().end())},
       shard.begin(), shard.end()});
  manifest->shard_files[shard.state()].push_back(first_file + shard.file());
  return absl::OkStatus();
}

absl::Status AddReport(const ShardReport& report, Manifest* manifest) {
  const int first_file = static_cast<int>(manifest->files.size());
  for (const ShardReport::File& file : report.files()) {
    manifest->files.push_back({file.name(), file.bytes(), file.checksum()});
  }
  for (const ShardReport::Shard& shard : report.shards()) {
    RETURN_IF_ERROR(AddShard(shard, first_file, report.files_size(), manifest));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status JoinReports(absl::Span<const ShardReport> reports, const Folder& folder,
                         Manifest* manifest) {
  const std::string checksum = StatesChecksum(manifest->state);
  manifest->shards.resize(manifest->state.size());
  manifest->shard_files.resize(manifest->state.size());
  for (size_t i = 0; i < reports.size(); ++i) {
    const int rank = static_cast<int>(i);
    absl::Status status = CheckReport(reports[i], rank, checksum, folder);
    if (status.ok()) status = AddReport(reports[i], manifest);
    if (status.ok()) continue;
    if (reports.size() == 1) return status;
    return absl::Status(status.code(), absl::StrCat("rank ", rank, ": ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace tessera
