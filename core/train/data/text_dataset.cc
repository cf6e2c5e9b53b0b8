#include "core/train/data/text_dataset.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/data/shuffle.h"
#include "core/train/data/text_check.h"

namespace tessera {
namespace {

// Returns the number of the last bytes of a text that are held out.
int64_t HeldOut(int64_t bytes, int64_t window) { return std::max(bytes / 10, window); }

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

}  // namespace

TextDataset::TextDataset(std::unique_ptr<MappedFile> file, int64_t sequence, uint64_t seed,
                         int64_t training_bytes, std::string checksum, int64_t modified_at)
    : file_(std::move(file)),
      sequence_(sequence),
      order_(MakeStream(seed, "data.order")),
      offset_(MakeStream(seed, "data.offset")),
      training_bytes_(training_bytes),
      training_windows_(WindowsPerEpoch(training_bytes, sequence + 1)),
      checksum_(std::move(checksum)),
      checked_at_(modified_at) {}

absl::StatusOr<std::unique_ptr<TextDataset>> TextDataset::Open(absl::string_view path,
                                                               int64_t sequence, uint64_t seed) {
  if (sequence < 1 || sequence > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read a text in sequences of ", sequence,
                                                   " tokens: 1 to 2147483647 would be right"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const int64_t bytes = static_cast<int64_t>(file->contents().size());
  const int64_t window = sequence + 1;
  if (bytes < 2 * window) {
    const std::string shorter =
        bytes < 4
            ? ""
            : absl::StrCat(", or sequences of ", Counted(bytes / 2 - 1, "token"), " or fewer");
    return absl::InvalidArgumentError(absl::StrCat(
        file->path(), ": a text of ", Counted(bytes, "byte"), " is too short for sequences of ",
        Counted(sequence, "token"), ": training and evaluation need ", window, " bytes each, so ",
        2 * window, " bytes or more would be right", shorter));
  }
  // Taken before the contents are read: the first Read detects a change in between.
  ASSIGN_OR_RETURN(const int64_t modified_at, file->ModifiedAt());
  ASSIGN_OR_RETURN(std::string checksum, CheckText(file->path(), file->contents()));
  return std::unique_ptr<TextDataset>(new TextDataset(std::move(file), sequence, seed,
                                                      bytes - HeldOut(bytes, window),
                                                      std::move(checksum), modified_at));
}

int64_t TextDataset::evaluation_bytes() const {
  return static_cast<int64_t>(file_->contents().size()) - training_bytes_;
}

std::string TextDataset::Fingerprint() const {
  return absl::StrCat("text of ", file_->contents().size(), " bytes, XXH3-128 ", checksum_);
}

absl::Status TextDataset::CheckUnchanged() const {
  RETURN_IF_ERROR(file_->CheckSize());
  ASSIGN_OR_RETURN(const int64_t modified_at, file_->ModifiedAt());
  if (modified_at == checked_at_.load()) return absl::OkStatus();
  if (ChecksumOf(file_->contents()) != checksum_) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_->path(), ": the file was changed while it was in use: its first ",
        file_->contents().size(), " bytes are not those that it had when it was opened"));
  }
  checked_at_.store(modified_at);
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

int64_t TextDataset::EvaluationWindow(int64_t row) const {
  return row < evaluation_windows() ? training_bytes_ + row * (sequence_ + 1) : -1;
}

int64_t TextDataset::RowsPerEpoch(int64_t sequence) const {
  const int64_t bytes = static_cast<int64_t>(file_->contents().size());
  return WindowsPerEpoch(bytes - HeldOut(bytes, sequence + 1), sequence + 1);
}

int64_t TextDataset::EvaluationBatches(BatchShape shape) const {
  if (shape.batch < 1) return 0;
  return (evaluation_windows() - 1) / shape.batch + 1;
}

absl::Status TextDataset::Read(DataSplit split, int64_t first_row, BatchShape shape,
                               IndexRange rows, IndexRange columns, absl::Span<int32_t> tokens,
                               absl::Span<int32_t> targets) const {
  RETURN_IF_ERROR(CheckRead(first_row, shape, rows, columns, tokens, targets));
  if (shape.sequence != sequence_) {
    return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": cannot read sequences of ",
                                                   shape.sequence,
                                                   " tokens: the file was opened for ", sequence_));
  }
  if (split == DataSplit::kEvaluate && first_row >= evaluation_windows()) {
    return absl::OutOfRangeError(absl::StrCat(file_->path(), ": there is no row ", first_row,
                                              " to evaluate: there are ", evaluation_windows()));
  }
  RETURN_IF_ERROR(CheckUnchanged());

  int32_t* token = tokens.data();
  int32_t* target = targets.data();
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const int64_t row = first_row + i;
    const int64_t start = split == DataSplit::kTrain ? TrainingWindow(row) : EvaluationWindow(row);
    if (start < 0) {
      token = std::fill_n(token, columns.size(), 0);
      target = std::fill_n(target, columns.size(), kIgnoredTarget);
      continue;
    }
    const auto* byte = reinterpret_cast<const unsigned char*>(file_->contents().data()) + start;
    token = std::copy(byte + columns.begin, byte + columns.end, token);
    target = std::copy(byte + columns.begin + 1, byte + columns.end + 1, target);
  }
  return absl::OkStatus();
}

}  // namespace tessera
