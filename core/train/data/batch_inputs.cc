#include "core/train/data/batch_inputs.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/tensor/convert.h"
#include "core/tensor/element_type.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {
namespace {

// Returns as many elements of this dtype, which are all `value`.
std::vector<char> Filled(int64_t elements, DType dtype, int64_t value) {
  std::vector<char> bytes(elements * SizeOf(dtype));
  WithElementType(dtype, [&](auto element) {
    using T = decltype(element);
    std::fill_n(reinterpret_cast<T*>(bytes.data()), elements, Convert<T>(value));
  });
  return bytes;
}

// Returns a box of the same start with other extents.
Box WithExtent(const Box& box, absl::Span<const int64_t> extent) {
  return {box.start, Shape(extent.begin(), extent.end())};
}

}  // namespace

Box BatchBox(const Program& program, ProgramValueId value, int rank) {
  const ProgramValue& input = program.value(value);
  if (input.part == kNone) return {Shape(input.type.shape.size(), 0), input.type.shape};
  return program.parts[input.part].At(program.mesh, program.mesh.CoordinatesOf(rank));
}

int64_t BatchInputs::EvaluationBatches() const {
  const int64_t rows = dataset_->EvaluationRows();
  return rows / batch_ + (rows % batch_ > 0 ? 1 : 0);
}

absl::StatusOr<std::vector<char>> BatchInputs::ReadBox(DataSplit split, int64_t first_row,
                                                       const BatchField& field, const Box& box,
                                                       absl::Span<const int64_t> padded) {
  Box found = box;  // the rows that exist
  if (split == DataSplit::kEvaluate) {
    const int64_t rows = dataset_->EvaluationRows() - first_row - box.start[0];
    found.extent[0] = std::clamp<int64_t>(rows, 0, box.extent[0]);
  }
  const std::vector<BatchField>& provided = dataset_->fields();
  const size_t index = FindField(provided, field.name) - provided.data();
  const DType dtype = field.type.dtype;
  Box of_split = found;
  of_split.start[0] = found.empty() ? 0 : first_row + found.start[0];
  std::vector<char> bytes = Filled(NumElements(padded), dtype, field.missing);
  if (found.empty()) return bytes;
  if (absl::MakeConstSpan(found.extent) == padded) {
    RETURN_IF_ERROR(dataset_->Read(split, index, of_split, absl::MakeSpan(bytes)));
    return bytes;
  }
  read_.resize(NumElements(found.extent) * SizeOf(dtype));
  RETURN_IF_ERROR(dataset_->Read(split, index, of_split, absl::MakeSpan(read_)));
  SharedRuns runs((StateShard(found)), StateShard(WithExtent(box, padded)));
  while (const std::optional<SharedRun> run = runs.Next()) {
    std::copy_n(read_.data() + run->first * SizeOf(dtype), run->count * SizeOf(dtype),
                bytes.data() + run->second * SizeOf(dtype));
  }
  return bytes;
}

absl::Status SetBatch(Engine& engine, const std::string& program,
                      absl::Span<const BatchInput> batch) {
  for (const BatchInput& input : batch) {
    RETURN_IF_ERROR(engine.SetInput(program, input.name, input.dtype, input.bytes));
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
  for (const GraphInput& input : graph->inputs()) {
    if (input.batch_dim == kNone) continue;
    const std::string& name = graph->value(input.value).path;
    const ProgramValueId value = program.FindInput(name);
    const BatchField* const field = FindField(fields_, input.origin);
    if (value == kNone || field == nullptr) {
      return absl::NotFoundError(absl::StrCat(value == kNone ? "program" : "the model of program",
                                              " '", program_name, "' has no input '",
                                              value == kNone ? name : input.origin, "'"));
    }
    const Box box = BatchBox(program, value, engine.options().rank.rank);
    ASSIGN_OR_RETURN(std::vector<char> bytes,
                     ReadBox(split, first_row, *field, box, program.value(value).type.shape));
    batch->push_back({name, field->type.dtype, std::move(bytes)});
  }
  return absl::OkStatus();
}

}  // namespace tessera
