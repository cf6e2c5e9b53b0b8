// Checks that a stream has the same messages however its bytes arrive.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/rendezvous/frame_reader.h"
#include "core/status/check.h"
#include "tests/fuzz/input.h"

namespace tessera::comm {
namespace {

struct Frames {
  std::vector<std::string> messages;
  bool refused = false;
  size_t left = 0;  // bytes after the last message
};

Frames TakeApart(absl::string_view stream, uint64_t max_bytes) {
  Frames frames;
  while (stream.size() >= kFramePrefixBytes) {
    uint64_t length = 0;
    for (int byte = 3; byte >= 0; --byte) {
      length = 256 * length + static_cast<unsigned char>(stream[byte]);
    }
    frames.refused = length > max_bytes;
    if (frames.refused || stream.size() - kFramePrefixBytes < length) break;
    frames.messages.emplace_back(stream.substr(kFramePrefixBytes, length));
    stream.remove_prefix(kFramePrefixBytes + length);
  }
  frames.left = stream.size();
  return frames;
}

}  // namespace
}  // namespace tessera::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  Pieces pieces(input.Take<uint8_t>());
  const auto max_bytes = input.Take<uint32_t>();
  const absl::string_view stream = input.TakeRest();
  const Frames expected = TakeApart(stream, max_bytes);

  FrameReader reader(max_bytes);
  Frames got;
  for (size_t begin = 0; begin < stream.size() && !got.refused;) {
    const size_t bytes = pieces.Next(stream.size() - begin);
    reader.Feed({stream.data() + begin, bytes});
    begin += bytes;
    std::string message;
    auto there = reader.Next(&message);
    for (; there.ok() && *there; there = reader.Next(&message)) got.messages.push_back(message);
    got.refused = !there.ok();
  }
  TESSERA_CHECK(got.messages == expected.messages && got.refused == expected.refused)
      << got.messages.size();
  TESSERA_CHECK(got.refused || reader.buffered_bytes() == static_cast<int64_t>(expected.left))
      << reader.buffered_bytes();
  return 0;
}
