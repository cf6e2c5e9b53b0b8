#include "core/cost/kernel_times/kernel_errors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/cost/kernel_times/random_elements.h"
#include "core/kernels/reference/backend.h"
#include "core/layout/mesh_layout.h"
#include "core/ops/operator_list.h"
#include "core/status/status_macros.h"
#include "core/tensor/convert.h"
#include "core/tensor/element_type.h"

namespace tessera {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// The work of a small part, which the reference does in some 10 ms.
constexpr double kMostFlops = 8e6;
// The least extent for kernels that accept long rows only: 1 KiB of f32.
constexpr int64_t kLongRow = 256;

double FlopsOf(const Operator& op, const KernelRequest& request) {
  return op.Cost({request.inputs, request.outputs, request.attributes}).flops;
}

// Returns the least extent that the signature splits; 0 if it splits nothing.
int64_t ShortestSplit(const Signature& signature, const KernelRequest& request) {
  int64_t shortest = 0;
  const auto look = [&shortest](const AxisLayout& layout, const TensorType& type) {
    if (!layout.split()) return;
    const int64_t units = type.shape[layout.dim] / layout.unit;
    shortest = shortest == 0 ? units : std::min(shortest, units);
  };
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    look(signature.inputs[i], request.inputs[i]);
  }
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    look(signature.outputs[i], request.outputs[i]);
  }
  return shortest;
}

// Returns whether a signature splits the first dimension of the first input, as that of a batch.
bool SplitsBatch(const Signature& signature) {
  return !signature.inputs.empty() && signature.inputs[0].split() && signature.inputs[0].dim == 0;
}

// Returns the signature that splits the longest dimension, preferably one that leaves sums whole;
// nullptr if none splits any that is long.
const Signature* SignatureToSplitBy(const std::vector<Signature>& signatures,
                                    const KernelRequest& request, int64_t least_extent) {
  const Signature* best = nullptr;
  std::pair<bool, int64_t> best_key;
  for (const Signature& signature : signatures) {
    const int64_t extent = ShortestSplit(signature, request);
    if (extent < 2 * least_extent) continue;
    const bool whole = absl::c_none_of(signature.outputs,
                                       [](const AxisLayout& layout) { return layout.partial(); });
    const std::pair<bool, int64_t> key = {whole, extent};
    if (best != nullptr && key <= best_key) continue;
    best = &signature;
    best_key = key;
  }
  return best;
}

// Replaces the request by that of the first of `parts` devices.
void SplitBy(const Signature& signature, int64_t parts, const Operator& op,
             KernelRequest& request) {
  std::vector<Region> input_regions, output_regions;
  const auto split = [parts](const AxisLayout& layout, TensorType& type,
                             std::vector<Region>& regions) {
    Region& region = regions.emplace_back();
    region.start = Shape(type.shape.size(), 0);
    region.global = type.shape;
    if (!layout.split()) return;
    type.shape[layout.dim] =
        PartExtent(type.shape[layout.dim], layout.unit, static_cast<int>(parts));
  };
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    split(signature.inputs[i], request.inputs[i], input_regions);
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    split(signature.outputs[i], request.outputs[i], output_regions);
  }
  request.attributes = op.LocalAttributes(
      request.attributes, {request.inputs, request.outputs, input_regions, output_regions});
}

// Returns the elements, of dtype `from`, as those of `to`.
std::vector<char> Converted(const std::vector<char>& bytes, DType from, const TensorType& to) {
  if (from == to.dtype) return bytes;
  std::vector<double> values(static_cast<size_t>(NumElements(to.shape)));
  ToDoubles(from, bytes.data(), absl::MakeSpan(values));
  std::vector<char> converted(static_cast<size_t>(NumBytes(to)));
  WithElementType(to.dtype, [&](auto element) {
    using T = decltype(element);
    T* const elements = reinterpret_cast<T*>(converted.data());
    for (size_t i = 0; i < values.size(); ++i) elements[i] = Convert<T>(values[i]);
  });
  return converted;
}

// Runs a kernel on these inputs, and returns its outputs in double.
absl::StatusOr<std::vector<std::vector<double>>> Run(const Kernel& kernel,
                                                     const KernelRequest& request,
                                                     const std::vector<std::vector<char>>& inputs,
                                                     Backend& backend) {
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  const auto view_of = [&](const TensorType& type) -> absl::StatusOr<TensorView> {
    ASSIGN_OR_RETURN(memory.emplace_back(), backend.Allocate(NumBytes(type), /*guarded=*/false));
    return TensorView{memory.back()->data(), type.dtype, type.shape, RowMajorStrides(type.shape)};
  };
  std::vector<TensorView> input_views, output_views;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSIGN_OR_RETURN(input_views.emplace_back(), view_of(request.inputs[i]));
    RETURN_IF_ERROR(backend.CopyToDevice(input_views.back().data, inputs[i].data(),
                                         static_cast<int64_t>(inputs[i].size())));
  }
  for (const TensorType& type : request.outputs) {
    ASSIGN_OR_RETURN(output_views.emplace_back(), view_of(type));
  }
  const int64_t workspace_bytes = kernel.WorkspaceBytes(request, backend.processor());
  ASSIGN_OR_RETURN(const std::unique_ptr<DeviceMemory> workspace,
                   backend.Allocate(workspace_bytes, /*guarded=*/false));
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend.CreateStream("errors"));
  ASSIGN_OR_RETURN(const std::unique_ptr<BoundKernel> bound, kernel.Bind(request));
  RETURN_IF_ERROR(bound->Run({.request = request,
                              .inputs = input_views,
                              .outputs = output_views,
                              .workspace = workspace->data(),
                              .workspace_bytes = workspace_bytes,
                              .stream = stream.get()}));
  RETURN_IF_ERROR(backend.Synchronize());
  std::vector<std::vector<double>> outputs;
  for (const TensorView& view : output_views) {
    std::vector<char> bytes(static_cast<size_t>(view.elements() * SizeOf(view.dtype)));
    RETURN_IF_ERROR(
        backend.CopyToHost(bytes.data(), view.data, static_cast<int64_t>(bytes.size())));
    ToDoubles(view.dtype, bytes.data(),
              absl::MakeSpan(outputs.emplace_back(static_cast<size_t>(view.elements()))));
  }
  return outputs;
}

