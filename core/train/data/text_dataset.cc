#include "core/train/data/text_dataset.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "core/model/token_fields.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/data/shuffle.h"
#include "core/train/data/text_check.h"

namespace tessera {
namespace {

// Returns the number of the first bytes of a text that are used for training.
int64_t TrainingBytes(int64_t bytes, int64_t window) {
  return bytes - std::max(bytes / 10, window);
}

// Returns the number of windows that fit after the largest offset, at least one.
int64_t WindowsPerEpoch(int64_t bytes, int64_t window) {
  return std::max<int64_t>(1, (bytes - (window - 1)) / window);
}

// Returns a number in [0, count), uniform to within count / 2^64.
int64_t UniformBelow(const PhiloxBlock& block, int64_t count) {
  const uint64_t bits = (uint64_t{block[0]} << 32) | block[1];
  return static_cast<int64_t>(
      absl::Uint128High64(absl::uint128(bits) * static_cast<uint64_t>(count)));
}

// Returns the checksum of bytes [0, bytes) of a file as they are now, in chunks of `chunk` bytes
// that begin every `stride` bytes, and of the last chunk.
absl::StatusOr<std::string> ChecksumOfChunks(const DataFile& file, int64_t bytes, int64_t chunk,
                                             int64_t stride) {
  Checksum checksum;
  std::vector<char> buffer(std::min(bytes, chunk));
  const auto add = [&](int64_t offset, int64_t end) -> absl::Status {
    const absl::Span<char> piece = absl::MakeSpan(buffer.data(), end - offset);
    RETURN_IF_ERROR(file.ReadAt(offset, piece));
    checksum.Update(piece);
    return absl::OkStatus();
  };
  for (int64_t offset = 0; offset < bytes; offset += stride) {
    RETURN_IF_ERROR(add(offset, std::min(offset + chunk, bytes)));
  }
  if (stride > chunk) RETURN_IF_ERROR(add(bytes - static_cast<int64_t>(buffer.size()), bytes));
  return checksum.Hex();
}

// Returns the checksum of all bytes that a file had when it was opened, as they are now.
absl::StatusOr<std::string> ChecksumNow(const DataFile& file) {
  constexpr int64_t kChunkBytes = int64_t{256} << 10;
  return ChecksumOfChunks(file, file.opened().bytes, kChunkBytes, kChunkBytes);
}

// Returns the checksum of samples of these bytes. An insertion or a removal moves the last one.
absl::StatusOr<std::string> SampleNow(const DataFile& file) {
  constexpr int64_t kSamples = 64, kSampleBytes = 4096;
  const int64_t bytes = file.opened().bytes;
  return ChecksumOfChunks(file, bytes, kSampleBytes, std::max(kSampleBytes, bytes / kSamples));
}

}  // namespace

TextDataset::TextDataset(std::unique_ptr<DataFile> file, std::string checksum, std::string sample,
                         int64_t sequence, uint64_t seed)
    : file_(std::move(file)),
      sequence_(sequence),
      fields_(TokenFields(sequence, kByteTokens)),
      order_(MakeStream(seed, "data.order")),
      offset_(MakeStream(seed, "data.offset")),
      training_bytes_(TrainingBytes(file_->opened().bytes, sequence + 1)),
      training_windows_(WindowsPerEpoch(training_bytes_, sequence + 1)),
      checksum_(std::move(checksum)),
      sample_(std::move(sample)),
      checked_(file_->opened()) {}

absl::StatusOr<std::unique_ptr<DataFile>> TextDataset::OpenFile(absl::string_view path,
                                                                int64_t sequence) {
  if (sequence < 1 || sequence > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read a text in sequences of ", sequence,
                                                   " tokens: 1 to 2147483647 would be right"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<DataFile> file, DataFile::Open(path));
  const int64_t bytes = file->opened().bytes;
  const int64_t window = sequence + 1;
  if (bytes >= 2 * window) return file;
  const std::string shorter =
      bytes < 4 ? ""
                : absl::StrCat(", or sequences of ", Counted(bytes / 2 - 1, "token"), " or fewer");
  return absl::InvalidArgumentError(absl::StrCat(
      file->path(), ": a text of ", Counted(bytes, "byte"), " is too short for sequences of ",
      Counted(sequence, "token"), ": training and evaluation need ", window, " bytes each, so ",
      2 * window, " bytes or more would be right", shorter));
}

absl::StatusOr<std::unique_ptr<TextDataset>> TextDataset::Create(std::unique_ptr<DataFile> file,
                                                                 std::string checksum,
                                                                 int64_t sequence, uint64_t seed) {
  ASSIGN_OR_RETURN(std::string sample, SampleNow(*file));
  return std::unique_ptr<TextDataset>(
      new TextDataset(std::move(file), std::move(checksum), std::move(sample), sequence, seed));
}

absl::StatusOr<std::unique_ptr<TextDataset>> TextDataset::Open(absl::string_view path,
                                                               int64_t sequence, uint64_t seed) {
  ASSIGN_OR_RETURN(std::unique_ptr<DataFile> file, OpenFile(path, sequence));
  ASSIGN_OR_RETURN(std::string checksum, CheckText(*file));
  return Create(std::move(file), std::move(checksum), sequence, seed);
}

int64_t TextDataset::evaluation_bytes() const { return file_->opened().bytes - training_bytes_; }

std::string TextDataset::Fingerprint() const {
  return absl::StrCat("text of ", file_->opened().bytes, " bytes, XXH3-128 ", checksum_);
}

bool TextDataset::MustCompare() const {
  const absl::StatusOr<FileVersion> now = file_->Version();
  MutexLock lock(&mutex_);
  return !now.ok() || !(*now == checked_);
}

absl::Status TextDataset::Compare() const {
  ASSIGN_OR_RETURN(const FileVersion now, file_->Version());
  MutexLock lock(&mutex_);
  if (now == checked_) return absl::OkStatus();
  const bool grown = now.bytes > checked_.bytes;
  ASSIGN_OR_RETURN(const std::string found, grown ? SampleNow(*file_) : ChecksumNow(*file_));
  if (found != (grown ? sample_ : checksum_)) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": the file was changed while it was in use: its first ",
                     file_->opened().bytes, " bytes are not those that it had when it was opened"));
  }
  checked_ = now;
  return absl::OkStatus();
}

