// Decompresses gzip data that lie in memory, piece by piece.
#ifndef TESSERA_CORE_TRAIN_DATA_GZIP_READER_H_
#define TESSERA_CORE_TRAIN_DATA_GZIP_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct z_stream_s;

namespace tessera {

// Returns whether data begin as gzip data do.
bool IsGzip(absl::string_view data);

// One thread at a time.
class GzipReader {
 public:
  // A byte of compressed data becomes at most this many: two bits name a copy of 258 bytes.
  static constexpr int64_t kMostBytesPerByte = 1032;

  // `compressed` must outlive this.
  explicit GzipReader(absl::string_view compressed);

  // Decompresses the next bytes into `bytes` and returns how many they are: all, or fewer at the
  // end of the data. Uses no memory in proportion to the data. Data that consist of several gzip
  // members one after another are their contents one after another, as for gunzip.
  //
  // InvalidArgument, without a name of the data, if they are incomplete, damaged or followed by
  // something else. Every later call returns the same error.
  absl::StatusOr<size_t> Read(absl::Span<char> bytes);

 private:
  struct Free {
    void operator()(z_stream_s* stream) const;
  };

  // Decompresses some bytes of a member, and returns how many.
  absl::StatusOr<size_t> Inflate(absl::Span<char> bytes);
  absl::Status BeginMember();

  const absl::string_view compressed_;
  absl::string_view rest_;
  std::unique_ptr<z_stream_s, Free> stream_;
  bool in_member_ = true;
  absl::Status status_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_GZIP_READER_H_
