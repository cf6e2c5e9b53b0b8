// One end of a connection of the rendezvous.
#ifndef TESSERA_TESTS_FUZZ_FRAMES_H_
#define TESSERA_TESTS_FUZZ_FRAMES_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/frame_reader.h"
#include "collectives/rendezvous/limits.h"
#include "google/protobuf/message_lite.h"
#include "tests/fuzz/input.h"

namespace tessera::comm {

class Frames {
 public:
  explicit Frames(FileDescriptor socket) : socket_(std::move(socket)) {}

  // Reads the next message; returns false if the other end has closed.
  bool Read(google::protobuf::MessageLite* message);
  // Writes as much as the other end takes.
  void Write(absl::string_view bytes);
  void Write(const google::protobuf::MessageLite& message) {
    Write(MakeFrame(message.SerializeAsString()));
  }
  // Closes this direction, and reads until the other end closes.
  void Finish();

 private:
  // Receives some bytes; returns false if the other end has closed.
  bool Receive();

  const FileDescriptor socket_;
  FrameReader reader_{kMaxMessageBytes};
};

// Returns the rest of an input, as messages or as arbitrary bytes.
std::string TakeStream(Input& input);

}  // namespace tessera::comm

#endif  // TESSERA_TESTS_FUZZ_FRAMES_H_
