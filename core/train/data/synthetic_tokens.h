// Uniformly random texts, for benchmarks of language models, which need batches of any shape and no
// file. A model cannot learn from them: the loss stays at log(vocabulary).
#ifndef TESSERA_CORE_TRAIN_DATA_SYNTHETIC_TOKENS_H_
#define TESSERA_CORE_TRAIN_DATA_SYNTHETIC_TOKENS_H_

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
class SyntheticTokens : public Dataset {
 public:
  // Rows of `sequence` tokens below `vocabulary`, and targets that are the tokens one further.
  // Returns InvalidArgument for a vocabulary below 1 or above 2^31 - 1.
  static absl::StatusOr<std::unique_ptr<SyntheticTokens>> Create(int64_t vocabulary,
                                                                 int64_t sequence, int64_t batch,
                                                                 uint64_t seed);

  // "tokens" and "targets", i32 [sequence].
  const std::vector<BatchField>& fields() const override { return fields_; }

  // "random tokens below 256": the seed, which draws them too, is the run's.
  std::string Fingerprint() const override;

  // Row k * batch + r has sequence + 1 tokens, for r below the batch: the words from
  // r * (sequence + 1) on of step k in the split's random stream, scaled from 2^32 to the
  // vocabulary by multiplication.
  absl::Status Read(DataSplit split, size_t field, const Box& box,
                    absl::Span<char> bytes) const override;

  int64_t RowsPerEpoch(int64_t sequence) const override { return 0; }
  // Those of 8 batches.
  int64_t EvaluationRows() const override { return 8 * batch_; }

 private:
  SyntheticTokens(int64_t vocabulary, int64_t sequence, int64_t batch, uint64_t seed);

  const int64_t vocabulary_, sequence_, batch_;
  const std::vector<BatchField> fields_;
  const RandomStream training_, evaluation_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_SYNTHETIC_TOKENS_H_
