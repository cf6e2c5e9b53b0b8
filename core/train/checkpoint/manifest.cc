#include "core/train/checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/posix/folder.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/shard_cover.h"
#include "core/train/checkpoint/strict_json.h"

namespace tessera {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr char kFormat[] = "tessera-checkpoint";
constexpr char kNoChecksum[] = "00000000000000000000000000000000";

std::string LastLine(absl::string_view checksum) {
  return absl::StrCat("  \"xxh3_128\": \"", checksum, "\"\n}\n");
}

// Returns the checksum for the last line of a text with this body.
std::string ChecksumOfText(absl::string_view body) {
  const std::string text = absl::StrCat(body, LastLine(kNoChecksum));
  return ChecksumOf(text);
}

// Returns a JSON list with one line for each record, which people and diff can read.
std::string Lines(const std::vector<std::string>& records) {
  if (records.empty()) return "[]";
  return absl::StrCat("[\n    ", absl::StrJoin(records, ",\n    "), "\n  ]");
}

std::string Quoted(const std::string& text) { return Json(text).dump(); }

absl::Status ParseFiles(const Json& json, Manifest* manifest) {
  ASSIGN_OR_RETURN(const Json* files, ArrayMember(json, "files"));
  absl::flat_hash_set<std::string> names;
  for (const Json& record : *files) {
    Manifest::File file;
    ASSIGN_OR_RETURN(file.name, StringMember(record, "name"));
    ASSIGN_OR_RETURN(file.bytes, IntegerMember(record, "bytes"));
    ASSIGN_OR_RETURN(file.checksum, StringMember(record, "xxh3_128"));
    if (!IsEntryName(file.name) || !names.insert(file.name).second) {
      return absl::DataLossError(absl::StrCat("the file name ", Quote(file.name), " is not right"));
    }
    manifest->files.push_back(std::move(file));
  }
  ASSIGN_OR_RETURN(manifest->plan_file, StringMember(json, "plan"));
  ASSIGN_OR_RETURN(manifest->config_file, StringMember(json, "config"));
  for (const std::string& name : {manifest->plan_file, manifest->config_file}) {
    if (!names.contains(name)) {
      return absl::DataLossError(absl::StrCat("the file ", Quote(name), " is not listed"));
    }
  }
  return absl::OkStatus();
}

// Reads the shard [FILE, START..., EXTENT...] or [FILE, START..., EXTENT..., BEGIN, END] of a
// tensor of this shape.
absl::Status ParseShard(const Json& json, const Shape& shape, StateShard* shard, int64_t* file) {
  ASSIGN_OR_RETURN(const Shape numbers, IntegersOf(json, "shards"));
  const size_t rank = shape.size(), of_box = 1 + 2 * rank;
  if (numbers.size() != of_box && numbers.size() != of_box + 2) {
    return absl::DataLossError(absl::StrCat("a shard of it has ", numbers.size(), " numbers, and ",
                                            of_box, " or ", of_box + 2, " are possible for ", rank,
                                            " dimensions"));
  }
  *file = numbers[0];
  const auto start = numbers.begin() + 1, extent = start + static_cast<int64_t>(rank);
  shard->box = {Shape(start, extent), Shape(extent, numbers.begin() + of_box)};
  RETURN_IF_ERROR(CheckShard(*shard, shape));
  *shard = StateShard(std::move(shard->box));
  if (numbers.size() > of_box) {
    shard->begin = numbers[of_box];
    shard->end = numbers[of_box + 1];
  }
  if (shard->begin < shard->end) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("its shard ", ShardToString(*shard), " has no elements"));
}

// Reads states and their shards.
class StateParser {
 public:
  explicit StateParser(Manifest* manifest) : manifest_(*manifest) {
    for (size_t i = 0; i < manifest->files.size(); ++i) {
      file_of_name_[manifest->files[i].name] = static_cast<int>(i);
    }
  }