// Returns the errors of kernels that accept this request.
absl::StatusOr<std::vector<double>> ErrorsOnPart(const std::vector<const Kernel*>& kernels,
                                                 const KernelRequest& part, Backend& backend) {
  const std::unique_ptr<Backend> reference = MakeReferenceBackend();
  KernelRequest in_double = part;
  in_double.epilogues.clear();
  in_double.threads = reference->processor().threads;
  std::vector<std::vector<char>> inputs, double_inputs;
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    TensorType& realized = in_double.inputs[i];
    realized.dtype = reference->Realize(realized.dtype);
    inputs.push_back(RandomElements(part.inputs[i].dtype, NumElements(part.inputs[i].shape), i));
    double_inputs.push_back(Converted(inputs.back(), part.inputs[i].dtype, realized));
  }
  for (TensorType& type : in_double.outputs) type.dtype = reference->Realize(type.dtype);
  ASSIGN_OR_RETURN(const Kernel* const exact_kernel, DefaultKernel(*reference, in_double));
  ASSIGN_OR_RETURN(const std::vector<std::vector<double>> exact,
                   Run(*exact_kernel, in_double, double_inputs, *reference));
  std::vector<double> errors;
  for (const Kernel* const kernel : kernels) {
    ASSIGN_OR_RETURN(const std::vector<std::vector<double>> outputs,
                     Run(*kernel, part, inputs, backend));
    errors.push_back(LargestError(outputs, exact));
  }
  return errors;
}

}  // namespace

double LargestError(const std::vector<std::vector<double>>& outputs,
                    const std::vector<std::vector<double>>& exact) {
  double error = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    double largest = 0, difference = 0;
    for (size_t j = 0; j < exact[i].size(); ++j) {
      if (!std::isfinite(outputs[i][j]) || !std::isfinite(exact[i][j])) return kInfinite;
      largest = std::max(largest, std::abs(exact[i][j]));
      difference = std::max(difference, std::abs(outputs[i][j] - exact[i][j]));
    }
    if (difference > 0) error = std::max(error, largest > 0 ? difference / largest : kInfinite);
  }
  return error;
}

KernelRequest SmallPart(const KernelRequest& request, int64_t least_extent) {
  const Operator& op = *FindOperator(request.op);
  KernelRequest part = request;
  part.epilogues.clear();
  for (const Epilogue& epilogue : request.epilogues) {
    part.inputs.resize(part.inputs.size() - epilogue.extra_inputs);
    if (StoresInF32(request, epilogue)) part.epilogues.push_back(epilogue);
  }
  const auto reduce = [&](int64_t least, bool batch_alone) {
    while (FlopsOf(op, part) > kMostFlops) {
      std::vector<Signature> signatures =
          op.Signatures({part.inputs, part.outputs, part.attributes});
      if (batch_alone) std::erase_if(signatures, std::not_fn(SplitsBatch));
      const Signature* const signature = SignatureToSplitBy(signatures, part, least);
      if (signature == nullptr) break;
      const auto enough = static_cast<int64_t>(std::ceil(FlopsOf(op, part) / kMostFlops));
      const int64_t most = ShortestSplit(*signature, part) / least;
      SplitBy(*signature, std::min(enough, most), op, part);
    }
  };
  reduce(least_extent, /*batch_alone=*/false);
  // One picture of few channels is enough, and may be large.
  reduce(1, /*batch_alone=*/true);
  return part;
}

absl::StatusOr<std::vector<double>> ErrorsOf(const std::vector<const Kernel*>& kernels,
                                             const KernelRequest& request, Backend& backend) {
  std::vector<double> errors(kernels.size(), kInfinite);
  std::vector<bool> done(kernels.size(), false);
  for (const int64_t least_extent : {int64_t{16}, kLongRow}) {
    const KernelRequest part = SmallPart(request, least_extent);
    std::vector<const Kernel*> accepting;
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (!done[i] && kernels[i]->Accepts(part)) accepting.push_back(kernels[i]);
    }
    if (accepting.empty()) continue;
    ASSIGN_OR_RETURN(const std::vector<double> found, ErrorsOnPart(accepting, part, backend));
    for (size_t i = 0, next = 0; i < kernels.size(); ++i) {
      if (done[i] || !kernels[i]->Accepts(part)) continue;
      errors[i] = found[next++];
      done[i] = true;
    }
  }
  return errors;
}

bool IsAccurateEnough(double error, double by_rule, DType dtype) {
  double rounding = std::numeric_limits<float>::epsilon();
  if (dtype == DType::kF64) rounding = std::numeric_limits<double>::epsilon();
  if (dtype == DType::kBF16) rounding = 1.0 / 256;
  if (dtype == DType::kF16) rounding = 1.0 / 2048;
  return std::isfinite(error) && error <= std::max(2 * by_rule, rounding);
}

}  // namespace tessera
