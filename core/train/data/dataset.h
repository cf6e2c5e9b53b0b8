// The source of batches.
//
// A dataset knows no rank, layout or position: a read names the first row of a global batch, and
// rows and columns of it, and always returns the same numbers. So the position in the data is the
// number of rows that training has taken, whatever the batches were.
#ifndef TESSERA_CORE_TRAIN_DATA_DATASET_H_
#define TESSERA_CORE_TRAIN_DATA_DATASET_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tessera {

// The target of a position that is excluded from the loss.
inline constexpr int32_t kIgnoredTarget = -100;

enum class DataSplit { kTrain, kEvaluate };

// The shape of a global batch.
struct BatchShape {
  int64_t batch = 0;     // rows
  int64_t sequence = 0;  // columns, in tokens
};

// The indices begin <= i < end.
struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Thread safety: const methods may be called from several threads concurrently.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Tokens, and targets that are not ignored, are in [0, vocabulary).
  virtual int64_t vocabulary() const = 0;

  // Writes those rows and columns of the global batch that begins at `first_row` of the split (from
  // 0), row-major, as [rows.size(), columns.size()]. The target of a position is the token that
  // follows it. Returns InvalidArgument for a shape that the dataset does not have, ranges outside
  // of it or spans of another size, and OutOfRange for rows that do not exist (training has every
  // row, evaluation those of EvaluationBatches).
  //
  // Does not see all changes of the data: if MustCompare() returns true afterwards, what was read
  // may be used only if Compare() returns OK.
  virtual absl::Status Read(DataSplit split, int64_t first_row, BatchShape shape, IndexRange rows,
                            IndexRange columns, absl::Span<int32_t> tokens,
                            absl::Span<int32_t> targets) const = 0;

  // Returns whether the data may have changed since they were opened or last compared. Takes no
  // time worth mentioning.
  virtual bool MustCompare() const { return false; }

  // Compares the data with what they were when they were opened, unless MustCompare() returns
  // false. FailedPrecondition if they have changed. May read all of the data, which takes minutes
  // if they are large: ranks should not wait for it with the time-out of a step.
  virtual absl::Status Compare() const { return absl::OkStatus(); }

  // Returns the number of rows of `sequence` tokens after which training has taken the data once;
  // 0 if the data has no end.
  virtual int64_t RowsPerEpoch(int64_t sequence) const = 0;

  // Identifies the data: the same text for the same data, wherever it is stored, and another text
  // for other data. One short line, readable by people.
  virtual std::string Fingerprint() const = 0;

  // Returns the number of global batches of this shape in DataSplit::kEvaluate, including a short
  // last one, whose missing rows have token 0 and target kIgnoredTarget.
  virtual int64_t EvaluationBatches(BatchShape shape) const = 0;

 protected:
  // Makes the checks of Read that are the same for all datasets.
  static absl::Status CheckRead(int64_t first_row, BatchShape shape, IndexRange rows,
                                IndexRange columns, absl::Span<int32_t> tokens,
                                absl::Span<int32_t> targets);
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_DATASET_H_
