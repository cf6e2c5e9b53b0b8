// Checks that arbitrary texts of a checkpoint are read or refused. The first byte of the input
// selects the reader: "m" a manifest (with a corrected checksum), "s" the header of a safetensors
// file, and any other byte a configuration.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/status/check.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/safetensors.h"
#include "core/train/checkpoint/state_shard.h"
#include "core/train/config/config_editor.h"
#include "core/train/config/testing/test_model.pb.h"

namespace tessera {
namespace {

// Checks that each element of a state is in exactly one shard. Only for states of few elements,
// since it counts them one by one.
void CheckShards(const Manifest& manifest) {
  constexpr int64_t kMostElements = 10'000;
  for (size_t i = 0; i < manifest.state.size(); ++i) {
    const Shape& shape = manifest.state[i].type.shape;
    for (int file : manifest.shard_files[i]) {
      TESSERA_CHECK(file >= 0 && file < static_cast<int>(manifest.files.size())) << file;
    }
    if (NumElements(shape) > kMostElements) continue;
    std::vector<int> holders(NumElements(shape), 0);
    for (const StateShard& shard : manifest.shards[i]) {
      TESSERA_CHECK(CheckShard(shard, shape).ok()) << CheckShard(shard, shape);
      SharedRuns runs(FullShard(shape), shard);
      while (const std::optional<SharedRun> run = runs.Next()) {
        for (int64_t k = 0; k < run->count; ++k) ++holders[run->first + k];
      }
    }
    for (int count : holders) TESSERA_CHECK(count == 1) << manifest.state[i].path;
  }
}

void FuzzManifest(absl::string_view text) {
  const std::string zeros(32, '0');
  std::string sealed = "\"xxh3_128\": \"" + zeros + "\"\n}\n";
  sealed = std::string(text.data(), text.size()) + "  " + sealed;
  const size_t at = sealed.rfind(zeros);
  sealed.replace(at, zeros.size(), ChecksumOf(sealed));
  const absl::StatusOr<Manifest> manifest = ParseManifest(sealed);
  if (!manifest.ok()) {
    TESSERA_CHECK(!manifest.status().message().empty()) << "no message";
    return;
  }
  TESSERA_CHECK(manifest->step >= 0 && manifest->step <= kMaxSteps) << manifest->step;
  CheckShards(*manifest);
  if (manifest->sequence == 0) return;  // version 2, which is not written
  const std::string again = ManifestToText(*manifest);
  const absl::StatusOr<Manifest> same = ParseManifest(again);
  TESSERA_CHECK(same.ok()) << same.status();
  TESSERA_CHECK(ManifestToText(*same) == again) << again;
}

void FuzzHeader(absl::string_view json) {
  constexpr int64_t kDataBytes = 75;
  const auto tensors = ParseSafetensorsJson(json, kDataBytes);
  if (!tensors.ok()) return;
  int64_t end = 0;
  for (const SafetensorsTensor& tensor : *tensors) {
    TESSERA_CHECK(tensor.begin == end && tensor.end >= end) << tensor.begin;
    end = tensor.end;
  }
  TESSERA_CHECK(end == kDataBytes) << end;
}

void FuzzConfig(absl::string_view text) {
  ConfigEditor config({}, TestModelConfig());
  if (!config.MergeText(text, "fuzz").ok()) return;
  const std::string once = config.ToText();
  ConfigEditor other({}, TestModelConfig());
  const absl::Status status = other.MergeText(once, "again");
  TESSERA_CHECK(status.ok()) << status;
  TESSERA_CHECK(other.ToText() == once) << once;
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'm':
      tessera::FuzzManifest(text);
      break;
    case 's':
      tessera::FuzzHeader(text);
      break;
    default:
      tessera::FuzzConfig(text);
  }
  return 0;
}
