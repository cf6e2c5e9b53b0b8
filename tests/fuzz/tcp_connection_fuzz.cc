// Checks that a connection delivers messages as they were sent, in whatever pieces they arrive, up
// to the first malformed one.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/tcp/connection.h"
#include "core/status/check.h"
#include "tests/fuzz/input.h"

namespace tessera::comm::tcp {
namespace {

// The receiver's answer to a message, encoded in a field of its header that a Connection ignores.
enum class Answer { kTaken, kSkipped, kRefused };
Answer AnswerTo(const Header& header) {
  return header.stage % 16 == 0  ? Answer::kRefused
         : header.stage % 4 == 0 ? Answer::kSkipped
                                 : Answer::kTaken;
}

bool IsMessage(const Header& header) {
  return header.bytes >= 0 && header.bytes <= kPieceBytes && AnswerTo(header) != Answer::kRefused;
}

// Returns bytes that differ between messages, and between positions in a message.
absl::string_view Payload(size_t number, int32_t bytes) {
  static const std::string& all = *[] {
    auto* const text = new std::string(kPieceBytes + 256, '\0');
    for (size_t i = 0; i < text->size(); ++i) (*text)[i] = static_cast<char>(i + i / 256);
    return text;
  }();
  return absl::string_view(all).substr(number * 17 % 256, bytes);
}

class Expecting : public Receiver {
 public:
  explicit Expecting(std::vector<Header> expected) : expected_(std::move(expected)) {}

  bool Place(int /*from*/, const Header& header, char** place) override {
    TESSERA_CHECK(place_.empty() && arrived_ < expected_.size()) << arrived_;
    TESSERA_CHECK(std::memcmp(&header, &expected_[arrived_], sizeof(header)) == 0) << arrived_;
    TESSERA_CHECK(header.bytes >= 0 && header.bytes <= kPieceBytes) << header.bytes;
    if (AnswerTo(header) == Answer::kTaken) {
      place_.resize(header.bytes);
      place_.shrink_to_fit();
      *place = place_.data();
    }
    return AnswerTo(header) != Answer::kRefused;
  }
  void Arrived(int /*from*/, const Header& header) override {
    if (AnswerTo(header) == Answer::kTaken) {
      const absl::string_view payload = Payload(arrived_, header.bytes);
      TESSERA_CHECK(absl::string_view(place_.data(), place_.size()) == payload) << arrived_;
    }
    place_.clear();
    ++arrived_;
  }

  size_t arrived() const { return arrived_; }

 private:
  const std::vector<Header> expected_;
  size_t arrived_ = 0;
  std::vector<char> place_;
};

}  // namespace
}  // namespace tessera::comm::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;       // NOLINT(google-build-using-namespace)
  using namespace tessera::comm::tcp;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  Pieces pieces(input.Take<uint8_t>());
  const bool ends_early = input.Take<uint8_t>() % 2 == 1;
  std::string stream;
  std::vector<Header> headers;
  size_t messages = 0;
  while (!input.empty() && messages == headers.size() && stream.size() < kPieceBytes) {
    const Header header = headers.emplace_back(input.TakeFirst<Header>(offsetof(Header, padding)));
    stream.append(reinterpret_cast<const char*>(&header), sizeof(header));
    if (!IsMessage(header)) break;
    absl::StrAppend(&stream, Payload(messages++, header.bytes));
  }
  const bool is_refused = messages < headers.size();
  if (ends_early && !is_refused && !stream.empty()) {
    stream.pop_back();
    --messages;
  }

  int sockets[2];
  TESSERA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0) << errno;
  Expecting receiver(headers);
  {
    Connection connection(tessera::FileDescriptor(sockets[0]), /*peer=*/0, &receiver);
    for (size_t begin = 0; begin < stream.size() && !connection.is_closed();) {
      const ssize_t sent =
          send(sockets[1], stream.data() + begin, pieces.Next(stream.size() - begin), MSG_NOSIGNAL);
      if (sent > 0) begin += sent;
      // Sometimes several pieces arrive before they are read.
      if (sent < 0 || pieces.Next(4) == 4) connection.Read();
    }
    close(sockets[1]);
    while (!connection.is_closed()) connection.Read();
    TESSERA_CHECK(receiver.arrived() == messages) << receiver.arrived() << " of " << messages;
    TESSERA_CHECK((connection.why_closed() == "sent a malformed message") == is_refused)
        << connection.why_closed();
  }
  return 0;
}
