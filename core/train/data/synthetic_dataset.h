// Uniformly random tokens, for benchmarks, which need batches of any shape and no file. A model
// cannot learn from them: the loss stays at log(vocabulary).
#ifndef TESSERA_CORE_TRAIN_DATA_SYNTHETIC_DATASET_H_
#define TESSERA_CORE_TRAIN_DATA_SYNTHETIC_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/random.h"
#include "core/train/data/dataset.h"

namespace tessera {

// Thread safety: immutable.
class SyntheticDataset : public Dataset {
 public:
  // Returns InvalidArgument for a vocabulary below 1 or above 2^31 - 1.
  static absl::StatusOr<std::unique_ptr<SyntheticDataset>> Create(int64_t vocabulary,
                                                                  uint64_t seed);

  int64_t vocabulary() const override { return vocabulary_; }

  // "random tokens below 256": the seed, which draws them too, is the run's.
  std::string Fingerprint() const override;

  // Accepts any shape. Row k * batch + r has sequence + 1 tokens, for r below the batch: the words
  // from r * (sequence + 1) on of step k in the split's random stream, scaled from 2^32 to the
  // vocabulary by multiplication.
  absl::Status Read(DataSplit split, int64_t first_row, BatchShape shape, IndexRange rows,
                    IndexRange columns, absl::Span<int32_t> tokens,
                    absl::Span<int32_t> targets) const override;

  int64_t RowsPerEpoch(int64_t sequence) const override { return 0; }

  // Always 8 complete batches.
  int64_t EvaluationBatches(BatchShape shape) const override;

 private:
  SyntheticDataset(int64_t vocabulary, uint64_t seed);

  const int64_t vocabulary_;
  const RandomStream training_;
  const RandomStream evaluation_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_SYNTHETIC_DATASET_H_
