#include "tests/operators/run_kernel.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera::operator_tests {
namespace {

// The device memory of one call.
class CallMemory {
 public:
  CallMemory(Backend* backend, Guard guard) : backend_(backend), guard_(guard) {}

  // Reserves memory for all later allocations; required with Guard::kNone.
  absl::Status Reserve(int64_t bytes) {
    if (guard_ == Guard::kNone) {
      ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                       backend_->Allocate(bytes, /*guarded=*/false));
      next_ = static_cast<char*>(memory->data());
      all_.push_back(std::move(memory));
    }
    return absl::OkStatus();
  }

  static int64_t RoundedUp(int64_t bytes) {
    return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }

  absl::StatusOr<char*> Place(absl::Span<const char> bytes) {
    const auto size = static_cast<int64_t>(bytes.size());
    char* at = next_;
    if (guard_ == Guard::kEach) {
      ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                       backend_->Allocate(size, /*guarded=*/true));
      at = static_cast<char*>(memory->data());
      all_.push_back(std::move(memory));
    } else {
      next_ += RoundedUp(size);
    }
    RETURN_IF_ERROR(backend_->CopyToDevice(at, bytes.data(), size));
    // A kernel may read the rest of the last cache line, but no result may depend on it.
    const std::string rest(RoundedUp(size) - size, kPoison);
    RETURN_IF_ERROR(
        backend_->CopyToDevice(at + size, rest.data(), static_cast<int64_t>(rest.size())));
    return at;
  }

 private:
  Backend* backend_;
  Guard guard_;
  std::vector<std::unique_ptr<DeviceMemory>> all_;
  char* next_ = nullptr;
};

TensorView ViewOf(const Array& array, char* memory) {
  return {memory + array.offset * SizeOf(array.type.dtype), array.type.dtype, array.type.shape,
          array.strides};
}

absl::Status FromDevice(Backend& backend, const char* memory, Array& array) {
  return backend.CopyToHost(array.bytes.data(), memory, static_cast<int64_t>(array.bytes.size()));
}

int InputUnder(int output, absl::Span<const std::pair<int, int>> in_place) {
  for (const auto& [input, out] : in_place) {
    if (out == output) return input;
  }
  return -1;
}

// Checks that only the outputs have changed.
absl::Status CheckUntouched(Backend& backend, absl::Span<const Array> inputs,
                            const std::vector<char*>& input_memory, absl::Span<const Array> outputs,
                            absl::Span<const std::pair<int, int>> in_place) {
  std::vector<bool> overwritten(inputs.size(), false);
  for (const auto& [input, output] : in_place) overwritten[input] = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (overwritten[i]) continue;
    Array after = inputs[i];
    RETURN_IF_ERROR(FromDevice(backend, input_memory[i], after));
    if (after.bytes != inputs[i].bytes) {
      return absl::InternalError(absl::StrCat("input ", i, " was written"));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!MarginsAreUntouched(outputs[i])) {
      return absl::InternalError(absl::StrCat("something beside output ", i, " was written"));
    }
  }
  return absl::OkStatus();
}

Array Elsewhere(const Array& array, const TensorType& type, const ViewPlacement& place) {
  return {type, place.strides, array.offset + place.offset, array.bytes};
}

absl::StatusOr<std::vector<Array>> Views(const Operator& op, const OpTypes& types,
                                         const Array& input) {
  std::vector<Array> outputs;
  for (size_t i = 0; i < types.outputs.size(); ++i) {
    const auto place = op.View(types, static_cast<int>(i), input.strides);
    if (place.has_value()) {
      outputs.push_back(Elsewhere(input, types.outputs[i], *place));
      continue;
    }
    // Strides cannot express the view of this array, but can that of a row-major copy.
    const Array copy = RowMajor(input);
    const auto place_in_copy = op.View(types, static_cast<int>(i), copy.strides);
    if (!place_in_copy.has_value()) {
      return absl::InternalError(
          absl::StrCat("'", std::string(op.name()), "' is no view of a row-major tensor"));
    }
    outputs.push_back(Elsewhere(copy, types.outputs[i], *place_in_copy));
  }
  return outputs;
}

std::vector<Array> Assembled(const Operator& op, const OpTypes& types,
                             absl::Span<const Array> inputs) {
  Array output = MakeArray(types.outputs[0]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Array part = Elsewhere(output, inputs[i].type, op.Part(types, static_cast<int>(i)));
    SetValues(part, Values(inputs[i]));
    output.bytes = part.bytes;
  }
  return {output};
}

std::vector<char> WorkspaceOf(const Backend& backend, const Kernel& kernel,
                              const KernelRequest& request, char fill) {
  Processor processor = backend.processor();
  processor.threads = request.threads;
  return std::vector<char>(kernel.WorkspaceBytes(request, processor), fill);
}

