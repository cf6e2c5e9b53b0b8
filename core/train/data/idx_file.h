// Reads files in the IDX format, that of MNIST and Fashion-MNIST, compressed by gzip or not.
//
// A file is: two zero bytes, a byte for the type of the elements, a byte for the number of
// dimensions, the size of each dimension in 4 bytes, and the elements in row-major order. Numbers
// are big-endian. Only files of bytes (type 0x08) are read.
// (http://yann.lecun.com/exdb/mnist, "the IDX file format")
#ifndef TESSERA_CORE_TRAIN_DATA_IDX_FILE_H_
#define TESSERA_CORE_TRAIN_DATA_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/shape.h"

namespace tessera {

// The contents of a file. They are a copy: whoever changes the file later, or makes it shorter,
// changes nothing here.
struct IdxFile {
  std::string path;           // for messages
  Shape shape;                // 1 to kMostIdxDimensions dimensions, each of at least 1
  std::vector<uint8_t> data;  // [NumElements(shape)]
};

inline constexpr int kMostIdxDimensions = 8;
// A larger file is refused: it would have to be mapped instead of copied.
inline constexpr int64_t kMostIdxBytes = int64_t{8} << 30;

// Reads a file. Whether it is compressed is recognised by its contents, not by its name.
//
// The system's error, or InvalidArgument for a file that is no IDX file, has elements of another
// type, or has fewer or more data than its header says. Every message is one line that starts with
// the path. Before memory is allocated, the sizes in the header are compared with what the file can
// hold, so a damaged or malicious header costs no memory. FailedPrecondition if the file is made
// shorter while it is read. Thread-safe.
absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path);

// Does the same with the contents of a file. `path` is for messages. Thread safety: a pure
// function.
absl::StatusOr<IdxFile> ParseIdxFile(const std::string& path, absl::string_view contents);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_IDX_FILE_H_
