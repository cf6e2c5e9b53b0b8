// Where training stands in its data.
#ifndef TESSERA_CORE_TRAIN_DATA_DATA_POSITION_H_
#define TESSERA_CORE_TRAIN_DATA_DATA_POSITION_H_

#include <cstdint>

#include "core/train/data/dataset.h"

namespace tessera {

struct DataPosition {
  int64_t rows = 0;      // that training has taken
  int64_t sequence = 1;  // tokens of each
};

// Returns the position for rows of `sequence` tokens. Rows of another length are other windows of
// the data, so training goes on at the next epoch; if the data has no end, after as many rows.
// Thread safety: a pure function.
DataPosition PositionFor(const DataPosition& position, int64_t sequence, const Dataset& dataset);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_DATA_POSITION_H_
