#include "collectives/tcp/connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tessera::comm::tcp {
namespace {

// The most bytes that one call reads, so that other connections are not kept waiting.
constexpr int64_t kReadBytes = 1 << 20;

// The most messages that one call writes.
constexpr int kMessages = 8;

}  // namespace

Connection::Connection(FileDescriptor socket, int peer, Receiver* receiver,
                       const ConnectionSecurity& security)
    : socket_(std::move(socket)),
      peer_(peer),
      receiver_(receiver),
      integrity_(security.integrity),
      input_(kInputBytes) {
  if (integrity_ == Integrity::kNone) return;
  output_digest_.emplace(security.keys.send);
  input_digest_.emplace(security.keys.receive);
}

void Connection::Close(std::string why) {
  is_closed_ = true;
  why_closed_ = std::move(why);
  output_broken_ = true;
  output_.clear();
}

void Connection::SetDigest(Outgoing& message, uint64_t number) {
  Header& header = message.header;
  // Without bytes that follow, the receiver can check the header before it looks into it.
  const bool covers_data =
      header.bytes > 0 && (integrity_ == Integrity::kAll || header.coverage != 0 ||
                           header.bytes <= kAlwaysCoveredBytes);
  header.coverage = covers_data ? CoverageOf(header.bytes) : 0;
  header.digest = 0;
  output_digest_->Begin(number);
  output_digest_->Add(&header, sizeof(header));
  if (covers_data) output_digest_->Add(message.data, header.bytes);
  header.digest = output_digest_->End();
  message.has_digest = true;
}

void Connection::CloseForWrongDigest() {
  is_closed_ = was_changed_ = true;
  why_closed_ = "wrong digest";
}

bool Connection::CheckDigest() {
  if (input_digest_->End() == digest_) return true;
  CloseForWrongDigest();
  return false;
}

void Connection::Send(const Header& header, const char* data, int* pending) {
  if (pending != nullptr) ++*pending;
  if (output_broken_) return;
  const bool is_idle = output_.empty();
  Outgoing& message = output_.emplace_back();
  message.header = header;
  message.data = data;
  message.bytes = header.bytes;
  message.pending = pending;
  if (is_idle) Flush();
  if (pending == nullptr && !output_.empty() && output_.back().bytes > 0) {
    Outgoing& rest = output_.back();
    rest.copy.assign(rest.data, rest.data + rest.bytes);
    rest.data = rest.copy.data();
  }
}

void Connection::Flush() {
  while (!output_.empty() && Write()) {
  }
}

bool Connection::Write() {
  iovec parts[2 * kMessages];
  size_t count = 0;
  for (Outgoing& message : output_) {
    if (count == 2 * kMessages) break;
    // Not earlier: Drop may remove messages before this one, and so change its number.
    if (output_digest_.has_value() && !message.has_digest) SetDigest(message, written_ + count / 2);
    const char* const header = reinterpret_cast<const char*>(&message.header + 1);
    parts[count++] = {const_cast<char*>(header - message.header_bytes),
                      static_cast<size_t>(message.header_bytes)};
    parts[count++] = {const_cast<char*>(message.data), static_cast<size_t>(message.bytes)};
  }
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  const ssize_t written = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written >= 0) {
    BytesWritten(written);
    return true;
  }
  if (errno == EINTR) return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) {
    // Reading stays possible: the peer may have sent bytes earlier.
    output_broken_ = true;
    output_.clear();
  }
  return false;
}

void Connection::BytesWritten(int64_t bytes) {
  while (!output_.empty()) {
    Outgoing& message = output_.front();
    const int64_t of_header = std::min(bytes, message.header_bytes);
    message.header_bytes -= of_header;
    bytes -= of_header;
    const int64_t of_data = std::min(bytes, message.bytes);
    message.data += of_data;
    message.bytes -= of_data;
    bytes -= of_data;
    bytes_written_ += of_data;
    if (message.header_bytes > 0 || message.bytes > 0) return;
    if (message.pending != nullptr) --*message.pending;
    output_.pop_front();
    ++written_;
  }
}

void Connection::BeginMessage() {
  address_ = nullptr;
  missing_ = header_.bytes;
  if (input_digest_.has_value()) {
    digest_ = std::exchange(header_.digest, 0);
    input_digest_->Begin(received_++);
    input_digest_->Add(&header_, sizeof(header_));
    if (header_.coverage == 0 && !CheckDigest()) return;
    if (header_.coverage != 0 && header_.coverage != CoverageOf(missing_))
      return CloseForWrongDigest();
  }
  if (missing_ < 0 || missing_ > kPieceBytes ||
      !receiver_->HeaderArrived(peer_, header_, &address_)) {
    const bool is_checked = !input_digest_.has_value() || header_.coverage == 0;
    Close(is_checked ? "sent a malformed message"
                     : "sent a malformed message, or its bytes were changed on the way");
  } else if (missing_ == 0) {
    BytesReceived(nullptr, 0);
  }
}

