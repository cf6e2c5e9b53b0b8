#include "tests/operators/run_kernel.h"

#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/tensor/check.h"

namespace tessera::operator_tests {
namespace {

// An array's copy on the device.
struct OnDevice {
  std::unique_ptr<DeviceMemory> memory;
  TensorView view;
};

absl::StatusOr<OnDevice> ToDevice(Backend& backend, const Array& array) {
  const auto bytes = static_cast<int64_t>(array.bytes.size());
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory, backend.Allocate(bytes, /*guarded=*/true));
  RETURN_IF_ERROR(backend.CopyToDevice(memory->data(), array.bytes.data(), bytes));
  char* const first = static_cast<char*>(memory->data()) + array.offset * SizeOf(array.type.dtype);
  TensorView view{first, array.type.dtype, array.type.shape, array.strides};
  return OnDevice{std::move(memory), std::move(view)};
}

absl::Status FromDevice(Backend& backend, const OnDevice& device, Array& array) {
  return backend.CopyToHost(array.bytes.data(), device.memory->data(),
                            static_cast<int64_t>(array.bytes.size()));
}

int InputUnder(int output, absl::Span<const std::pair<int, int>> in_place) {
  for (const auto& [input, out] : in_place) {
    if (out == output) return input;
  }
  return -1;
}

// Nothing but the outputs may have changed.
absl::Status CheckUntouched(Backend& backend, absl::Span<const Array> inputs,
                            const std::vector<OnDevice>& input_devices,
                            absl::Span<const Array> outputs,
                            absl::Span<const std::pair<int, int>> in_place) {
  std::vector<bool> overwritten(inputs.size(), false);
  for (const auto& [input, output] : in_place) overwritten[input] = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (overwritten[i]) continue;
    Array after = inputs[i];
    RETURN_IF_ERROR(FromDevice(backend, input_devices[i], after));
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
    // Strides cannot say it: of a row-major copy they can.
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
                       absl::Span<const std::pair<int, int>> in_place) {
  std::vector<OnDevice> input_devices, output_devices(outputs.size());
  std::vector<TensorView> input_views, output_views;
  for (const Array& input : inputs) {
    ASSIGN_OR_RETURN(OnDevice device, ToDevice(backend, input));
    input_views.push_back(device.view);
    input_devices.push_back(std::move(device));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int input = InputUnder(static_cast<int>(i), in_place);
    if (input >= 0) {
      outputs[i] = inputs[input];
      output_views.push_back(input_views[input]);
      continue;
    }
    ASSIGN_OR_RETURN(output_devices[i], ToDevice(backend, outputs[i]));
    output_views.push_back(output_devices[i].view);
  }
  Processor processor = backend.processor();
  processor.threads = request.threads;
  const int64_t workspace_bytes = kernel.WorkspaceBytes(request, processor);
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> workspace,
                   backend.Allocate(workspace_bytes, /*guarded=*/true));
  const std::vector<char> poison(workspace_bytes, kPoison);
  RETURN_IF_ERROR(backend.CopyToDevice(workspace->data(), poison.data(), workspace_bytes));

  ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> bound, kernel.Bind(request));
  RETURN_IF_ERROR(
      bound->Run({request, input_views, output_views, workspace->data(), workspace_bytes}));
  RETURN_IF_ERROR(backend.Synchronize());

  for (size_t i = 0; i < outputs.size(); ++i) {
    const int input = InputUnder(static_cast<int>(i), in_place);
    RETURN_IF_ERROR(
        FromDevice(backend, input >= 0 ? input_devices[input] : output_devices[i], outputs[i]));
  }
  return CheckUntouched(backend, inputs, input_devices, outputs, in_place);
}

absl::StatusOr<std::vector<Array>> RunOperator(Backend& backend, const Operator& op,
                                               const Attributes& attributes,
                                               absl::Span<const Array> inputs,
                                               absl::Span<const TensorType> outputs) {
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
  RETURN_IF_ERROR(RunKernel(backend, *kernel, request, given, absl::MakeSpan(results)));
  return results;
}

}  // namespace tessera::operator_tests
