// A UTF-8 text file as a dataset of bytes: a token is a byte, the vocabulary is 256.
//
// The last max(n / 10, sequence + 1) of n bytes (rounded down) are held out for evaluation:
// training uses them neither as tokens nor as targets. Both splits must have sequence + 1 bytes or
// more.
//
// Both splits are read in windows of sequence + 1 bytes: all bytes but the last are tokens, all
// bytes but the first are targets.
// - Training proceeds in epochs. In an epoch, consecutive windows without overlap start at a random
//   offset, so that their borders differ between epochs, and each window is read once, in a random
//   order. All epochs have the same number of windows, and skip fewer than 2 * (sequence + 1)
//   bytes, different ones each time. Rows take the windows of one epoch after another: a batch may
//   begin in one epoch and end in the next.
// - Evaluation reads the windows of the held-out split in order, from its first byte. A remainder
//   shorter than a window is not read.
#ifndef TESSERA_CORE_TRAIN_DATA_TEXT_DATASET_H_
#define TESSERA_CORE_TRAIN_DATA_TEXT_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/sync/mutex.h"
#include "core/tensor/random.h"
#include "core/train/data/data_file.h"
#include "core/train/data/dataset.h"

namespace tessera {

// The number of kinds of bytes, each of which is a token.
inline constexpr int64_t kByteTokens = 256;

// Thread safety: const methods may be called from several threads concurrently.
class TextDataset : public Dataset {
 public:
  // Opens the file and reads all of it once, to check it. `seed` determines the order of training.
  // Returns an error, with the file's name, for a file that is missing, a folder, empty, no text
  // (text_check.h), or too short for one window in each split.
  static absl::StatusOr<std::unique_ptr<TextDataset>> Open(absl::string_view path, int64_t sequence,
                                                           uint64_t seed);

  // The two halves of Open, for ranks of which one reads the file for others. OpenFile opens the
  // file and checks its length, but reads none of it. `checksum` is what CheckText returns for it.
  static absl::StatusOr<std::unique_ptr<DataFile>> OpenFile(absl::string_view path,
                                                            int64_t sequence);
  static absl::StatusOr<std::unique_ptr<TextDataset>> Create(std::unique_ptr<DataFile> file,
                                                             std::string checksum, int64_t sequence,
                                                             uint64_t seed);

  // "tokens", and "targets", each of which is the token that follows.
  const std::vector<BatchField>& fields() const override { return fields_; }

  // "text of 4351234 bytes, XXH3-128 1f3c...", for the contents of the file when it was opened.
  std::string Fingerprint() const override;

  // Returns FailedPrecondition if the file ends before the rows.
  absl::Status Read(DataSplit split, size_t field, const Box& box,
                    absl::Span<char> bytes) const override;

  // Returns whether the file's time of change or its size has changed.
  bool MustCompare() const override;

  // Compares the file's contents. Bytes that are appended are not read and change nothing: a file
  // that has become longer is compared by samples, because all of a growing file would be read
  // again and again.
  absl::Status Compare() const override;

  int64_t RowsPerEpoch(int64_t sequence) const override;

  int64_t EvaluationRows() const override { return evaluation_windows(); }

  int64_t training_bytes() const { return training_bytes_; }
  int64_t evaluation_bytes() const;
  // The number of windows in an epoch, and in the held-out split.
  int64_t training_windows() const { return training_windows_; }
  int64_t evaluation_windows() const { return evaluation_bytes() / (sequence_ + 1); }

 private:
  TextDataset(std::unique_ptr<DataFile> file, std::string checksum, std::string sample,
              int64_t sequence, uint64_t seed);

  // Return the offset in the file of a row's window.
  int64_t TrainingWindow(int64_t row) const;
  int64_t EvaluationWindow(int64_t row) const { return training_bytes_ + row * (sequence_ + 1); }

  const std::unique_ptr<DataFile> file_;
  const int64_t sequence_;
  const std::vector<BatchField> fields_;
  const RandomStream order_;   // of an epoch's windows
  const RandomStream offset_;  // of an epoch's first window
  const int64_t training_bytes_;
  const int64_t training_windows_;
  const std::string checksum_;
  const std::string sample_;  // the checksum of samples of the contents
  mutable Mutex mutex_;
  // The file when its contents were last found to be those.
  mutable FileVersion checked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_TEXT_DATASET_H_