int64_t TextDataset::TrainingWindow(int64_t row) const {
  const int64_t window = sequence_ + 1;
  const int64_t epoch = row / training_windows_;
  const int64_t slack = training_bytes_ - training_windows_ * window;
  const int64_t offset =
      UniformBelow(RandomBlock(offset_, epoch, 0), std::min(slack, window - 1) + 1);
  return offset + window * Shuffle(order_, epoch, training_windows_)(row % training_windows_);
}

int64_t TextDataset::RowsPerEpoch(int64_t sequence) const {
  return WindowsPerEpoch(TrainingBytes(file_->opened().bytes, sequence + 1), sequence + 1);
}

absl::Status TextDataset::Read(DataSplit split, size_t field, const Box& box,
                               absl::Span<char> bytes) const {
  RETURN_IF_ERROR(CheckRead(split, field, box, bytes));
  // A target lies one byte behind its token.
  const int64_t column = box.start[1] + static_cast<int64_t>(field), columns = box.extent[1];
  std::vector<char> window(columns);
  auto* element = reinterpret_cast<int32_t*>(bytes.data());
  for (int64_t i = 0; i < box.extent[0]; ++i) {
    const int64_t row = box.start[0] + i;
    const int64_t start = split == DataSplit::kTrain ? TrainingWindow(row) : EvaluationWindow(row);
    RETURN_IF_ERROR(file_->ReadAt(start + column, absl::MakeSpan(window)));
    const auto* byte = reinterpret_cast<const unsigned char*>(window.data());
    element = std::copy(byte, byte + columns, element);
  }
  return absl::OkStatus();
}

}  // namespace tessera
