// A connection to a peer. It writes messages in the order of the calls of Send and passes incoming
// ones to a receiver. Nothing here blocks.
//
// Thread safety: none.
#ifndef TESSERA_COLLECTIVES_TCP_CONNECTION_H_
#define TESSERA_COLLECTIVES_TCP_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "collectives/tcp/message.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm::tcp {

// Receives messages. `from` is the rank in the network of the peer that sent one.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // Sets *address to the memory for the bytes that follow the header, or leaves it null to discard
  // them. Returns false if the header is invalid.
  virtual bool Place(int from, const Header& header, char** address) = 0;
  // Called when the complete message has arrived.
  virtual void Arrived(int from, const Header& header) = 0;
};

class Connection {
 public:
  // The socket to the rank `peer` is non-blocking. `receiver` outlives the connection.
  Connection(FileDescriptor socket, int peer, Receiver* receiver);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_.get(); }
  // Return whether and why the connection is closed. Nothing more arrives on it, and anything sent
  // is lost.
  bool is_closed() const { return is_closed_; }
  const std::string& why_closed() const { return why_closed_; }
  bool has_output() const { return !output_.empty(); }
  int64_t bytes_written() const { return bytes_written_; }  // without headers

  // Writes as much as the socket accepts; Flush writes the rest. If `pending` is null, the
  // unwritten data is copied. Otherwise the caller keeps the data in place, and *pending is one
  // higher until it is written.
  void Send(const Header& header, const char* data, int* pending);
  void Flush();
  // Reads the bytes that have arrived, or only some if there are many. Returns whether there were
  // any.
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
    int* pending = nullptr;
    std::vector<char> copy;
  };
  // The size of a request with all its data.
  static constexpr int64_t kInputBytes = sizeof(Header) + kEagerBytes;

  // Calls writev once. Returns false if the socket accepts no more.
  bool Write();
  void Written(int64_t bytes);
  void Close(std::string why);
  // Parses incoming bytes. Those that are not part of a large message are first read into input_.
  void Parse(const char* data, int64_t bytes);
  void Begin();
  void SetLowWater(int64_t bytes);

  const FileDescriptor socket_;
  const int peer_;
  Receiver* const receiver_;
  bool is_closed_ = false;
  std::string why_closed_;
  int64_t bytes_written_ = 0;

  std::deque<Outgoing> output_;
  bool output_broken_ = false;

  Header header_;             // of the incoming message
  int64_t header_bytes_ = 0;  // bytes of it that have arrived
  char* address_ = nullptr;   // for the bytes that follow it
  int64_t missing_ = 0;       // bytes that have not arrived
  int64_t low_water_ = 1;     // bytes from which the socket is readable
  std::vector<char> input_;
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_CONNECTION_H_
