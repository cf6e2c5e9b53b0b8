#include "core/train/data/synthetic_dataset.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {

SyntheticDataset::SyntheticDataset(int64_t vocabulary, uint64_t seed)
    : vocabulary_(vocabulary),
      training_(MakeStream(seed, "data.synthetic.train")),
      evaluation_(MakeStream(seed, "data.synthetic.evaluate")) {}

absl::StatusOr<std::unique_ptr<SyntheticDataset>> SyntheticDataset::Create(int64_t vocabulary,
                                                                           uint64_t seed) {
  if (vocabulary < 1 || vocabulary > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot draw tokens from a vocabulary of ",
                                                   vocabulary, ": 1 to 2147483647 would be right"));
  }
  return std::unique_ptr<SyntheticDataset>(new SyntheticDataset(vocabulary, seed));
}

std::string SyntheticDataset::Fingerprint() const {
  return absl::StrCat("random tokens below ", vocabulary_);
}

int64_t SyntheticDataset::EvaluationBatches(BatchShape) const { return 8; }

absl::Status SyntheticDataset::Read(DataSplit split, int64_t first_row, BatchShape shape,
                                    IndexRange rows, IndexRange columns, absl::Span<int32_t> tokens,
                                    absl::Span<int32_t> targets) const {
  RETURN_IF_ERROR(CheckRead(first_row, shape, rows, columns, tokens, targets));
  if (split == DataSplit::kEvaluate && first_row / shape.batch >= EvaluationBatches(shape)) {
    return absl::OutOfRangeError(
        absl::StrCat("there is no row ", first_row, " to evaluate: synthetic data has ",
                     EvaluationBatches(shape), " batches of ", shape.batch));
  }
  const RandomStream stream = split == DataSplit::kTrain ? training_ : evaluation_;
  const uint64_t window = static_cast<uint64_t>(shape.sequence) + 1;
  int32_t* token = tokens.data();
  int32_t* target = targets.data();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const uint64_t step = (first_row + row) / shape.batch;
    uint64_t element = static_cast<uint64_t>((first_row + row) % shape.batch) * window +
                       static_cast<uint64_t>(columns.begin);
    PhiloxBlock block = RandomBlock(stream, step, element / 4);
    const auto draw = [&] {
      const uint64_t word = block[element % 4];
      if (++element % 4 == 0) block = RandomBlock(stream, step, element / 4);
      return static_cast<int32_t>((word * static_cast<uint64_t>(vocabulary_)) >> 32);
    };
    int32_t next = columns.size() > 0 ? draw() : 0;
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      *token++ = next;
      next = draw();
      *target++ = next;
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
