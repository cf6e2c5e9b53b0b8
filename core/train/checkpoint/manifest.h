// manifest.json, which describes a checkpoint. It is written last, and names all other files.
//
//   {
//     "format": "tessera-checkpoint",
//     "format_version": 3,
//     "step": 120,
//     "rows": 1920,
//     "sequence": 128,
//     "state_version": 2,
//     "plan": "plan.textproto",
//     "config": "config.textproto",
//     "data": "text of 4351234 bytes, XXH3-128 ...",
//     "run": "0123456789abcdef0123456789abcdef",
//     "files": [
//       {"name": "parameters.safetensors", "bytes": 1234, "xxh3_128": "..."}, ...
//     ],
//     "state": [
//       {"path": "blocks.0.w", "role": "parameter", "dtype": "f32", "shape": [2, 3],
//        "file": "parameters.safetensors"},
//       {"path": "blocks.1.w", "role": "parameter", "dtype": "f32", "shape": [8, 4],
//        "shards": [[0, 0, 0, 6, 4], [1, 6, 0, 2, 4, 0, 3], [2, 6, 0, 2, 4, 3, 8]]}, ...
//     ],
//     "xxh3_128": "..."
//   }
//
// A state has a "file" if that holds all of it. Otherwise it has "shards", which hold each of its
// elements once: [FILE, START..., EXTENT...] is a box of the global tensor, with a start and an
// extent along each dimension, and [FILE, START..., EXTENT..., BEGIN, END] is the range [BEGIN,
// END) of the elements of such a box, row-major. FILE is an index in "files". A file is in
// safetensors format; it has a tensor for each shard, named TensorNameOf (state_files.h). A state
// without elements has no shards.
//
// Version 4 has running statistics, states of the role "statistic". A checkpoint without any is
// written in version 3. Version 2 is read too. It has "batches" instead of "rows" and "sequence":
// the global batches that training had taken.
//
// "run" identifies the run that saved the checkpoint (core/train/run_identity.h): a run removes its
// own checkpoints only. It has at most 64 letters and digits. Some checkpoints of version 2 have
// none.
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
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/state_entry.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

// The newest version; the one that is written if no state is a running statistic; and the oldest
// one that is read.
inline constexpr int64_t kCheckpointVersion = 4;
inline constexpr int64_t kVersionWithoutStatistics = 3;
inline constexpr int64_t kOldestVersion = 2;

// The most bytes of each of these texts: a manifest, the header of a safetensors file (which names
// the same tensors in about as many bytes), a plan, a configuration. The largest preset, gpt3_175b,
// has a manifest of 441 KB and headers and a plan of less; the bound leaves room for 38 times as
// many states. Parsing may take 30 times the bytes of a text, so memory is bounded too.
inline constexpr int64_t kMaxTextBytes = int64_t{16} << 20;
// The most shards of all states together. gpt3_175b has 3500 states, of which each may be split
// over 149 ranks. Shards take 140 bytes each in memory.
inline constexpr int64_t kMaxShards = int64_t{1} << 19;
// The most steps: a run that takes one each microsecond needs 30 years for them.
inline constexpr int64_t kMaxSteps = 1'000'000'000'000'000;
// The most rows, and tokens of a row.
inline constexpr int64_t kMaxRows = std::numeric_limits<int64_t>::max() / 4;
inline constexpr int64_t kMaxSequence = std::numeric_limits<int32_t>::max();

struct Manifest {
  using File = FileRecord;

  int64_t step = 0;
  // The position in the data: the rows that training has taken, and the tokens of each. Version 2
  // counts global batches instead, and has no sequence (0).
  int64_t rows = 0;
  int64_t sequence = 0;
  int64_t batches = 0;
  int64_t state_version = 1;
  std::string plan_file;
  std::string config_file;
  std::string data;  // the fingerprint of the training data; "" if it is not known
  std::string run;   // the identity of the run that saved it; "" if it is not known
  std::vector<File> files;
  std::vector<StateEntry> state;
  std::vector<std::vector<StateShard>> shards;  // of each entry of `state`
  std::vector<std::vector<int>> shard_files;    // for each of those, the index of its file
};

// Returns InvalidArgument if a text of that many bytes could not be read again.
absl::Status CheckTextLength(absl::string_view name, size_t bytes);
// Returns InvalidArgument if that many shards could not be read again.
absl::Status CheckNumShards(int64_t shards);

// Returns the text of a manifest that has a sequence. All its strings must be UTF-8.
std::string ManifestToText(const Manifest& manifest);

// Returns InvalidArgument for another program's manifest, Unimplemented for another version, and
// DataLoss for a damaged manifest. Texts whose checksum does not match are not parsed. In the
// result, the shards of each state hold each of its elements once.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_MANIFEST_H_
