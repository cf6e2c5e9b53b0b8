// Messages on a byte stream: each is a frame, 4 bytes with its length in bytes, little-endian, then
// as many bytes.
//
// A length that came from the network is only ever compared: memory is taken for bytes that are
// there, not for bytes that were announced.
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

// Takes a stream apart, in whatever pieces it comes. One thread at a time.
class FrameReader {
 public:
  // Messages of more than `max_bytes` are refused.
  explicit FrameReader(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // For the messages that Next has not returned yet.
  void set_max_bytes(int64_t max_bytes) { max_bytes_ = max_bytes; }

  void Feed(absl::Span<const char> bytes);

  // Takes the next whole message: true, and it is in `message`, or false if there is none yet.
  // InvalidArgument if the stream announces too long a message; it is then of no more use.
  absl::StatusOr<bool> Next(std::string* message);

  // Fed, and not returned yet: less than a message of the greatest length, where each Feed is
  // followed by calls of Next until there is none.
  int64_t buffered_bytes() const { return static_cast<int64_t>(buffer_.size() - begin_); }

 private:
  int64_t max_bytes_;
  std::string buffer_;
  size_t begin_ = 0;  // of what has not been returned
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_FRAME_READER_H_
