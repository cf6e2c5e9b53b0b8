// One end of a connection of the rendezvous.
#ifndef TESSERA_TESTS_FUZZ_FRAMES_H_
#define TESSERA_TESTS_FUZZ_FRAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "collectives/net/frame_digest.h"
#include "collectives/net/handshake.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/frame_reader.h"
#include "collectives/rendezvous/limits.h"
#include "google/protobuf/message_lite.h"
#include "tests/fuzz/input.h"

namespace tessera::comm {

// Bytes that a fuzzer sends: messages, or bytes that need not be frames.
struct Stream {
  std::vector<std::string> messages;
  std::string bytes;  // behind the messages
};
// Returns the rest of an input.
Stream TakeStream(Input& input);

class Frames {
 public:
  // For an end that has no keys: its messages have no digests.
  explicit Frames(FileDescriptor socket);
  Frames(FileDescriptor socket, const SessionKeys& keys);

  // Reads the next message, whose digest must be right; returns false if the other end has closed.
  bool Read(google::protobuf::MessageLite* message);
  // Write as much as the other end takes. Messages are sent with their digests.
  void Write(const Stream& stream);
  void Write(const google::protobuf::MessageLite& message);
  // Closes this direction, and reads until the other end closes.
  void Finish();

 private:
  // Receives some bytes; returns false if the other end has closed.
  bool Receive();
  std::string FrameOf(std::string message);
  void WriteBytes(absl::string_view bytes);

  const FileDescriptor socket_;
  std::optional<FrameDigest> sender_, receiver_;
  uint64_t written_ = 0, read_ = 0;  // messages
  FrameReader reader_{kMaxMessageBytes + kFrameDigestBytes};
};

}  // namespace tessera::comm

#endif  // TESSERA_TESTS_FUZZ_FRAMES_H_
