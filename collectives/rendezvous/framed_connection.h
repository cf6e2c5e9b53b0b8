// A connection that carries messages (frame_reader.h). Nothing here waits, unless its name says so.
//
// Thread safety: one thread may receive while another one sends.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_FRAMED_CONNECTION_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_FRAMED_CONNECTION_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/rendezvous/frame_reader.h"
#include "collectives/rendezvous/socket.h"
#include "google/protobuf/message_lite.h"

namespace tessera::comm {

class FramedConnection {
 public:
  // Messages of more than `max_bytes` are refused.
  FramedConnection(FileDescriptor socket, int64_t max_bytes)
      : socket_(std::move(socket)), reader_(max_bytes) {}

  int fd() const { return socket_.get(); }
  void set_max_bytes(int64_t max_bytes) { reader_.set_max_bytes(max_bytes); }

  // Takes some of what has come. Unavailable if the other side has closed; what came before can
  // still be had from Next.
  absl::Status Receive();
  // Takes the next whole message: true, and it is in `message`, or false if there is none yet.
  // InvalidArgument if what came is no such message, or too long.
  absl::StatusOr<bool> Next(google::protobuf::MessageLite* message);

  // Puts a message behind those that are still to be sent.
  void Queue(const google::protobuf::MessageLite& message);
  // Sends what can be sent. Unavailable if the other side has closed.
  absl::Status Flush();
  int64_t queued_bytes() const { return static_cast<int64_t>(output_.size() - sent_); }

  // Wait for the next message, and until all is sent. DeadlineExceeded; else as above.
  absl::Status WaitForNext(google::protobuf::MessageLite* message, Deadline deadline);
  absl::Status WaitUntilFlushed(Deadline deadline);

 private:
  const FileDescriptor socket_;
  FrameReader reader_;
  std::string output_;
  size_t sent_ = 0;  // of `output_`
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_FRAMED_CONNECTION_H_
