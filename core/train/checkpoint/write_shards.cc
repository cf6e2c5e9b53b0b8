#include "core/train/checkpoint/write_shards.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/state_files.h"
#include "core/train/checkpoint/strict_json.h"

namespace tessera {
namespace {

// Rounds down to a multiple of the largest element, 8 bytes.
int64_t RoundToElements(int64_t chunk_bytes) { return std::max<int64_t>(chunk_bytes / 8 * 8, 8); }

absl::StatusOr<Manifest::File> WriteStateFile(const Folder& folder, const StateFile& file,
                                              const std::vector<StateEntry>& state,
                                              absl::Span<const OwnedShard> shards,
                                              const ReadState& read_state,
                                              const WriteOptions& options) {
  const int64_t chunk_bytes = RoundToElements(options.chunk_bytes);
  std::vector<char> buffer(std::min(chunk_bytes, file.header.data_bytes));
  return WriteDurableFile(folder, file.name, options, [&](const Append& append) {
    RETURN_IF_ERROR(append(file.header.bytes));
    for (size_t i = 0; i < file.shards.size(); ++i) {
      const int64_t bytes = file.header.tensors[i].end - file.header.tensors[i].begin;
      for (int64_t offset = 0; offset < bytes; offset += chunk_bytes) {
        const absl::Span<char> chunk =
            absl::MakeSpan(buffer).first(std::min(chunk_bytes, bytes - offset));
        const absl::Status status = read_state(file.shards[i], offset, chunk);
        if (!status.ok()) {
          return absl::Status(
              status.code(),
              absl::StrCat("cannot read bytes ", offset, " to ", offset + chunk.size(), " of ",
                           Quote(file.header.tensors[i].name), ": ", status.message()));
        }
        RETURN_IF_ERROR(append(chunk));
      }
    }
    return absl::OkStatus();
  });
}

void AddFile(const StateFile& file, const Manifest::File& written,
             absl::Span<const OwnedShard> shards, ShardReport* report) {
  const int index = report->files_size();
  ShardReport::File& record = *report->add_files();
  record.set_name(written.name);
  record.set_bytes(written.bytes);
  record.set_checksum(written.checksum);
  for (int i : file.shards) {
    const StateShard& shard = shards[i].shard;
    ShardReport::Shard& entry = *report->add_shards();
    entry.set_state(shards[i].state);
    entry.set_file(index);
    for (int64_t start : shard.box.start) entry.add_start(start);
    for (int64_t extent : shard.box.extent) entry.add_extent(extent);
    entry.set_begin(shard.begin);
    entry.set_end(shard.end);
  }
}

}  // namespace

ShardReport WriteShards(const std::string& folder, int rank, int ranks,
                        const std::vector<StateEntry>& state, absl::Span<const OwnedShard> shards,
                        const ReadState& read_state, const WriteOptions& options) {
  ShardReport report;
  report.set_rank(rank);
  report.set_states_checksum(StatesChecksum(state));
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<StateFile> files,
                     ArrangeStateFiles(state, shards, rank, ranks));
    ASSIGN_OR_RETURN(const Folder opened, OpenTemporaryFolder(folder));
    for (const StateFile& file : files) {
      ASSIGN_OR_RETURN(const Manifest::File written,
                       WriteStateFile(opened, file, state, shards, read_state, options));
      AddFile(file, written, shards, &report);
    }
    return absl::OkStatus();
  };
  const absl::Status status = write();
  report.set_error_code(static_cast<int>(status.code()));
  report.set_error(absl::StrCat(status.message()));
  return report;
}

std::string StatesChecksum(const std::vector<StateEntry>& state) {
  std::string text;
  for (const StateEntry& entry : state) {
    // The length of a path separates the path from the text after it.
    absl::StrAppend(&text, entry.path.size(), ":", entry.path, entry.role, " ",
                    TypeToString(entry.type), "\n");
  }
  return ChecksumOf(text);
}

absl::StatusOr<Manifest::File> WriteDurableFile(
    const Folder& folder, const std::string& name, const WriteOptions& options,
    const std::function<absl::Status(const Append& append)>& write) {
  const auto before_change = [&](absl::string_view what) {
    if (options.before_change) options.before_change(absl::StrCat(what, " ", name));
  };
  before_change("create");
  ASSIGN_OR_RETURN(const std::unique_ptr<DurableWriter> writer,
                   DurableWriter::Create(folder, name));
  Checksum checksum;
  Manifest::File file;
  file.name = name;
  RETURN_IF_ERROR(write([&](absl::Span<const char> bytes) {
    before_change("write");
    checksum.Update(bytes);
    file.bytes += static_cast<int64_t>(bytes.size());
    return writer->Write(bytes);
  }));
  before_change("sync");
  RETURN_IF_ERROR(writer->Finish());
  file.checksum = checksum.Hex();
  return file;
}

}  // namespace tessera
