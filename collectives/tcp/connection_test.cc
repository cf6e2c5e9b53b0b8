// The digests of a connection's messages: no message arrives that was changed, repeated, reordered
// or left out on the way.
#include "collectives/tcp/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/net/proof.h"

namespace tessera::comm::tcp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const SessionKeys kKeys = {std::string(kSessionKeyBytes, 's'), std::string(kSessionKeyBytes, 'r')};
const SessionKeys kPeersKeys = {kKeys.receive, kKeys.send};

// Keeps the data of the messages that have arrived.
class Recorder : public Receiver {
 public:
  bool HeaderArrived(int /*from*/, const Header& header, char** address) override {
    data_.emplace_back(header.bytes, '\0');
    *address = data_.back().data();
    return true;
  }
  void MessageArrived(int /*from*/, const Header& header) override {
    arrived_.push_back(absl::StrCat(header.number, ":", data_.back()));
  }
  const std::vector<std::string>& arrived() const { return arrived_; }

 private:
  std::list<std::string> data_;
  std::vector<std::string> arrived_;
};

// A connection whose other end is a socket of the test.
class End {
 public:
  explicit End(const ConnectionSecurity& security) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    wire_ = FileDescriptor(fds[1]);
    connection_ =
        std::make_unique<Connection>(FileDescriptor(fds[0]), /*peer=*/1, &recorder_, security);
  }

  Connection& connection() { return *connection_; }
  const Recorder& recorder() const { return recorder_; }

  // Returns the bytes that the connection has written.
  std::string TakeWritten() {
    std::string bytes;
    char some[65536];
    ssize_t got = 0;
    while ((got = recv(wire_.get(), some, sizeof(some), 0)) > 0) bytes.append(some, got);
    return bytes;
  }
  // Lets bytes arrive in pieces, as far as the connection reads them.
  void Feed(const std::string& bytes, size_t piece = SIZE_MAX) {
    for (size_t begin = 0; begin < bytes.size() && !connection_->is_closed();) {
      const size_t now = std::min(piece, bytes.size() - begin);
      const ssize_t sent = send(wire_.get(), &bytes[begin], now, MSG_NOSIGNAL);
      if (sent > 0) begin += sent;
      ASSERT_TRUE(sent > 0 || errno == EAGAIN) << errno;
      connection_->Read();
    }
  }
  void HangUp() {
    wire_.Close();
    while (!connection_->is_closed()) connection_->Read();
  }

 private:
  Recorder recorder_;
  FileDescriptor wire_;
  std::unique_ptr<Connection> connection_;
};

Header HeaderOf(uint64_t number, size_t bytes, bool is_covered) {
  return {.kind = Kind::kRequest,
          .coverage = is_covered,
          .bytes = static_cast<int32_t>(bytes),
          .number = number};
}

// Data of more than kAlwaysCoveredBytes, different for each number.
std::string Data(uint64_t number) {
  return std::string(kAlwaysCoveredBytes + 40, static_cast<char>('a' + number));
}

// Returns the bytes of messages 0 to `count` - 1, each by itself.
std::vector<std::string> Frames(const ConnectionSecurity& security, int count, bool is_covered) {
  End sender(security);
  std::vector<std::string> frames;
  for (int number = 0; number < count; ++number) {
    const std::string data = Data(number);
    sender.connection().Send(HeaderOf(number, data.size(), is_covered), data.data(), nullptr);
    frames.push_back(sender.TakeWritten());
    EXPECT_THAT(frames.back(), SizeIs(sizeof(Header) + data.size()));
  }
  return frames;
}

// Returns how many messages arrive before the connection is closed.
size_t CountArrived(const ConnectionSecurity& security, const std::vector<std::string>& frames) {
  End receiver(security);
  for (const std::string& frame : frames) receiver.Feed(frame);
  receiver.HangUp();
  return receiver.recorder().arrived().size();
}

std::string WithBitFlipped(std::string text, size_t bit) {
  text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
  return text;
}

TEST(ConnectionTest, MessagesArriveHoweverTheirBytesDo) {
  for (const Integrity integrity : {Integrity::kNone, Integrity::kControl, Integrity::kAll}) {
    for (const bool is_covered : {false, true}) {
      for (const size_t piece : {size_t{1}, size_t{63}, size_t{100}, SIZE_MAX}) {
        const std::vector<std::string> frames = Frames({integrity, kKeys}, 3, is_covered);
        End receiver({integrity, kPeersKeys});
        receiver.Feed(frames[0] + frames[1] + frames[2], piece);
        EXPECT_THAT(receiver.recorder().arrived(),
                    ElementsAre("0:" + Data(0), "1:" + Data(1), "2:" + Data(2)));
        EXPECT_FALSE(receiver.connection().is_closed());
      }
    }
  }
}

TEST(ConnectionTest, AMessageWithAChangedBitDoesNotArrive) {
  for (const bool covers_all : {false, true}) {
    // Either the option or the message itself asks for it.
    const Integrity integrity = covers_all ? Integrity::kAll : Integrity::kControl;
    const std::vector<std::string> frames = Frames({integrity, kKeys}, 2, !covers_all);
    for (size_t bit = 0; bit < 8 * frames[1].size(); ++bit) {
      End receiver({integrity, kPeersKeys});
      receiver.Feed(frames[0]);
      receiver.Feed(WithBitFlipped(frames[1], bit));
      // At once: it does not wait for bytes that no peer sends.
      ASSERT_TRUE(receiver.connection().is_closed()) << "bit " << bit;
      ASSERT_THAT(receiver.recorder().arrived(), ElementsAre("0:" + Data(0))) << "bit " << bit;
    }
  }
}

