#include "core/train/checkpoint/shard_report.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/durable_file.h"

namespace tessera {
namespace {

// Returns the checksum of the paths, roles and types of all states.
std::string StatesChecksum(const std::vector<StateEntry>& state) {
  std::string text;
  for (const StateEntry& entry : state) {
    // The length of a path separates the path from the text after it.
    absl::StrAppend(&text, entry.path.size(), ":", entry.path, entry.role, " ",
                    TypeToString(entry.type), "\n");
  }
  return ChecksumOf(text);
}

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

ShardReport MakeShardReport(int rank, const std::vector<StateEntry>& state,
                            absl::Span<const OwnedShard> shards, absl::Span<const StateFile> files,
                            absl::Span<const Manifest::File> written) {
  ShardReport report;
  report.set_rank(rank);
  report.set_states_checksum(StatesChecksum(state));
  for (size_t i = 0; i < files.size(); ++i) {
    ShardReport::File& file = *report.add_files();
    file.set_name(written[i].name);
    file.set_bytes(written[i].bytes);
    file.set_checksum(written[i].checksum);
    for (int index : files[i].shards) {
      const StateShard& shard = shards[index].shard;
      ShardReport::Shard& record = *report.add_shards();
      record.set_state(shards[index].state);
      record.set_file(static_cast<int>(i));
      record.mutable_start()->Add(shard.box.start.begin(), shard.box.start.end());
      record.mutable_extent()->Add(shard.box.extent.begin(), shard.box.extent.end());
      record.set_begin(shard.begin);
      record.set_end(shard.end);
    }
  }
  return report;
}

ShardReport MakeFailureReport(int rank, const absl::Status& error) {
  ShardReport report;
  report.set_rank(rank);
  report.set_error_code(static_cast<int>(error.code()));
  report.set_error(absl::StrCat(error.message()));
  return report;
}

absl::StatusOr<Manifest> JoinReports(Manifest manifest, absl::Span<const ShardReport> reports,
                                     const Folder& folder) {
  const std::string checksum = StatesChecksum(manifest.state);
  manifest.shards.resize(manifest.state.size());
  manifest.shard_files.resize(manifest.state.size());
  for (size_t i = 0; i < reports.size(); ++i) {
    const int rank = static_cast<int>(i);
    absl::Status status = CheckReport(reports[i], rank, checksum, folder);
    if (status.ok()) status = AddReport(reports[i], &manifest);
    if (status.ok()) continue;
    if (reports.size() == 1) return status;
    return absl::Status(status.code(), absl::StrCat("rank ", rank, ": ", status.message()));
  }
  return manifest;
}

}  // namespace tessera