  absl::Status Parse(const Json& json) {
    ASSIGN_OR_RETURN(const Json* state, ArrayMember(json, "state"));
    for (const Json& record : *state) {
      StateEntry entry;
      ASSIGN_OR_RETURN(entry.path, StringMember(record, "path"));
      absl::Status status = ParseRoleAndType(record, entry);
      if (status.ok()) {
        status = record.contains("shards") ? ParseShards(record, entry) : ParseFile(record, entry);
      }
      if (!status.ok()) {
        return absl::DataLossError(
            absl::StrCat("the state ", Quote(entry.path), ": ", status.message()));
      }
      manifest_.state.push_back(std::move(entry));
    }
    return absl::OkStatus();
  }

 private:
  // Reads the role and the type of the state whose path is set.
  absl::Status ParseRoleAndType(const Json& record, StateEntry& entry) {
    if (!paths_.insert(entry.path).second) return absl::DataLossError("it is listed twice");
    ASSIGN_OR_RETURN(entry.role, StringMember(record, "role"));
    if (!IsStateRole(entry.role)) {
      return absl::DataLossError(
          absl::StrCat("its role is ", Quote(entry.role), "; it must be ", kStateRoles));
    }
    ASSIGN_OR_RETURN(const std::string dtype, StringMember(record, "dtype"));
    ASSIGN_OR_RETURN(entry.type.dtype, ParseDType(dtype));
    ASSIGN_OR_RETURN(entry.type.shape, ShapeMember(record, "shape"));
    return CheckedNumBytes(entry.type).status();
  }

  // Reads a state that is stored as one shard, all of it, in the file that the record names.
  absl::Status ParseFile(const Json& record, const StateEntry& entry) {
    ASSIGN_OR_RETURN(const std::string name, StringMember(record, "file"));
    const auto file = file_of_name_.find(name);
    if (file == file_of_name_.end()) {
      return absl::DataLossError(
          absl::StrCat("it is in the file ", Quote(name), ", which is not listed"));
    }
    manifest_.shards.push_back({FullShard(entry.type.shape)});
    manifest_.shard_files.push_back({file->second});
    return absl::OkStatus();
  }

  // Reads the list of a state's shards, which must cover it.
  absl::Status ParseShards(const Json& record, const StateEntry& entry) {
    ASSIGN_OR_RETURN(const Json* list, ArrayMember(record, "shards"));
    num_shards_ += static_cast<int64_t>(list->size());
    RETURN_IF_ERROR(CheckNumShards(num_shards_));
    std::vector<StateShard>& shards = manifest_.shards.emplace_back();
    std::vector<int>& files = manifest_.shard_files.emplace_back();
    shards.reserve(list->size());
    files.reserve(list->size());
    for (const Json& json : *list) {
      int64_t file = 0;
      RETURN_IF_ERROR(ParseShard(json, entry.type.shape, &shards.emplace_back(), &file));
      if (file >= static_cast<int64_t>(manifest_.files.size())) {
        return absl::DataLossError(absl::StrCat("a shard of it is in file ", file, ", and ",
                                                manifest_.files.size(), " are listed"));
      }
      files.push_back(static_cast<int>(file));
    }
    return CheckCover(entry.type.shape, shards);
  }

  Manifest& manifest_;
  absl::flat_hash_map<std::string, int> file_of_name_;
  absl::flat_hash_set<std::string> paths_;
  int64_t num_shards_ = 0;
};

// Returns a member that is a count, of `most` at most.
absl::StatusOr<int64_t> CountMember(const Json& json, const char* key, int64_t most) {
  ASSIGN_OR_RETURN(const int64_t count, IntegerMember(json, key));
  if (count <= most) return count;
  return absl::DataLossError(
      absl::StrCat("\"", key, "\" is ", count, ", above the largest possible, ", most));
}

