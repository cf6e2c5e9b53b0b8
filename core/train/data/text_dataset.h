// Any UTF-8 text file as a dataset, by bytes: a token is a byte, the vocabulary is 256.
//
// The last tenth of the file, or sequence + 1 bytes if that is more, is held back for evaluation
// and never trained on, neither as token nor as target: of n bytes, the last
// max(n / 10, sequence + 1), rounded down. Both parts must have sequence + 1 bytes or more.
//
// Both parts are read in windows of sequence + 1 bytes: all but the last byte are tokens, all but
// the first are targets.
// - Training goes through epochs. In each, windows lie one after another without overlap, from an
//   offset that is drawn for the epoch, so that their borders move; each window is read once, in an
//   order that is drawn for the epoch. All epochs have the same number of windows, and leave out
//   fewer than 2 * (sequence + 1) bytes, other ones each time. Rows are numbered through, row r of
//   batch k being k * batch + r, and take the windows of one epoch after another: a batch may
//   begin in one epoch and end in the next.
// - Evaluation reads the windows of the held-back part in order, from its first byte; what is left
//   at the end is shorter than a window and is not read.
#ifndef TESSERA_CORE_TRAIN_DATA_TEXT_DATASET_H_
#define TESSERA_CORE_TRAIN_DATA_TEXT_DATASET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/random.h"
#include "core/train/data/dataset.h"
#include "core/train/data/mapped_file.h"

namespace tessera {

// Thread safety: const methods may be called from several threads at once.
class TextDataset : public Dataset {
 public:
  // Maps the file and reads through it once, to check it. The order of training is drawn by `seed`.
  // Errors, each naming the file: missing, a folder, empty, not UTF-8 (which byte at which offset
  // and line), too short for one window in each part.
  static absl::StatusOr<std::unique_ptr<TextDataset>> Open(absl::string_view path, int64_t sequence,
                                                           uint64_t seed);

  int64_t vocabulary() const override { return 256; }

  // "text of 4351234 bytes, XXH3-128 1f3c...": of what the file held when it was opened.
  std::string Fingerprint() const override;

  // shape.sequence must be the sequence that the file was opened with. FailedPrecondition if the
  // file has other contents by now: they are compared where the file has another time of its last
  // change.
  absl::Status Read(DataSplit split, int64_t batch_index, BatchShape shape, IndexRange rows,
                    IndexRange columns, absl::Span<int32_t> tokens,
                    absl::Span<int32_t> targets) const override;

  int64_t EvaluationBatches(BatchShape shape) const override;

  int64_t training_bytes() const { return training_bytes_; }
  int64_t evaluation_bytes() const;
  // Windows of one epoch, and of the held-back part.
  int64_t training_windows() const { return training_windows_; }
  int64_t evaluation_windows() const { return evaluation_bytes() / (sequence_ + 1); }

 private:
  TextDataset(std::unique_ptr<MappedFile> file, int64_t sequence, uint64_t seed,
              int64_t training_bytes, int64_t modified_at);

  absl::Status CheckUnchanged() const;

  // Where the window of a row starts in the file, or -1 past the last one of evaluation. `row` is
  // numbered through over batches.
  int64_t TrainingWindow(int64_t row) const;
  int64_t EvaluationWindow(int64_t row) const;

  const std::unique_ptr<MappedFile> file_;
  const int64_t sequence_;
  const RandomStream order_;   // of the windows of an epoch
  const RandomStream offset_;  // of the first of them
  const int64_t training_bytes_;
  const int64_t training_windows_;
  const std::string checksum_;
  // The time of the last change at which the contents had this checksum.
  mutable std::atomic<int64_t> checked_at_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_TEXT_DATASET_H_
