// A connection that carries messages (frame_reader.h), each of at most kMaxMessageBytes and
// kMaxMessageFields, with a digest (collectives/net/frame_digest.h) behind each. Only functions
// with "Wait" in their names wait.
//
// Thread safety: one thread at a time.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_FRAMED_CONNECTION_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_FRAMED_CONNECTION_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/net/frame_digest.h"
#include "collectives/net/handshake.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/frame_reader.h"
#include "collectives/rendezvous/limits.h"
#include "core/posix/file_descriptor.h"
#include "google/protobuf/message.h"

namespace tessera::comm {

class FramedConnection {
 public:
  // `keys` are those of the handshake.
  FramedConnection(FileDescriptor socket, const SessionKeys& keys)
      : socket_(std::move(socket)), sender_(keys.send), receiver_(keys.receive) {}

  int fd() const { return socket_.get(); }
  // "10.0.0.2:40123", or "?" if the connection has ended.
  std::string peer_address() const;

  // Receives some of the bytes that have arrived. Unavailable if the other side has closed; Next
  // still returns the messages that arrived before.
  absl::Status Receive();
  // Reads the next complete message into `message` and returns true, or false if there is none yet.
  // InvalidArgument if the bytes are not a message of this type, or if it is too long; DataLoss if
  // its digest is wrong, with a message that continues "it was ...".
  absl::StatusOr<bool> Next(google::protobuf::Message* message);

  // Queues a message to be sent after those already queued.
  void Queue(const google::protobuf::Message& message);
  // Sends as much as the system accepts. Unavailable if the other side has closed.
  absl::Status Flush();
  int64_t queued_bytes() const { return static_cast<int64_t>(output_.size() - sent_); }

  // Waits until everything queued is sent and the next message has arrived. DeadlineExceeded, or an
  // error of Flush, Receive or Next.
  absl::Status WaitForAnswer(google::protobuf::Message* message, Deadline deadline);

 private:
  const FileDescriptor socket_;
  FrameDigest sender_, receiver_;
  uint64_t queued_messages_ = 0, read_messages_ = 0;  // which number the frames
  FrameReader reader_{kMaxMessageBytes + kFrameDigestBytes};
  std::string output_;
  size_t sent_ = 0;  // of `output_`
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_FRAMED_CONNECTION_H_
