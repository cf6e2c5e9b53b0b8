// The layouts of the values of a Graph over the micro-batches of a step. Micro-batches are a split
// in time instead of over devices, so the operators' layout signatures say what may be split.
//
// Thread safety: a pure function.
#ifndef TESSERA_CORE_PLAN_REWRITE_MICRO_BATCH_LAYOUTS_H_
#define TESSERA_CORE_PLAN_REWRITE_MICRO_BATCH_LAYOUTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/layout/layout.h"

namespace tessera {

// When an op of the Graph runs.
enum class MicroBatchStage : uint8_t {
  kBefore,  // before the first micro-batch: once for each of them, or once on full values
  kEach,    // in each micro-batch
  kAfter,   // once after the last micro-batch, on full values
};

struct OpSchedule {
  MicroBatchStage stage = MicroBatchStage::kAfter;
  // Whether the op runs once, on full values, instead of once for each micro-batch.
  bool full = true;
  // The layout in which each micro-batch reads input i: the value's own, or B (all of it), or S (a
  // part of a full value). Empty if `full`.
  std::vector<AxisLayout> inputs;
};

struct MicroBatchLayouts {
  // The layout of each value. B: there is one value, the full one. S: each micro-batch has an equal
  // part; the parts are consecutive along the dimension. P: each micro-batch has a value of the
  // full shape, and the full value is their sum (or maximum, or log-sum-exp).
  Table<ValueId, AxisLayout> values;
  // Whether the value is not B but an op, an output or a state needs the full value.
  Table<ValueId, bool> gathered;
  Table<OpId, OpSchedule> ops;
};

// Chooses the layouts of a Graph's values over `micro_batches` micro-batches. Inputs with a batch
// dimension are S(batch_dim); other inputs and all states are B. An op whose inputs are all B runs
// once (or in each micro-batch, if only ops of micro-batches read it and each reads a part). Any
// other op runs in each micro-batch, by the first of its signatures that accepts the layouts of its
// inputs (a B may be split to an S) and has the most split outputs. If there is none, as few inputs
// as possible are gathered: P inputs first, then S inputs.
//
// InvalidArgument if the number of micro-batches does not divide an input's batch, if no input has
// a batch dimension, if an op refuses to read it in parts (Operator::CheckMicroBatches), or if a
// micro-batch needs a full value that is not computed from the step's inputs alone.
absl::StatusOr<MicroBatchLayouts> LayOutMicroBatches(const Graph& graph, int64_t micro_batches);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_MICRO_BATCH_LAYOUTS_H_
