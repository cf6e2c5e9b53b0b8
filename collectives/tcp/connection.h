// A connection to a peer. It writes messages in the order of the calls of Send and passes incoming
// ones to a receiver. Nothing here blocks.
//
// With Integrity::kControl a message's digest covers its header, and the bytes that follow if
// Header::coverage is not 0 in Send or if there are few; with kAll it covers all messages
// completely. The header itself says what the digest covers, so only the sender decides. A message
// with a wrong digest does not reach Receiver::MessageArrived and closes the connection.
//
// Thread safety: none.
#ifndef TESSERA_COLLECTIVES_TCP_CONNECTION_H_
#define TESSERA_COLLECTIVES_TCP_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "collectives/net/frame_digest.h"
#include "collectives/net/handshake.h"
#include "collectives/net/integrity.h"
#include "collectives/tcp/message.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm::tcp {

// Interface that is notified of incoming messages. `from` is the rank in the network of the peer
// that sent one.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // Called when a header has arrived. Sets *address to the memory for the bytes that follow it, or
  // leaves it null to discard them. Returns false if the header is invalid. If the digest covers
  // these bytes, it is checked later: the header may still turn out to have been changed on the
  // way.
  virtual bool HeaderArrived(int from, const Header& header, char** address) = 0;
  // Called when the complete message has arrived.
  virtual void MessageArrived(int from, const Header& header) = 0;
};

// The same choice of digests at both ends. Without digests the keys may be empty.
struct ConnectionSecurity {
  Integrity integrity = Integrity::kNone;
  SessionKeys keys = {};
};

class Connection {
 public:
  // The socket to the rank `peer` is non-blocking. `receiver` outlives the connection.
  Connection(FileDescriptor socket, int peer, Receiver* receiver,
             const ConnectionSecurity& security = {});
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_.get(); }
  // Return whether and why the connection is closed. Nothing more arrives on it, and anything sent
  // is lost, except after a wrong digest (was_changed): what this rank sends still arrives, if the
  // socket accepts it at once, so that the peer learns the reason.
  bool is_closed() const { return is_closed_; }
  bool was_changed() const { return was_changed_; }
  // Returns whether bytes can still be sent.
  bool is_open_for_output() const { return !output_broken_; }
  const std::string& why_closed() const { return why_closed_; }
  bool has_output() const { return !output_.empty(); }
  int64_t bytes_written() const { return bytes_written_; }  // without headers

  // Writes as much as the socket accepts; Flush writes the rest. If `pending` is null, the
  // unwritten data is copied. Otherwise the caller keeps the data in place, and *pending is one
  // higher until it is written.
  void Send(const Header& header, const char* data, int* pending);
  void Flush();
  // Reads the bytes that have arrived, or only some if there are many. Returns whether there were
  // any. After a wrong digest they are discarded.
  bool Read();
  // Until the next Read, the socket is reported as readable only when the incoming message is
  // complete, because each wake-up takes cycles from the computation.
  void WakeOnMessage();

  // Stops sending data of a group, and no longer accesses its memory.
  void Drop(uint64_t group);

  // Returns how many bytes the peer's system has not acknowledged.
  int64_t UnacknowledgedBytes() const;

 private:
  struct Outgoing {
    Header header;
    const char* data = nullptr;             // still to be written
    int64_t bytes = 0;                      // of data
    int64_t header_bytes = sizeof(Header);  // of the header, to be written
    bool has_digest = false;
    int* pending = nullptr;
    std::vector<char> copy;
  };
  // The size of a request with all its data.
  static constexpr int64_t kInputBytes = sizeof(Header) + kEagerBytes;

  // Calls writev once. Returns false if the socket accepts no more.
  bool Write();
  // Removes the next `bytes` of output_, which the socket has accepted.
  void BytesWritten(int64_t bytes);
  // Sets the digest of a message of which nothing has been written.
  void SetDigest(Outgoing& message, uint64_t number);
  void Close(std::string why);
  // Ends the digest of the incoming message; closes the connection and returns false if it is
  // wrong.
  bool CheckDigest();
  void CloseForWrongDigest();
  // Reads and drops what has arrived, so that the peer still gets what this rank has sent.
  void DiscardInput();
  // Parses incoming bytes. Those that are not part of a large message are first read into input_.
  void Parse(const char* data, int64_t bytes);
  // Called when the incoming header is complete: checks it, and requests the address for its bytes.
  void BeginMessage();
  // Called for the next bytes that follow the incoming header, once they are at their address.
  void BytesReceived(const char* data, int64_t bytes);
  // Makes the socket readable only once this many bytes have arrived (SO_RCVLOWAT).
  void SetLowWater(int64_t bytes);

  const FileDescriptor socket_;
  const int peer_;
  Receiver* const receiver_;
  const Integrity integrity_;
  std::optional<FrameDigest> output_digest_, input_digest_;  // if there are digests
  bool is_closed_ = false;
  bool was_changed_ = false;
  std::string why_closed_;
  int64_t bytes_written_ = 0;

  std::deque<Outgoing> output_;
  uint64_t written_ = 0;  // messages; the number of the first one of output_
  bool output_broken_ = false;

  Header header_;             // of the incoming message
  int64_t header_bytes_ = 0;  // bytes of it that have arrived
  char* address_ = nullptr;   // for the bytes that follow it
  int64_t missing_ = 0;       // bytes that have not arrived
  uint64_t received_ = 0;     // messages; the number of the incoming one
  uint64_t digest_ = 0;       // that the incoming message should have
  int64_t low_water_ = 1;     // bytes from which the socket is readable
  std::vector<char> input_;
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_CONNECTION_H_
