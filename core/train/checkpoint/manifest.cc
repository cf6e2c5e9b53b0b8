#include "core/train/checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checksum.h"
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

// The checksum that belongs into the last line of a text with this body.
std::string ChecksumOfText(absl::string_view body) {
  const std::string text = absl::StrCat(body, LastLine(kNoChecksum));
  return ChecksumOf(text);
}

// A JSON list with one line for each record, for people and for diff.
std::string Lines(const std::vector<std::string>& records) {
  if (records.empty()) return "[]";
  return absl::StrCat("[\n    ", absl::StrJoin(records, ",\n    "), "\n  ]");
}

std::string Quoted(const std::string& text) { return Json(text).dump(); }

// Whether a file name stays within its folder: no path, and neither "." nor "..".
bool IsPlainName(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." && !absl::StrContains(name, '/') &&
         !absl::StrContains(name, '\0');
}

absl::Status ParseFiles(const Json& json, Manifest* manifest) {
  ASSIGN_OR_RETURN(const Json* files, ArrayMember(json, "files"));
  absl::flat_hash_set<std::string> names;
  for (const Json& record : *files) {
    Manifest::File file;
    ASSIGN_OR_RETURN(file.name, StringMember(record, "name"));
    ASSIGN_OR_RETURN(file.bytes, IntegerMember(record, "bytes"));
    ASSIGN_OR_RETURN(file.checksum, StringMember(record, "xxh3_128"));
    if (!IsPlainName(file.name) || !names.insert(file.name).second) {
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

absl::Status ParseState(const Json& json, Manifest* manifest) {
  ASSIGN_OR_RETURN(const Json* state, ArrayMember(json, "state"));
  absl::flat_hash_set<std::string> paths;
  for (const Json& record : *state) {
    StateEntry entry;
    ASSIGN_OR_RETURN(entry.path, StringMember(record, "path"));
    ASSIGN_OR_RETURN(entry.role, StringMember(record, "role"));
    if (entry.role != kParameterRole && entry.role != kOptimizerRole) {
      return absl::DataLossError(absl::StrCat("the state ", Quote(entry.path), " has the role ",
                                              Quote(entry.role),
                                              ", which is neither 'parameter' nor 'optimizer'"));
    }
    ASSIGN_OR_RETURN(const std::string dtype, StringMember(record, "dtype"));
    ASSIGN_OR_RETURN(entry.type.dtype, ParseDType(dtype));
    ASSIGN_OR_RETURN(entry.type.shape, ShapeMember(record, "shape"));
    RETURN_IF_ERROR(CheckedNumBytes(entry.type).status());
    ASSIGN_OR_RETURN(std::string file, StringMember(record, "file"));
    if (!paths.insert(entry.path).second) {
      return absl::DataLossError(absl::StrCat("the state ", Quote(entry.path), " is listed twice"));
    }
    manifest->state.push_back(std::move(entry));
    manifest->state_files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

// A count of steps or batches.
absl::StatusOr<int64_t> StepsMember(const Json& json, const char* key) {
  ASSIGN_OR_RETURN(const int64_t steps, IntegerMember(json, key));
  if (steps <= kMaxSteps) return steps;
  return absl::DataLossError(
      absl::StrCat("\"", key, "\" is ", steps, ", above the largest possible, ", kMaxSteps));
}

absl::StatusOr<Manifest> ParseContents(const Json& json) {
  Manifest manifest;
  ASSIGN_OR_RETURN(manifest.step, StepsMember(json, "step"));
  ASSIGN_OR_RETURN(manifest.batches, StepsMember(json, "batches"));
  if (json.contains("state_version")) {
    ASSIGN_OR_RETURN(manifest.state_version, IntegerMember(json, "state_version"));
    if (manifest.state_version < 1) {
      return absl::DataLossError("\"state_version\" is 0, and the first version is 1");
    }
  }
  // Checkpoints of older versions have none.
  if (json.contains("data")) {
    ASSIGN_OR_RETURN(manifest.data, StringMember(json, "data"));
  }
  RETURN_IF_ERROR(ParseFiles(json, &manifest));
  RETURN_IF_ERROR(ParseState(json, &manifest));
  return manifest;
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the manifest is damaged: ", what));
}

// Whether the last line is there and holds the checksum of the text.
bool IsSealed(absl::string_view text) {
  const size_t last_bytes = LastLine(kNoChecksum).size();
  const absl::string_view body = text.substr(0, text.size() - std::min(text.size(), last_bytes));
  return absl::StrCat(body, LastLine(ChecksumOfText(body))) == text;
}

absl::Status Foreign() {
  return absl::InvalidArgumentError(
      absl::StrCat("this is no checkpoint of Tessera: \"format\" is not ", Quoted(kFormat)));
}

bool IsOurs(const Json& json) {
  const absl::StatusOr<std::string> format = StringMember(json, "format");
  return format.ok() && *format == kFormat;
}

// The error for a text without a right checksum. Manifests of other programs are small; a longer
// text is not parsed.
absl::Status NotSealed(absl::string_view text) {
  constexpr size_t kMaxForeignBytes = 64 << 10;
  if (text.size() <= kMaxForeignBytes) {
    const absl::StatusOr<Json> json = ParseStrictJson(text);
    if (!json.ok()) return Damaged(json.status().message());
    if (!IsOurs(*json)) return Foreign();
  }
  return Damaged("its checksum is not that of its text");
}

}  // namespace

std::string ManifestToText(const Manifest& manifest) {
  TESSERA_CHECK(manifest.state.size() == manifest.state_files.size());
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
    record["file"] = manifest.state_files[i];
    state.push_back(record.dump());
  }
  const std::string body = absl::StrCat(
      "{\n  \"format\": ", Quoted(kFormat), ",\n  \"format_version\": ", kCheckpointVersion,
      ",\n  \"step\": ", manifest.step, ",\n  \"batches\": ", manifest.batches,
      manifest.state_version == 1
          ? ""
          : absl::StrCat(",\n  \"state_version\": ", manifest.state_version),
      ",\n  \"plan\": ", Quoted(manifest.plan_file),
      ",\n  \"config\": ", Quoted(manifest.config_file),
      manifest.data.empty() ? "" : absl::StrCat(",\n  \"data\": ", Quoted(manifest.data)),
      ",\n  \"files\": ", Lines(files), ",\n  \"state\": ", Lines(state), ",\n");
  return absl::StrCat(body, LastLine(ChecksumOfText(body)));
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  if (text.size() > static_cast<size_t>(kMaxTextBytes)) {
    return Damaged(absl::StrCat("it has ", text.size(), " bytes, and at most ", kMaxTextBytes,
                                " are possible"));
  }
  if (!IsSealed(text)) return NotSealed(text);
  const absl::StatusOr<Json> json = ParseStrictJson(text);
  if (!json.ok()) return Damaged(json.status().message());
  if (!IsOurs(*json)) return Foreign();
  const absl::StatusOr<int64_t> version = IntegerMember(*json, "format_version");
  if (!version.ok()) return Damaged(version.status().message());
  if (*version != kCheckpointVersion) {
    return absl::UnimplementedError(absl::StrCat("the checkpoint has version ", *version,
                                                 ", and this Tessera reads version ",
                                                 kCheckpointVersion));
  }
  absl::StatusOr<Manifest> manifest = ParseContents(*json);
  if (!manifest.ok()) return Damaged(manifest.status().message());
  return manifest;
}

}  // namespace tessera
