// The layouts of the values of a Graph over the micro-batches of a step. Micro-batches are a split
// in time instead of over devices, so the operators' layout signatures say what may be split.
//
// Thread safety: a pure function.
#ifndef TESSERA_CORE_PLAN_MICRO_BATCH_LAYOUTS_H_
#define TESSERA_CORE_PLAN_MICRO_BATCH_LAYOUTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"

namespace tessera {

// When one op of the Graph runs.
enum class MicroBatchStage : uint8_t {
  kBefore,  // before the first micro-batch: for each of them, or once on full values
  kEach,    // in each micro-batch
  kAfter,   // once after the last, on full values
};

struct OpSchedule {
  MicroBatchStage stage = MicroBatchStage::kAfter;
  // Runs once, on full values. Otherwise once for each micro-batch.
  bool full = true;
  // The layout in which each micro-batch reads input i: the value's own, or B (all of it), or S (a
  // part of a full value). Empty if `full`.
  std::vector<AxisLayout> inputs;
};

struct MicroBatchLayouts {
  // The layout of each value. B: there is one value, the full one. S: each micro-batch has an equal
  // part; the parts follow each other along the dimension. P: each micro-batch has a value of the
  // full shape, and the full value is the sum (the maximum, the log-sum-exp) of them.
  std::vector<AxisLayout> values;
  // Whether a value is not B, and an op, an output or a state needs the full value.
  std::vector<bool> gathered;
  std::vector<OpSchedule> ops;
};

// Inputs with a batch dimension are S(batch_dim), other inputs and all states B. An op whose inputs
// are all B runs once (in each micro-batch, if only those read it and each a part of it). Any other
// op runs in each micro-batch by the first of its signatures that takes the layouts of its inputs
// and has the most split outputs, where a B may be split to an S. If there is none, P inputs, then
// S inputs are gathered, as few as possible.
//
// InvalidArgument if the number of micro-batches does not divide an input's batch, if there is no
// input with a batch dimension, or if a micro-batch needs a full value that does not follow from
// the step's inputs alone.
absl::StatusOr<MicroBatchLayouts> LayOutMicroBatches(const Graph& graph, int64_t micro_batches);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_MICRO_BATCH_LAYOUTS_H_
