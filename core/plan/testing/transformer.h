// A transformer whose qkv weight has heads as its outermost dimension, so that a split by heads
// reaches attention, for tests of Plans.
#ifndef TESSERA_CORE_PLAN_TESTING_TRANSFORMER_H_
#define TESSERA_CORE_PLAN_TESTING_TRANSFORMER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/ops/ops.h"

namespace tessera {

struct TransformerSizes {
  int64_t batch = 4, sequence = 6, context = 8;
  int64_t layers = 1, heads = 4, head_dim = 2, vocabulary = 12;
  double dropout = 0.1;
  bool adamw = true;  // else SGD

  int64_t channels() const { return heads * head_dim; }
};

// Records loss, gradients, clipping by their norm, and updates.
Graph RecordTransformerTraining(const TransformerSizes& sizes);
// Records the loss without dropout.
Graph RecordTransformerLoss(const TransformerSizes& sizes);
// Records the initial values of the training Graph's state.
Graph RecordTransformerState(const Graph& train);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_TESTING_TRANSFORMER_H_
