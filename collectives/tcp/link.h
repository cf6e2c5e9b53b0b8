// A connection to a peer: messages go out in the order in which they were sent, and what comes in
// is handed on. Nothing here blocks.
//
// Thread safety: none.
#ifndef TESSERA_COLLECTIVES_TCP_LINK_H_
#define TESSERA_COLLECTIVES_TCP_LINK_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "collectives/tcp/message.h"

namespace tessera::comm::tcp {

// Who is told what comes in.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // Where the bytes that follow go; null: nobody wants them. False if there is no such message.
  virtual bool Place(const Header& header, char** place) = 0;
  // All of it is there.
  virtual void Arrived(const Header& header) = 0;
};

class Link {
 public:
  // Owns the socket, which does not block. `receiver` outlives the link.
  Link(int socket, Receiver* receiver);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int socket() const { return socket_; }
  // No more comes in, and what is sent is lost; why.
  bool is_closed() const { return is_closed_; }
  const std::string& why_closed() const { return why_closed_; }
  bool has_output() const { return !output_.empty(); }
  int64_t bytes_written() const { return bytes_written_; }  // but for headers

  // Writes as much as goes, and the rest when Flush is called. Without `pending` the data is copied
  // where it must be; with it, it stays where it is, and *pending is raised until it is written.
  void Send(const Header& header, const char* data, int* pending);
  void Flush();
  // Reads what is there, or a part of it if that is much. Returns whether there was anything.
  bool Read();

  // Sends nothing more of a group, nor touches its memory.
  void Drop(uint64_t group);

  // How many bytes the peer's system has not acknowledged.
  int64_t UnacknowledgedBytes() const;

 private:
  struct Outgoing {
    Header header;
    const char* data = nullptr;             // what of it is still to be written
    int64_t bytes = 0;                      // of data
    int64_t header_bytes = sizeof(Header);  // of the header, to be written
    int* pending = nullptr;
    std::vector<char> copy;
  };
  static constexpr int64_t kInputBytes = 32768;

  // One writev; false if the socket takes no more.
  bool Write();
  void Written(int64_t bytes);
  void Close(std::string why);
  // What of the incoming bytes is not part of a large message goes through input_.
  void Parse(const char* data, int64_t bytes);
  void Begin();

  const int socket_;
  Receiver* const receiver_;
  bool is_closed_ = false;
  std::string why_closed_;
  int64_t bytes_written_ = 0;

  std::deque<Outgoing> output_;
  bool output_broken_ = false;

  Header header_;             // that comes in
  int64_t header_bytes_ = 0;  // of it, that are there
  char* place_ = nullptr;     // of the bytes that follow it
  int64_t missing_ = 0;       // of them
  std::vector<char> input_;
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_LINK_H_
