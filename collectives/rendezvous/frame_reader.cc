#include "collectives/rendezvous/frame_reader.h"

#include "absl/strings/str_cat.h"
#include "core/status/check.h"

namespace tessera::comm {

std::string MakeFrame(absl::string_view message) {
  TESSERA_CHECK(message.size() <= UINT32_MAX) << message.size();
  std::string frame;
  frame.reserve(kFramePrefixBytes + message.size());
  for (int byte = 0; byte < kFramePrefixBytes; ++byte) {
    frame.push_back(static_cast<char>(message.size() >> (8 * byte) & 0xff));
  }
  frame.append(message.data(), message.size());
  return frame;
}

void FrameReader::Feed(absl::Span<const char> bytes) {
  buffer_.erase(0, begin_);
  begin_ = 0;
  buffer_.append(bytes.data(), bytes.size());
}

absl::StatusOr<bool> FrameReader::Next(std::string* message) {
  if (buffered_bytes() < kFramePrefixBytes) return false;
  int64_t length = 0;
  for (int byte = 0; byte < kFramePrefixBytes; ++byte) {
    length |= static_cast<int64_t>(static_cast<unsigned char>(buffer_[begin_ + byte]))
              << (8 * byte);
  }
  if (length > max_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a message of ", length, " bytes was announced; at most ", max_bytes_, " are allowed"));
  }
  if (buffered_bytes() - kFramePrefixBytes < length) return false;
  message->assign(buffer_, begin_ + kFramePrefixBytes, length);
  begin_ += kFramePrefixBytes + length;
  return true;
}

}  // namespace tessera::comm