// As RunKernel; `scratch` is the content of the workspace before and after.
absl::Status RunWithWorkspace(Backend& backend, const Kernel& kernel, const KernelRequest& request,
                              absl::Span<const Array> inputs, absl::Span<Array> outputs,
                              absl::Span<const std::pair<int, int>> in_place, Guard guard,
                              const CallRegions& regions, std::vector<char>& scratch) {
  CallMemory memory(&backend, guard);
  int64_t bytes = CallMemory::RoundedUp(static_cast<int64_t>(scratch.size()));
  for (const Array& array : inputs) bytes += CallMemory::RoundedUp(array.bytes.size());
  for (const Array& array : outputs) bytes += CallMemory::RoundedUp(array.bytes.size());
  RETURN_IF_ERROR(memory.Reserve(bytes));

  std::vector<char*> input_memory, output_memory;
  std::vector<TensorView> input_views, output_views;
  for (const Array& input : inputs) {
    ASSIGN_OR_RETURN(char* at, memory.Place(input.bytes));
    input_memory.push_back(at);
    input_views.push_back(ViewOf(input, at));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int input = InputUnder(static_cast<int>(i), in_place);
    if (input >= 0) {
      outputs[i] = inputs[input];
      output_memory.push_back(input_memory[input]);
    } else {
      ASSIGN_OR_RETURN(char* at, memory.Place(outputs[i].bytes));
      output_memory.push_back(at);
    }
    output_views.push_back(ViewOf(outputs[i], output_memory[i]));
  }
  ASSIGN_OR_RETURN(char* workspace, memory.Place(scratch));

  ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> bound, kernel.Bind(request));
  std::optional<RandomDraw> draw;
  if (!outputs.empty()) draw = DrawOf(outputs[0].type.shape, request.attributes);
  RETURN_IF_ERROR(bound->Run({.request = request,
                              .inputs = input_views,
                              .outputs = output_views,
                              .workspace = workspace,
                              .workspace_bytes = static_cast<int64_t>(scratch.size()),
                              .draw = draw.has_value() ? &*draw : nullptr,
                              .input_regions = regions.inputs,
                              .output_regions = regions.outputs}));
  RETURN_IF_ERROR(backend.Synchronize());
  RETURN_IF_ERROR(
      backend.CopyToHost(scratch.data(), workspace, static_cast<int64_t>(scratch.size())));

  for (size_t i = 0; i < outputs.size(); ++i) {
    RETURN_IF_ERROR(FromDevice(backend, output_memory[i], outputs[i]));
  }
  return CheckUntouched(backend, inputs, input_memory, outputs, in_place);
}

}  // namespace

std::vector<TensorType> Realized(const Backend& backend, absl::Span<const TensorType> types) {
  std::vector<TensorType> realized(types.begin(), types.end());
  for (TensorType& type : realized) type.dtype = backend.Realize(type.dtype);
  return realized;
}

KernelRequest RequestFor(const Backend& backend, const Operator& op, const Attributes& attributes,
                         absl::Span<const TensorType> inputs,
                         absl::Span<const TensorType> outputs) {
  KernelRequest request;
  request.op = std::string(op.name());
  request.attributes = attributes;
  request.inputs = Realized(backend, inputs);
  request.outputs = Realized(backend, outputs);
  request.threads = backend.processor().threads;
  return request;
}

absl::Status RunKernel(Backend& backend, const Kernel& kernel, const KernelRequest& request,
                       absl::Span<const Array> inputs, absl::Span<Array> outputs,
                       absl::Span<const std::pair<int, int>> in_place, Guard guard,
                       const CallRegions& regions) {
  std::vector<char> scratch = WorkspaceOf(backend, kernel, request, kPoison);
  return RunWithWorkspace(backend, kernel, request, inputs, outputs, in_place, guard, regions,
                          scratch);
}

absl::Status CheckWorkspaceIsWritten(Backend& backend, const Kernel& kernel,
                                     const KernelRequest& request, absl::Span<const Array> inputs,
                                     const CallRegions& regions) {
  if (kernel.LibraryWorkspace()) return absl::OkStatus();
  // A byte that is written differs from at least one of two fills.
  for (const char fill : {'\xa5', '\x5a'}) {
    std::vector<Array> outputs;
    for (const TensorType& type : request.outputs) outputs.push_back(MakeArray(type));
    std::vector<char> scratch = WorkspaceOf(backend, kernel, request, fill);
    RETURN_IF_ERROR(RunWithWorkspace(backend, kernel, request, inputs, absl::MakeSpan(outputs), {},
                                     Guard::kNone, regions, scratch));
    if (scratch.empty() || scratch.back() != fill) return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("kernel '", std::string(kernel.name()), "' of ",
                                          request.Key(),
                                          " leaves the last byte of its workspace unwritten"));
}

absl::StatusOr<std::vector<Array>> RunOperator(Backend& backend, const Operator& op,
                                               const Attributes& attributes,
                                               absl::Span<const Array> inputs,
                                               absl::Span<const TensorType> outputs,
                                               const CallRegions& regions) {
  std::vector<TensorType> input_types;
  for (const Array& input : inputs) input_types.push_back(input.type);
  const std::vector<TensorType> output_types = Realized(backend, outputs);
  const OpTypes types{input_types, output_types, attributes};
  if (op.is_view()) return Views(op, types, inputs[0]);
  if (op.is_assembly()) return Assembled(op, types, inputs);

  const KernelRequest request = RequestFor(backend, op, attributes, input_types, output_types);
  ASSIGN_OR_RETURN(const Kernel* kernel, DefaultKernel(backend, request));
  std::vector<Array> given(inputs.begin(), inputs.end()), results;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!kernel->StridedInput(static_cast<int>(i))) given[i] = RowMajor(given[i]);
  }
  for (const TensorType& type : output_types) results.push_back(MakeArray(type));
  RETURN_IF_ERROR(RunKernel(backend, *kernel, request, given, absl::MakeSpan(results), {},
                            Guard::kNone, regions));
  return results;
}

}  // namespace tessera::operator_tests
