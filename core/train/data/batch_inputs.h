// The inputs of a Program that hold a batch: each rank reads its part of the global batch.
#ifndef TESSERA_CORE_TRAIN_DATA_BATCH_INPUTS_H_
#define TESSERA_CORE_TRAIN_DATA_BATCH_INPUTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/layout/mesh_layout.h"
#include "core/program/program.h"
#include "core/runtime/engine.h"
#include "core/train/data/dataset.h"

namespace tessera {

// Returns the box of the global batch, [rows, columns], that `rank` holds of the Program's input
// `value`.
Box BatchBox(const Program& program, ProgramValueId value, int rank);

// A rank's part of a batch, for an input of a Program: elements of `dtype`.
struct BatchInput {
  std::string name;
  DType dtype = DType::kI32;
  std::vector<char> bytes;
};

// Sets the inputs of an engine's Program.
absl::Status SetBatch(Engine& engine, const std::string& program,
                      absl::Span<const BatchInput> batch);

// Not thread-safe. The dataset must outlive it; it may be null if nothing is read.
class BatchInputs {
 public:
  // `fields` are those that the model reads. CheckFields must accept them for the dataset.
  BatchInputs(const Dataset* dataset, std::vector<BatchField> fields, int64_t batch)
      : dataset_(dataset), fields_(std::move(fields)), batch_(batch) {}

  // Returns the number of global batches in DataSplit::kEvaluate, including a short last one.
  int64_t EvaluationBatches() const;

  // Reads, for the inputs of an engine's Program that hold a batch, or those that they were split
  // into for micro-batches, its rank's parts of the global batch that begins at `first_row`. Rows
  // that do not exist, and what a buffer has more than its part, are filled with
  // BatchField::missing.
  absl::Status Read(Engine& engine, const std::string& program, DataSplit split, int64_t first_row,
                    std::vector<BatchInput>* batch);

 private:
  // Reads a box of the batch, of the padded shape.
  absl::StatusOr<std::vector<char>> ReadBox(DataSplit split, int64_t first_row,
                                            const BatchField& field, const Box& box,
                                            absl::Span<const int64_t> padded);

  const Dataset* const dataset_;
  const std::vector<BatchField> fields_;
  const int64_t batch_;
  std::vector<char> read_;  // if the box is shorter than its buffer
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_BATCH_INPUTS_H_
