// Makes files in the IDX format, for tests.
#ifndef TESSERA_CORE_TRAIN_DATA_TESTING_IDX_FILES_H_
#define TESSERA_CORE_TRAIN_DATA_TESTING_IDX_FILES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

// Returns the contents of a file with this header and data, right or wrong.
std::string IdxContents(absl::Span<const uint32_t> sizes, absl::string_view data,
                        uint8_t type = 0x08);

// Returns `bytes` bytes that are not all alike.
std::string SomeBytes(int64_t bytes);

// Compresses as gzip does. `level` is 0 (copies) to 9.
std::string Gzip(absl::string_view data, int level = 6);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_TESTING_IDX_FILES_H_
