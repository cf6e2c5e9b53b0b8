#include "core/train/record/tensorboard_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/posix/write_all.h"
#include "core/train/record/tensorboard_event.pb.h"

namespace tessera {
namespace {

// The table of the reflected Castagnoli polynomial, a byte at a time: records have some hundred
// bytes. (Abseil has a CRC-32C since 2023, which Debian 12 does not have yet.)
constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) == 0 ? 0 : kPolynomial);
    table[byte] = crc;
  }
  return table;
}

uint32_t MaskedCrc(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

void AppendLittleEndian(uint64_t value, int bytes, std::string* text) {
  for (int i = 0; i < bytes; ++i) *text += static_cast<char>(value >> (8 * i));
}

std::string Record(const tensorboard::Event& event) {
  const std::string message = event.SerializeAsString();
  std::string record;
  AppendLittleEndian(message.size(), 8, &record);
  AppendLittleEndian(MaskedCrc(record), 4, &record);
  record += message;
  AppendLittleEndian(MaskedCrc(message), 4, &record);
  return record;
}

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns the name of this host, as far as it can be part of a file's.
std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "host";
  std::string host = name;
  std::replace_if(
      host.begin(), host.end(),
      [](char c) { return !absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.'; }, '_');
  return host;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

absl::StatusOr<std::unique_ptr<TensorboardFile>> TensorboardFile::Create(const Folder& folder,
                                                                         int64_t last_step) {
  constexpr int kMostTries = 1000;
  const double now = SecondsSince1970();
  const std::string host = HostName();
  std::string name;
  absl::StatusOr<FileDescriptor> fd = absl::AlreadyExistsError("");
  for (int i = 0; i < kMostTries && absl::IsAlreadyExists(fd.status()); ++i) {
    name = absl::StrFormat("events.out.tfevents.%010d.%s", static_cast<int64_t>(now) + i, host);
    fd = folder.CreateFile(name);
  }
  if (!fd.ok()) return fd.status();
  std::unique_ptr<TensorboardFile> file(new TensorboardFile(folder.PathOf(name), *std::move(fd)));

  tensorboard::Event version;
  version.set_wall_time(now);
  version.set_file_version("brain.Event:2");
  tensorboard::Event start;
  start.set_wall_time(now);
  start.set_step(last_step + 1);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  absl::Status status = file->Append(Record(version) + Record(start));
  if (status.ok()) return file;
  folder.RemoveFile(name).IgnoreError();
  return status;
}

absl::Status TensorboardFile::Write(int64_t step, absl::Span<const TensorboardScalar> scalars) {
  tensorboard::Event event;
  event.set_wall_time(SecondsSince1970());
  event.set_step(step);
  for (const TensorboardScalar& scalar : scalars) {
    tensorboard::Summary::Value* const value = event.mutable_summary()->add_value();
    value->set_tag(scalar.tag);
    value->set_simple_value(static_cast<float>(scalar.value));
  }
  return Append(Record(event));
}

absl::Status TensorboardFile::Append(absl::string_view records) {
  if (WriteAll(fd_.get(), records) == records.size()) {
    bytes_ += static_cast<int64_t>(records.size());
    return absl::OkStatus();
  }
  absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  // After an incomplete record, TensorBoard would find none of the later ones.
  if (ftruncate(fd_.get(), bytes_) == 0) lseek(fd_.get(), bytes_, SEEK_SET);
  return status;
}

}  // namespace tessera