// By default tensors are not covered, and without digests nothing is.
TEST(ConnectionTest, BytesThatAreNotCoveredMayChangeUnseen) {
  for (const Integrity integrity : {Integrity::kNone, Integrity::kControl}) {
    const std::vector<std::string> frames = Frames({integrity, kKeys}, 1, /*is_covered=*/false);
    const size_t in_data = 8 * (sizeof(Header) + 5), in_number = 8 * offsetof(Header, number);
    EXPECT_EQ(CountArrived({integrity, kPeersKeys}, {WithBitFlipped(frames[0], in_data)}), 1);
    EXPECT_EQ(CountArrived({integrity, kPeersKeys}, {WithBitFlipped(frames[0], in_number)}),
              integrity == Integrity::kNone ? 1 : 0);
  }
}

TEST(ConnectionTest, FewBytesAreAlwaysCovered) {
  End sender({Integrity::kControl, kKeys});
  const std::string data(kAlwaysCoveredBytes, 'd');
  sender.connection().Send(HeaderOf(0, data.size(), /*is_covered=*/false), data.data(), nullptr);
  const std::string frame = sender.TakeWritten();
  EXPECT_EQ(CountArrived({Integrity::kControl, kPeersKeys}, {frame}), 1);
  EXPECT_EQ(CountArrived({Integrity::kControl, kPeersKeys},
                         {WithBitFlipped(frame, 8 * frame.size() - 1)}),
            0);
}

TEST(ConnectionTest, MessagesAreNotRepeatedReorderedOrLeftOut) {
  const ConnectionSecurity security = {Integrity::kControl, kPeersKeys};
  const std::vector<std::string> sent = Frames({Integrity::kControl, kKeys}, 3, false);
  EXPECT_EQ(CountArrived(security, sent), 3);
  EXPECT_EQ(CountArrived(security, {sent[0], sent[0]}), 1);
  EXPECT_EQ(CountArrived(security, {sent[0], sent[2], sent[1]}), 1);
  EXPECT_EQ(CountArrived(security, {sent[1], sent[2]}), 0);
  // A rank's own messages, sent back to it, have another key.
  EXPECT_EQ(CountArrived({Integrity::kControl, kKeys}, sent), 0);
  // So do those of another connection.
  EXPECT_EQ(
      CountArrived({Integrity::kControl, {kKeys.send, std::string(kSessionKeyBytes, 'x')}}, sent),
      0);
  // A peer that sends no digests.
  EXPECT_EQ(CountArrived(security, Frames({}, 1, false)), 0);
}

TEST(ConnectionTest, AfterAWrongDigestTheReasonIsStillSent) {
  const std::vector<std::string> frames = Frames({Integrity::kAll, kKeys}, 1, false);
  End receiver({Integrity::kAll, kPeersKeys});
  receiver.Feed(WithBitFlipped(frames[0], 8 * sizeof(Header)));
  EXPECT_TRUE(receiver.connection().is_closed());
  EXPECT_TRUE(receiver.connection().was_changed());
  EXPECT_EQ(receiver.connection().why_closed(), "wrong digest");
  EXPECT_THAT(receiver.recorder().arrived(), IsEmpty());
  receiver.connection().Send(HeaderOf(0, 6, true), "reason", nullptr);
  End sender({Integrity::kAll, kKeys});
  sender.Feed(receiver.TakeWritten());
  EXPECT_THAT(sender.recorder().arrived(), ElementsAre("0:reason"));
}

// Regression: messages that wait behind those of a group that has failed get other numbers.
TEST(ConnectionTest, MessagesBehindDroppedOnesArrive) {
  for (const int before : {1, 3, 20}) {
    End sender({Integrity::kControl, kKeys});
    const std::string large(kPieceBytes, 'l');
    int pending = 0;
    const auto send_large = [&](uint64_t number, uint64_t group) {
      Header header = HeaderOf(number, large.size(), /*is_covered=*/false);
      header.group = group;
      sender.connection().Send(header, large.data(), &pending);
    };
    // The first one fills the socket; the others wait.
    send_large(0, 1);
    for (int i = 0; i < before; ++i) send_large(100 + i, 2);
    send_large(1, 1);
    sender.connection().Flush();  // makes digests of messages that the socket does not accept yet
    ASSERT_TRUE(sender.connection().has_output());
    sender.connection().Drop(2);
    sender.connection().Send(HeaderOf(2, 3, /*is_covered=*/true), "end", nullptr);
    End receiver({Integrity::kControl, kPeersKeys});
    for (int i = 0; i < 10000 && sender.connection().has_output(); ++i) {
      receiver.Feed(sender.TakeWritten());
      sender.connection().Flush();
    }
    receiver.Feed(sender.TakeWritten());
    EXPECT_THAT(receiver.recorder().arrived(), ElementsAre("0:" + large, "1:" + large, "2:end"));
  }
}

}  // namespace
}  // namespace tessera::comm::tcp