absl::Status ParsePosition(const Json& json, int64_t version, Manifest* manifest) {
  if (version < 3) {
    ASSIGN_OR_RETURN(manifest->batches, CountMember(json, "batches", kMaxSteps));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(manifest->rows, CountMember(json, "rows", kMaxRows));
  ASSIGN_OR_RETURN(manifest->sequence, CountMember(json, "sequence", kMaxSequence));
  if (manifest->sequence > 0) return absl::OkStatus();
  return absl::DataLossError("\"sequence\" is 0, and a row has at least one token");
}

// Later checkpoints of a resumed run have the same identity, so it must be short.
absl::Status CheckRun(const std::string& run) {
  constexpr size_t kLongest = 64;
  const bool plain = std::all_of(run.begin(), run.end(), absl::ascii_isalnum);
  if (plain && run.size() <= kLongest) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("\"run\" is not of ", kLongest, " letters and digits at most"));
}

absl::StatusOr<Manifest> ParseContents(const Json& json, int64_t version) {
  Manifest manifest;
  ASSIGN_OR_RETURN(manifest.step, CountMember(json, "step", kMaxSteps));
  RETURN_IF_ERROR(ParsePosition(json, version, &manifest));
  if (json.contains("state_version")) {
    ASSIGN_OR_RETURN(manifest.state_version, IntegerMember(json, "state_version"));
    if (manifest.state_version < 1) {
      return absl::DataLossError("\"state_version\" is 0, and the first version is 1");
    }
  }
  // Some checkpoints of version 2 have none.
  if (json.contains("data")) {
    ASSIGN_OR_RETURN(manifest.data, StringMember(json, "data"));
  }
  if (json.contains("run")) {
    ASSIGN_OR_RETURN(manifest.run, StringMember(json, "run"));
    RETURN_IF_ERROR(CheckRun(manifest.run));
  }
  RETURN_IF_ERROR(ParseFiles(json, &manifest));
  RETURN_IF_ERROR(StateParser(&manifest).Parse(json));
  return manifest;
}

absl::Status DamageError(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the manifest is damaged: ", what));
}

// Returns whether the last line exists and holds the checksum of the text.
bool IsSealed(absl::string_view text) {
  const size_t last_bytes = LastLine(kNoChecksum).size();
  const absl::string_view body = text.substr(0, text.size() - std::min(text.size(), last_bytes));
  return absl::StrCat(body, LastLine(ChecksumOfText(body))) == text;
}

absl::Status ForeignError() {
  return absl::InvalidArgumentError(
      absl::StrCat("this is no checkpoint of Tessera: \"format\" is not ", Quoted(kFormat)));
}

bool IsTesseraManifest(const Json& json) {
  const absl::StatusOr<std::string> format = StringMember(json, "format");
  return format.ok() && *format == kFormat;
}

// Returns the error for a text with a wrong or no checksum. Parses only short texts, because
// manifests of other programs are small.
absl::Status UnsealedError(absl::string_view text) {
  constexpr size_t kMaxForeignBytes = 64 << 10;
  if (text.size() <= kMaxForeignBytes) {
    const absl::StatusOr<Json> json = ParseStrictJson(text);
    if (!json.ok()) return DamageError(json.status().message());
    if (!IsTesseraManifest(*json)) return ForeignError();
  }
  return DamageError("its checksum is not that of its text");
}

bool IsInOneFile(const Manifest& manifest, size_t state) {
  const std::vector<StateShard>& shards = manifest.shards[state];
  return shards.size() == 1 && IsFull(shards[0], manifest.state[state].type.shape);
}

// Returns the oldest version that has all that the manifest has, so that an older Tessera reads it.
int64_t VersionOf(const Manifest& manifest) {
  const bool has_statistic = absl::c_any_of(
      manifest.state, [](const StateEntry& entry) { return entry.role == kStatisticRole; });
  return has_statistic ? kCheckpointVersion : kVersionWithoutStatistics;
}

OrderedJson ShardsToJson(const std::vector<StateShard>& shards, const std::vector<int>& files) {
  OrderedJson list = OrderedJson::array();
  for (size_t i = 0; i < shards.size(); ++i) {
    const StateShard& shard = shards[i];
    std::vector<int64_t> numbers = {files[i]};
    numbers.insert(numbers.end(), shard.box.start.begin(), shard.box.start.end());
    numbers.insert(numbers.end(), shard.box.extent.begin(), shard.box.extent.end());
    if (!shard.HoldsBox()) numbers.insert(numbers.end(), {shard.begin, shard.end});
    list.push_back(std::move(numbers));
  }
  return list;
}

}  // namespace

