#include "core/train/data/batch_inputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Copies rows of `columns` elements into rows of `stride`, and fills the rest of `to`.
void CopyPadded(absl::Span<const int32_t> from, int64_t columns, int64_t stride, int32_t padding,
                absl::Span<int32_t> to) {
  std::fill(to.begin(), to.end(), padding);
  if (columns == 0) return;
  for (size_t row = 0; row < from.size() / columns; ++row) {
    std::copy_n(from.data() + row * columns, columns, to.data() + row * stride);
  }
}

}  // namespace

Box BatchBox(const Program& program, ProgramValueId value, int rank) {
  const ProgramValue& input = program.value(value);
  if (input.part == kNone) return {Shape(input.type.shape.size(), 0), input.type.shape};
  return program.parts[input.part].At(program.mesh, program.mesh.CoordinatesOf(rank));
}

absl::Status BatchInputs::ReadBox(DataSplit split, int64_t first_row, const Box& box,
                                  absl::Span<const int64_t> padded) {
  const IndexRange rows = {box.start[0], box.start[0] + box.extent[0]};
  const IndexRange columns = {box.start[1], box.start[1] + box.extent[1]};
  const int64_t elements = padded[0] * padded[1];
  tokens_.resize(elements);
  targets_.resize(elements);
  if (rows.size() * columns.size() == elements) {
    return dataset_->Read(split, first_row, shape_, rows, columns, absl::MakeSpan(tokens_),
                          absl::MakeSpan(targets_));
  }
  read_tokens_.resize(rows.size() * columns.size());
  read_targets_.resize(rows.size() * columns.size());
  RETURN_IF_ERROR(dataset_->Read(split, first_row, shape_, rows, columns,
                                 absl::MakeSpan(read_tokens_), absl::MakeSpan(read_targets_)));
  CopyPadded(read_tokens_, columns.size(), padded[1], 0, absl::MakeSpan(tokens_));
  CopyPadded(read_targets_, columns.size(), padded[1], kIgnoredTarget, absl::MakeSpan(targets_));
  return absl::OkStatus();
}

absl::Status SetBatch(Engine& engine, const std::string& program,
                      absl::Span<const BatchInput> batch) {
  for (const BatchInput& input : batch) {
    RETURN_IF_ERROR(engine.SetInput(program, input.name, input.values));
  }
  return absl::OkStatus();
}

absl::Status BatchInputs::Read(Engine& engine, const std::string& program_name, DataSplit split,
                               int64_t first_row, std::vector<BatchInput>* batch) {
  const CompiledRun& run = engine.run();
  const auto graph = std::find_if(run.graphs.begin(), run.graphs.end(),
                                  [&](const Graph& each) { return each.name() == program_name; });
  if (graph == run.graphs.end()) {
    return absl::NotFoundError(absl::StrCat("the run has no graph '", program_name, "'"));
  }
  const Program& program = engine.executor(program_name).program();
  batch->clear();
  Box read;
  Shape read_padded;
  for (const GraphInput& input : graph->inputs()) {
    const bool is_tokens = input.origin == "tokens";
    if (!is_tokens && input.origin != "targets") continue;
    const std::string& name = graph->value(input.value).path;
    const ProgramValueId value = program.FindInput(name);
    if (value == kNone) {
      return absl::NotFoundError(
          absl::StrCat("program '", program_name, "' has no input '", name, "'"));
    }
    const Shape& padded = program.value(value).type.shape;
    const Box box = BatchBox(program, value, engine.options().rank.rank);
    // Tokens and targets usually have the same layout; then one Read serves both.
    if (read.start != box.start || read.extent != box.extent || read_padded != padded) {
      RETURN_IF_ERROR(ReadBox(split, first_row, box, padded));
      read = box;
      read_padded = padded;
    }
    batch->push_back({name, is_tokens ? tokens_ : targets_});
  }
  return absl::OkStatus();
}

}  // namespace tessera
