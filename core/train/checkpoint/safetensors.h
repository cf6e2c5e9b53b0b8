// The header of a safetensors file: which tensors it has, and where.
//
// The format (github.com/huggingface/safetensors, README): 8 bytes, little-endian, the length of
// the JSON text that follows; that text, {"NAME": {"dtype": "F32", "shape": [2, 3],
// "data_offsets": [BEGIN, END]}, ...}, with spaces after it; then the data, where tensors lie one
// after another with no gap, row-major and little-endian. Offsets count from the start of the data.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_SAFETENSORS_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/shape.h"

namespace tessera {

struct SafetensorsTensor {
  std::string name;
  TensorType type;
  int64_t begin = 0;  // byte in the file's data
  int64_t end = 0;
};

// Bytes before the JSON text.
inline constexpr int64_t kSafetensorsPrefixBytes = 8;
// What the format allows the JSON text to have.
inline constexpr int64_t kSafetensorsMaxJsonBytes = 100'000'000;

// All that comes before the data, and what it says.
struct SafetensorsHeader {
  std::string bytes;                       // what the file starts with
  std::vector<SafetensorsTensor> tensors;  // in the order in which they lie
  int64_t data_bytes = 0;
};

// The header of a file with these tensors; begin and end are filled in. As in files from Python's
// safetensors, tensors of wider dtypes come first, so that each is aligned, then names decide; the
// text is byte for byte what Python writes. InvalidArgument for names that the format cannot hold:
// empty, twice, not UTF-8, "__metadata__"; or a shape with a negative size or too many bytes.
absl::StatusOr<SafetensorsHeader> MakeSafetensorsHeader(std::vector<SafetensorsTensor> tensors);

// How long the JSON text is, of a file of `file_bytes` that starts with `prefix` (8 bytes).
// DataLoss if it is longer than the file or the format allows, so that nobody allocates for
// nothing.
absl::StatusOr<int64_t> SafetensorsJsonBytes(absl::string_view prefix, int64_t file_bytes);

// Reads the JSON text of a file with so many bytes of data. Whatever is not as the format says is
// DataLoss; a dtype that Tessera has not is Unimplemented and named.
absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensorsJson(absl::string_view json,
                                                                    int64_t data_bytes);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_SAFETENSORS_H_
