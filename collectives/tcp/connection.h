// A connection to a peer: messages go out in the order in which they were sent, and those that come
// in are handed to a receiver. Nothing here blocks.
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

// Receives the messages of a connection.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // Sets *address to where the bytes that follow go; null: nowhere. False if the header is no
  // message.
  virtual bool Place(const Header& header, char** address) = 0;
  // All of the message is there.
  virtual void Arrived(const Header& header) = 0;
};

class Connection {
 public:
  // The socket is non-blocking. `receiver` outlives the connection.
  Connection(FileDescriptor socket, Receiver* receiver);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_.get(); }
  // Whether the connection has ended, and why. Nothing more is received, and what is sent is lost.
  bool is_closed() const { return is_closed_; }
  const std::string& why_closed() const { return why_closed_; }
  bool has_output() const { return !output_.empty(); }
  int64_t bytes_written() const { return bytes_written_; }  // but for headers

  // Writes as much as the socket takes, and the rest when Flush is called. If `pending` is null,
  // data that is not written at once is copied. Otherwise the data must stay where it is while
  // *pending, which this call raises by one, has not been lowered again.
  void Send(const Header& header, const char* data, int* pending);
  void Flush();
  // Reads the bytes that have arrived, up to a bound. Returns whether there were any.
  bool Read();
  // Until the next Read, the socket is reported as readable only once the message that is arriving
  // is complete. Fewer wake-ups leave more of the core to computation.
  void WakeOnMessage();

  // Drops the group's messages that are not written yet. Its memory is not used afterwards.
  void Drop(uint64_t group);

  // How many bytes the peer's system has not acknowledged.
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
  // A request, with all its data.
  static constexpr int64_t kInputBytes = sizeof(Header) + kEagerBytes;

  // One writev; false if the socket takes no more.
  bool Write();
  void Written(int64_t bytes);
  void Close(std::string why);
  // Incoming bytes that are not part of a large message go through input_.
  void Parse(const char* data, int64_t bytes);
  void Begin();
  void SetLowWater(int64_t bytes);

  const FileDescriptor socket_;
  Receiver* const receiver_;
  bool is_closed_ = false;
  std::string why_closed_;
  int64_t bytes_written_ = 0;

  std::deque<Outgoing> output_;
  bool output_broken_ = false;

  Header header_;             // that comes in
  int64_t header_bytes_ = 0;  // of it, that are there
  char* address_ = nullptr;   // of the bytes that follow it
  int64_t missing_ = 0;       // of them
  int64_t low_water_ = 1;     // at which the socket is readable, unless it is closed
  std::vector<char> input_;
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_CONNECTION_H_
