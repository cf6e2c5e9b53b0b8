// Checks that a connection delivers messages as they were sent, in whatever pieces they arrive, up
// to the first malformed one, and with digests up to the first one that was changed on the way.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/net/frame_digest.h"
#include "collectives/net/integrity.h"
#include "collectives/net/proof.h"
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

const std::string& Key() {
  static const std::string& key = *new std::string(kSessionKeyBytes, 'k');
  return key;
}

// Sets the digest of a header that precedes this payload.
void SetDigest(FrameDigest& digest, uint64_t number, absl::string_view payload, Header* header) {
  digest.Begin(number);
  digest.Add(header, sizeof(*header));
  if (header->coverage != 0) digest.Add(payload.data(), static_cast<int64_t>(payload.size()));
  header->digest = digest.End();
}

class Expecting : public Receiver {
 public:
  // The message `changed` may arrive with other bytes, as far as its header goes.
  Expecting(std::vector<Header> expected, size_t changed)
      : expected_(std::move(expected)), changed_(changed) {}

  bool HeaderArrived(int /*from*/, const Header& header, char** place) override {
    TESSERA_CHECK(place_.empty() && arrived_ < expected_.size()) << arrived_;
    TESSERA_CHECK(arrived_ == changed_ ||
                  std::memcmp(&header, &expected_[arrived_], sizeof(header)) == 0)
        << arrived_;
    TESSERA_CHECK(header.bytes >= 0 && header.bytes <= kPieceBytes) << header.bytes;
    if (AnswerTo(header) == Answer::kTaken) {
      place_.resize(header.bytes);
      place_.shrink_to_fit();
      *place = place_.data();
    }
    return AnswerTo(header) != Answer::kRefused;
  }
  void MessageArrived(int /*from*/, const Header& header) override {
    TESSERA_CHECK(arrived_ != changed_) << "a message that was changed on the way";
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
  const size_t changed_;
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
  const auto options = input.Take<uint8_t>();
  const bool ends_early = options % 2 == 1;
  const bool has_digests = options / 2 % 2 == 1;
  // The byte that is changed on the way, if there are digests.
  const size_t changed_byte =
      has_digests && options / 4 % 2 == 1 ? input.Take<uint16_t>() : SIZE_MAX;
  FrameDigest digest(Key());
  std::string stream;
  std::vector<Header> headers;
  size_t messages = 0, changed = SIZE_MAX;
  while (!input.empty() && messages == headers.size() && stream.size() < kPieceBytes) {
    Header header = input.TakeFirst<Header>(offsetof(Header, digest));
    if (has_digests && header.coverage != 0) header.coverage = CoverageOf(header.bytes);
    headers.push_back(header);
    const bool is_message = IsMessage(header);
    const absl::string_view payload = is_message ? Payload(messages, header.bytes) : "";
    if (has_digests) SetDigest(digest, messages, payload, &header);
    const size_t begin = stream.size();
    stream.append(reinterpret_cast<const char*>(&header), sizeof(header));
    absl::StrAppend(&stream, payload);
    const size_t covered_end = begin + sizeof(header) + (header.coverage != 0 ? payload.size() : 0);
    if (changed_byte >= begin && changed_byte < covered_end) changed = messages;
    if (is_message) ++messages;
  }
  const bool is_refused = messages < headers.size();
  if (ends_early && !is_refused && !stream.empty()) {
    stream.pop_back();
    --messages;
  }
  if (changed != SIZE_MAX && changed_byte < stream.size()) {
    stream[changed_byte] = static_cast<char>(stream[changed_byte] ^ 1 << changed_byte % 8);
    messages = std::min(messages, changed);
  }

  int sockets[2];
  TESSERA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0) << errno;
  Expecting receiver(headers, changed);
  {
    Connection connection(tessera::FileDescriptor(sockets[0]), /*peer=*/0, &receiver,
                          {.integrity = has_digests ? Integrity::kControl : Integrity::kNone,
                           .keys = {Key(), Key()}});
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
    const bool was_refused = absl::StartsWith(connection.why_closed(), "sent a malformed message");
    TESSERA_CHECK(changed != SIZE_MAX || was_refused == is_refused) << connection.why_closed();
  }
  return 0;
}
