// The inputs of a Program that hold a batch: each rank reads its part of the global batch.
#ifndef TESSERA_CORE_TRAIN_DATA_BATCH_INPUTS_H_
#define TESSERA_CORE_TRAIN_DATA_BATCH_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/layout/mesh_layout.h"
#include "core/program/program.h"
#include "core/runtime/engine.h"
#include "core/train/data/dataset.h"

namespace tessera {

// Returns the box of the global batch, [rows, columns], that `rank` holds of the Program's input
// `value`.
Box BatchBox(const Program& program, ProgramValueId value, int rank);

// A rank's part of a batch, for an input of a Program.
struct BatchInput {
  std::string name;
  std::vector<int32_t> values;
};

// Sets the inputs of an engine's Program.
absl::Status SetBatch(Engine& engine, const std::string& program,
                      absl::Span<const BatchInput> batch);

// Not thread-safe. The dataset must outlive it; it may be null if nothing is read.
class BatchInputs {
 public:
  BatchInputs(const Dataset* dataset, BatchShape shape) : dataset_(dataset), shape_(shape) {}

  // Reads, for the inputs "tokens" and "targets" of an engine's Program, or those that they were
  // split into for micro-batches, its rank's parts of the global batch that begins at `first_row`.
  // If a part is shorter than its buffer, the rest of the buffer is filled with token 0 and target
  // kIgnoredTarget.
  absl::Status Read(Engine& engine, const std::string& program, DataSplit split, int64_t first_row,
                    std::vector<BatchInput>* batch);

 private:
  // Reads a box of the batch into tokens_ and targets_, which get the padded shape [rows, columns].
  absl::Status ReadBox(DataSplit split, int64_t first_row, const Box& box,
                       absl::Span<const int64_t> padded);

  const Dataset* const dataset_;
  const BatchShape shape_;
  std::vector<int32_t> tokens_, targets_;
  std::vector<int32_t> read_tokens_, read_targets_;  // if the box is shorter than its buffer
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_BATCH_INPUTS_H_