absl::Status CheckTextLength(absl::string_view name, size_t bytes) {
  if (bytes <= static_cast<size_t>(kMaxTextBytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " would have ", bytes, " bytes, and at most ", kMaxTextBytes, " can be read again"));
}

absl::Status CheckNumShards(int64_t shards) {
  if (shards <= kMaxShards) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the states have ", shards, " shards, and at most ", kMaxShards, " are possible"));
}

std::string ManifestToText(const Manifest& manifest) {
  TESSERA_CHECK(manifest.state.size() == manifest.shards.size());
  std::vector<std::string> files;
  for (const Manifest::File& file : manifest.files) {
    OrderedJson record;
    record["name"] = file.name;
    record["bytes"] = file.bytes;
    record["xxh3_128"] = file.checksum;
    files.push_back(record.dump());
  }
  std::vector<std::string> state;
  for (size_t i = 0; i < manifest.state.size(); ++i) {
    const StateEntry& entry = manifest.state[i];
    OrderedJson record;
    record["path"] = entry.path;
    record["role"] = entry.role;
    record["dtype"] = absl::StrCat(DTypeName(entry.type.dtype));
    record["shape"] = std::vector<int64_t>(entry.type.shape.begin(), entry.type.shape.end());
    if (IsInOneFile(manifest, i)) {
      record["file"] = manifest.files[manifest.shard_files[i][0]].name;
    } else {
      record["shards"] = ShardsToJson(manifest.shards[i], manifest.shard_files[i]);
    }
    state.push_back(record.dump());
  }
  const std::string body = absl::StrCat(
      "{\n  \"format\": ", Quoted(kFormat), ",\n  \"format_version\": ", VersionOf(manifest),
      ",\n  \"step\": ", manifest.step, ",\n  \"rows\": ", manifest.rows,
      ",\n  \"sequence\": ", manifest.sequence,
      manifest.state_version == 1
          ? ""
          : absl::StrCat(",\n  \"state_version\": ", manifest.state_version),
      ",\n  \"plan\": ", Quoted(manifest.plan_file),
      ",\n  \"config\": ", Quoted(manifest.config_file),
      manifest.data.empty() ? "" : absl::StrCat(",\n  \"data\": ", Quoted(manifest.data)),
      manifest.run.empty() ? "" : absl::StrCat(",\n  \"run\": ", Quoted(manifest.run)),
      ",\n  \"files\": ", Lines(files), ",\n  \"state\": ", Lines(state), ",\n");
  return absl::StrCat(body, LastLine(ChecksumOfText(body)));
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  if (text.size() > static_cast<size_t>(kMaxTextBytes)) {
    return DamageError(absl::StrCat("it has ", text.size(), " bytes, and at most ", kMaxTextBytes,
                                    " are possible"));
  }
  if (!IsSealed(text)) return UnsealedError(text);
  const absl::StatusOr<Json> json = ParseStrictJson(text);
  if (!json.ok()) return DamageError(json.status().message());
  if (!IsTesseraManifest(*json)) return ForeignError();
  const absl::StatusOr<int64_t> version = IntegerMember(*json, "format_version");
  if (!version.ok()) return DamageError(version.status().message());
  if (*version < kOldestVersion || *version > kCheckpointVersion) {
    return absl::UnimplementedError(
        absl::StrCat("the checkpoint has version ", *version, ", and this Tessera reads versions ",
                     kOldestVersion, " to ", kCheckpointVersion,
                     *version > kCheckpointVersion
                         ? ": load it with a newer Tessera"
                         : ": resume it with an older Tessera, which saves it in a newer version"));
  }
  absl::StatusOr<Manifest> manifest = ParseContents(*json, *version);
  if (!manifest.ok()) return DamageError(manifest.status().message());
  return manifest;
}

}  // namespace tessera
