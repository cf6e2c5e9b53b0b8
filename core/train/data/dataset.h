// Where batches come from.
//
// A dataset knows no rank, no layout and no position: it is asked for rows and columns of the
// global batch of an index, and gives the same numbers whoever asks, however often, in any order.
// The position in the data is therefore one number, the count of global batches taken so far.
#ifndef TESSERA_CORE_TRAIN_DATA_DATASET_H_
#define TESSERA_CORE_TRAIN_DATA_DATASET_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tessera {

// The target of a position that must not count in the loss.
inline constexpr int32_t kIgnoredTarget = -100;

enum class DataSplit { kTrain, kEvaluate };

// Of one global batch.
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

// Thread safety: const methods may be called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Tokens, and targets that are not ignored, lie in [0, vocabulary).
  virtual int64_t vocabulary() const = 0;

  // Writes those rows and columns of global batch `batch_index` (from 0), row-major, as
  // [rows.size(), columns.size()]. The target of a position is the token that follows it.
  // InvalidArgument for a shape that the dataset cannot give, ranges that lie outside of it or
  // spans of another size; OutOfRange for a batch that does not exist (training has all of them).
  virtual absl::Status Read(DataSplit split, int64_t batch_index, BatchShape shape, IndexRange rows,
                            IndexRange columns, absl::Span<int32_t> tokens,
                            absl::Span<int32_t> targets) const = 0;

  // Identifies the data: the same text for the same data, wherever it lies, and another one for
  // other data. Short, on one line, for a person to read.
  virtual std::string Fingerprint() const = 0;

  // How many global batches of this shape DataSplit::kEvaluate has, a short last one included. The
  // rows that the short one lacks are token 0 with target kIgnoredTarget.
  virtual int64_t EvaluationBatches(BatchShape shape) const = 0;

 protected:
  // The checks of Read that do not depend on the dataset.
  static absl::Status CheckRead(int64_t batch_index, BatchShape shape, IndexRange rows,
                                IndexRange columns, absl::Span<int32_t> tokens,
                                absl::Span<int32_t> targets);
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_DATASET_H_
