// The header of a safetensors file, which lists its tensors and their offsets.
//
// The format (github.com/huggingface/safetensors, README): 8 bytes, little-endian, the length of
// the JSON text that follows; that text, {"NAME": {"dtype": "F32", "shape": [2, 3],
// "data_offsets": [BEGIN, END]}, ...}, with spaces after it; then the data: the tensors, one after
// another without gaps, row-major and little-endian. Offsets count from the start of the data.
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

// The length of the prefix before the JSON text.
inline constexpr int64_t kSafetensorsPrefixBytes = 8;
// The format's limit for the JSON text.
inline constexpr int64_t kSafetensorsMaxJsonBytes = 100'000'000;

// Everything before the data, as bytes and parsed.
struct SafetensorsHeader {
  std::string bytes;                       // the start of the file
  std::vector<SafetensorsTensor> tensors;  // in the order of their offsets
  int64_t data_bytes = 0;
};

// Makes the header of a file with these tensors, and fills in their begin and end. The text is byte
// for byte as Python's safetensors writes it: wider dtypes come first, so that every tensor is
// aligned, then names in order. Returns InvalidArgument for names that the format cannot hold
// (empty, duplicate, not UTF-8, "__metadata__"), and for a shape with a negative size or too many
// bytes.
absl::StatusOr<SafetensorsHeader> MakeSafetensorsHeader(std::vector<SafetensorsTensor> tensors);

// Returns the length of the JSON text in a file of `file_bytes` that starts with `prefix` (8
// bytes). Returns DataLoss if it is longer than the file or the format allows, before memory is
// allocated for it.
absl::StatusOr<int64_t> SafetensorsJsonBytes(absl::string_view prefix, int64_t file_bytes);

// Parses the JSON text of a file with `data_bytes` bytes of data. Returns DataLoss for a violation
// of the format, and Unimplemented, with the name, for a dtype that Tessera does not have.
absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensorsJson(absl::string_view json,
                                                                    int64_t data_bytes);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_SAFETENSORS_H_
