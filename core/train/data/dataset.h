// The source of batches.
//
// A dataset knows no rank, layout, batch or position: a read names rows, counted from the first one
// of a split, and elements of them, and always returns the same numbers. So the position in the
// data is the number of rows that training has taken, whatever the batches were.
#ifndef TESSERA_CORE_TRAIN_DATA_DATASET_H_
#define TESSERA_CORE_TRAIN_DATA_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/layout/mesh_layout.h"
#include "core/model/batch_field.h"

namespace tessera {

enum class DataSplit { kTrain, kEvaluate };

// Thread safety: const methods may be called from several threads concurrently.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // The parts of each row.
  virtual const std::vector<BatchField>& fields() const = 0;

  // Writes a box of a field of a split, [rows, elements of a row ...], row-major, as elements of
  // the field's dtype. Training has every row from 0 on, evaluation EvaluationRows(). Returns
  // InvalidArgument for a box that does not fit the field or a span of another size, and OutOfRange
  // for rows that do not exist.
  //
  // Does not see all changes of the data: if MustCompare() returns true afterwards, what was read
  // may be used only if Compare() returns OK.
  virtual absl::Status Read(DataSplit split, size_t field, const Box& box,
                            absl::Span<char> bytes) const = 0;

  // Returns whether the data may have changed since they were opened or last compared. Takes no
  // time worth mentioning.
  virtual bool MustCompare() const { return false; }

  // Compares the data with what they were when they were opened, unless MustCompare() returns
  // false. FailedPrecondition if they have changed. May read all of the data, which takes minutes
  // if they are large: ranks should not wait for it with the time-out of a step.
  virtual absl::Status Compare() const { return absl::OkStatus(); }

  // Returns the number of rows after which training has taken the data once; 0 if the data has no
  // end. `sequence` is the length of a row, for data whose rows have any length.
  virtual int64_t RowsPerEpoch(int64_t sequence) const = 0;

  // Identifies the data: the same text for the same data, wherever it is stored, and another text
  // for other data. One short line, readable by people.
  virtual std::string Fingerprint() const = 0;

  // Returns the number of rows in DataSplit::kEvaluate.
  virtual int64_t EvaluationRows() const = 0;

 protected:
  // Makes the checks of Read that are the same for all datasets.
  absl::Status CheckRead(DataSplit split, size_t field, const Box& box,
                         absl::Span<const char> bytes) const;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_DATASET_H_
