// Messages on a byte stream. Each is a frame: 4 bytes with its length, little-endian, and as many
// bytes.
//
// A length from the network is only compared: memory is allocated for bytes that have arrived, not
// for bytes that were announced.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_FRAME_READER_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_FRAME_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera::comm {

inline constexpr int64_t kFramePrefixBytes = 4;

// `message` with its length before it. It must be shorter than 2^32 bytes.
std::string MakeFrame(absl::string_view message);

// Splits a stream into messages, however its bytes arrive. One thread at a time.
class FrameReader {
 public:
  // Messages of more than `max_bytes` are refused.
  explicit FrameReader(int64_t max_bytes) : max_bytes_(max_bytes) {}

  void Feed(absl::Span<const char> bytes);

  // Copies the next complete message to `message` and returns true, or false if there is none yet.
  // InvalidArgument if the stream announces a message that is too long; no more can be read then.
  absl::StatusOr<bool> Next(std::string* message);

  // Bytes fed and not returned yet: less than the longest message, if each Feed is followed by
  // calls of Next until it returns false.
  int64_t buffered_bytes() const { return static_cast<int64_t>(buffer_.size() - begin_); }

 private:
  const int64_t max_bytes_;
  std::string buffer_;
  size_t begin_ = 0;  // in buffer_, of the bytes that have not been returned
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_FRAME_READER_H_
