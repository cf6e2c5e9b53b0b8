#include "core/train/record/testing/read_events.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tessera {
namespace {

// Computes a masked CRC-32C bit by bit, with the polynomial as it is written in RFC 3720.
uint32_t MaskedCrc(absl::string_view bytes) {
  constexpr uint32_t kPolynomial = 0x1edc6f41;
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool input = ((static_cast<uint8_t>(c) >> bit) & 1) != 0;
      const bool top = (crc >> 31) != 0;
      crc = (crc << 1) ^ (input != top ? kPolynomial : 0);
    }
  }
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= ((~crc >> bit) & 1) << (31 - bit);
  return ((reflected >> 15) | (reflected << 17)) + 0xa282ead8;
}

// Returns the number at the start of a text. Tests run on little-endian machines.
template <typename T>
T NumberAt(absl::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

// Moves the first record of `rest` to `events`, or returns its fault.
std::string TakeRecord(absl::string_view* rest, std::vector<tensorboard::Event>* events) {
  constexpr size_t kHeader = 12, kFooter = 4;
  if (rest->size() < kHeader) return "the header of a record is incomplete";
  if (NumberAt<uint32_t>(*rest, 8) != MaskedCrc(rest->substr(0, 8))) return "a wrong length";
  const auto length = NumberAt<uint64_t>(*rest, 0);
  if (rest->size() - kHeader < length + kFooter) return "a record is incomplete";
  const absl::string_view message = rest->substr(kHeader, length);
  if (NumberAt<uint32_t>(*rest, kHeader + length) != MaskedCrc(message)) return "wrong contents";
  tensorboard::Event event;
  if (!event.ParseFromArray(message.data(), static_cast<int>(length))) return "no Event";
  events->push_back(event);
  rest->remove_prefix(kHeader + length + kFooter);
  return "";
}

}  // namespace

std::vector<std::string> EventFilesIn(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (path.find("/events.out.tfevents.") != std::string::npos) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

ReadEvents ReadEventFile(const std::string& path) {
  std::stringstream contents;
  contents << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string text = contents.str();
  ReadEvents read;
  for (absl::string_view rest = text; !rest.empty() && read.fault.empty();) {
    read.fault = TakeRecord(&rest, &read.events);
  }
  return read;
}

std::map<std::string, float> ScalarsIn(const tensorboard::Event& event) {
  std::map<std::string, float> scalars;
  for (const tensorboard::Summary::Value& value : event.summary().value()) {
    scalars[value.tag()] = value.simple_value();
  }
  return scalars;
}

}  // namespace tessera
