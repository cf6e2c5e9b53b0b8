// manifest.json, which describes a checkpoint. It is written last, and names all other files.
//
//   {
//     "format": "tessera-checkpoint",
//     "format_version": 1,
//     "step": 120,
//     "batches": 120,
//     "state_version": 2,
//     "plan": "plan.textproto",
//     "config": "config.textproto",
//     "data": "text of 4351234 bytes, XXH3-128 ...",
//     "files": [
//       {"name": "parameters.safetensors", "bytes": 1234, "xxh3_128": "..."}, ...
//     ],
//     "state": [
//       {"path": "blocks.0.w", "role": "parameter", "dtype": "f32", "shape": [2, 3],
//        "file": "parameters.safetensors"}, ...
//     ],
//     "xxh3_128": "..."
//   }
//
// "state_version" is the version of the shapes of the model's states (Model::state_version);
// without it, the version is 1.
//
// The last line holds the checksum of this text, computed with 32 zeros in place of the checksum.
// "format", "format_version" and the last line keep their meaning in every later version, so that a
// newer version can be distinguished from a damaged file.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_MANIFEST_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/train/checkpoint/state_entry.h"

namespace tessera {

inline constexpr int64_t kCheckpointVersion = 1;

// The most bytes of a manifest, of a header of a safetensors file (which names the same tensors in
// as many bytes), of a plan and of a configuration. The largest preset, gpt3_175b, has a manifest
// of 441 KB and headers and a plan of less; the bound leaves room for 38 times as many states.
// Parsing may take 30 times the bytes of a text, so memory is bounded too.
inline constexpr int64_t kMaxTextBytes = int64_t{16} << 20;
// The most steps: a run that takes one each microsecond needs 30 years for them.
inline constexpr int64_t kMaxSteps = 1'000'000'000'000'000;

struct Manifest {
  struct File {
    std::string name;
    int64_t bytes = 0;
    std::string checksum;  // XXH3-128, 32 hexadecimal digits
  };

  int64_t step = 0;
  int64_t batches = 0;  // position in the data: global batches that training has taken
  int64_t state_version = 1;
  std::string plan_file;
  std::string config_file;
  std::string data;  // the fingerprint of the training data; "" if it is not known
  std::vector<File> files;
  std::vector<StateEntry> state;
  std::vector<std::string> state_files;  // for each entry of `state`, the name of its file
};

// All strings must be UTF-8.
std::string ManifestToText(const Manifest& manifest);

// Returns InvalidArgument for another program's manifest, Unimplemented for an unknown version, and
// DataLoss for a damaged manifest. Texts whose checksum does not match are not parsed.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_MANIFEST_H_