void Connection::BytesReceived(const char* data, int64_t bytes) {
  const bool has_open_digest = input_digest_.has_value() && header_.coverage != 0;
  if (has_open_digest) input_digest_->Add(data, bytes);
  missing_ -= bytes;
  if (missing_ > 0 || (has_open_digest && !CheckDigest())) return;
  receiver_->MessageArrived(peer_, header_);
}

void Connection::Parse(const char* data, int64_t bytes) {
  while (bytes > 0 && !is_closed_) {
    if (missing_ == 0) {
      const int64_t taken = std::min<int64_t>(bytes, sizeof(Header) - header_bytes_);
      std::memcpy(reinterpret_cast<char*>(&header_) + header_bytes_, data, taken);
      header_bytes_ += taken;
      data += taken;
      bytes -= taken;
      if (header_bytes_ < static_cast<int64_t>(sizeof(Header))) return;
      header_bytes_ = 0;
      BeginMessage();
      continue;
    }
    const int64_t taken = std::min(bytes, missing_);
    if (address_ != nullptr) {
      std::memcpy(address_, data, taken);
      address_ += taken;
    }
    BytesReceived(data, taken);
    data += taken;
    bytes -= taken;
  }
}

void Connection::WakeOnMessage() { SetLowWater(std::max<int64_t>(1, missing_)); }

void Connection::SetLowWater(int64_t bytes) {
  if (low_water_ == bytes) return;
  low_water_ = bytes;
  const int value = static_cast<int>(bytes);
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value));
}

// Closing a socket with unread bytes may lose what was sent last, which is the reason of the
// failure.
void Connection::DiscardInput() {
  ssize_t got = 0;
  do {
    got = recv(socket_.get(), input_.data(), kInputBytes, MSG_DONTWAIT);
  } while (got > 0 || (got < 0 && errno == EINTR));
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
  output_broken_ = true;  // the peer is gone
  output_.clear();
}

bool Connection::Read() {
  if (was_changed_ && is_open_for_output()) DiscardInput();
  SetLowWater(1);
  int64_t total = 0;
  while (!is_closed_ && total < kReadBytes) {
    // Reads the rest of a message directly to its address, and the bytes after it into input_.
    const int64_t direct = address_ != nullptr ? missing_ : 0;
    const iovec parts[2] = {{address_, static_cast<size_t>(direct)},
                            {input_.data(), static_cast<size_t>(kInputBytes)}};
    const ssize_t got = direct > 0 ? readv(socket_.get(), parts, 2)
                                   : recv(socket_.get(), input_.data(), kInputBytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return total > 0;
    if (got <= 0) {
      Close(got == 0 ? "closed the connection" : std::strerror(errno));
      return true;
    }
    total += got;
    const int64_t placed = std::min<int64_t>(got, direct);
    if (placed > 0) {
      const char* const data = address_;
      address_ += placed;
      BytesReceived(data, placed);
    }
    Parse(input_.data(), got - placed);
    // Stops after a read of buffered messages only: a request among them lets this rank send, and
    // the peer may be waiting for that rather than for more data to be read. Also stops if the
    // buffer was not full, since then most likely nothing more has arrived.
    if (direct == 0 || got < direct + kInputBytes) break;
  }
  return true;
}

void Connection::Drop(uint64_t group) {
  bool renumber = false;
  for (auto message = output_.begin(); message != output_.end();) {
    const bool begun = message->header_bytes < static_cast<int64_t>(sizeof(Header));
    if (message->header.group != group || message->pending == nullptr) {
      // A digest for the old number has not been sent, so the number may be used again.
      message->has_digest = message->has_digest && !renumber;
      ++message;
    } else if (begun) {
      // The header has been sent, so the peer expects all of the data.
      message->copy.assign(message->data, message->data + message->bytes);
      message->data = message->copy.data();
      message->pending = nullptr;
      ++message;
    } else {
      message = output_.erase(message);
      renumber = true;
    }
  }
  if (missing_ > 0 && header_.group == group) address_ = nullptr;
}

int64_t Connection::UnacknowledgedBytes() const {
  int bytes = 0;
  return ioctl(socket_.get(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

}  // namespace tessera::comm::tcp
