// Uniformly random rows of any fields, for benchmarks, which need batches of any shape and no file.
// A model cannot learn from them. For language models, there are texts: synthetic_tokens.h.
#ifndef TESSERA_CORE_TRAIN_DATA_SYNTHETIC_DATASET_H_
#define TESSERA_CORE_TRAIN_DATA_SYNTHETIC_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/random.h"
#include "core/train/data/dataset.h"

namespace tessera {

// Thread safety: immutable.
class SyntheticDataset : public Dataset {
 public:
  // Rows have the fields that a model reads. Returns InvalidArgument for a field of integers (but
  // u8) without a limit, or with one below 1 or above the largest integer of its dtype.
  static absl::StatusOr<std::unique_ptr<SyntheticDataset>> Create(std::vector<BatchField> fields,
                                                                  int64_t evaluation_rows,
                                                                  uint64_t seed);

  const std::vector<BatchField>& fields() const override { return fields_; }

  // "random tokens below 256, targets below 256": the seed, which draws them too, is the run's.
  std::string Fingerprint() const override;

  // Element e of row r is made of word e of step r in the random stream of the field and split:
  // scaled from 2^32 to the limit by multiplication, or for floating dtypes to [0, 1).
  absl::Status Read(DataSplit split, size_t field, const Box& box,
                    absl::Span<char> bytes) const override;

  int64_t RowsPerEpoch(int64_t sequence) const override { return 0; }
  int64_t EvaluationRows() const override { return evaluation_rows_; }

 private:
  SyntheticDataset(std::vector<BatchField> fields, int64_t evaluation_rows, uint64_t seed);

  std::vector<BatchField> fields_;  // with the limits of u8
  const int64_t evaluation_rows_;
  std::vector<RandomStream> training_, evaluation_;  // by field
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_SYNTHETIC_DATASET_H_
