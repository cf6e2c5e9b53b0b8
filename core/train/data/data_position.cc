#include "core/train/data/data_position.h"

namespace tessera {

DataPosition PositionFor(const DataPosition& position, int64_t sequence, const Dataset& dataset) {
  const int64_t epoch = dataset.RowsPerEpoch(position.sequence);
  if (position.sequence == sequence || epoch == 0) return {position.rows, sequence};
  const int64_t begun = position.rows / epoch + (position.rows % epoch > 0 ? 1 : 0);
  return {begun * dataset.RowsPerEpoch(sequence), sequence};
}

}  // namespace tessera
