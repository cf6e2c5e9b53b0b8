#include "core/runtime/identities.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

double LargestOf(DType dtype) {
  if (dtype == DType::kU8) return std::numeric_limits<uint8_t>::max();
  if (dtype == DType::kI32) return std::numeric_limits<int32_t>::max();
  if (dtype == DType::kI64) return 0x1p63 - 1024;  // the largest that a double holds
  return std::numeric_limits<double>::infinity();
}

// Returns the identity of a reduction of elements of this type.
double IdentityOf(AxisLayout::Reduction reduction, DType dtype) {
  if (reduction == AxisLayout::Reduction::kSum) return 0;
  if (reduction == AxisLayout::Reduction::kMin) return LargestOf(dtype);
  if (dtype == DType::kU8) return 0;
  if (dtype == DType::kI32) return std::numeric_limits<int32_t>::min();
  if (dtype == DType::kI64) return static_cast<double>(std::numeric_limits<int64_t>::min());
  return -std::numeric_limits<double>::infinity();
}

}  // namespace

absl::Status Identities::Add(const Backend& backend, TensorView output,
                             AxisLayout::Reduction reduction) {
  Fill fill;
  fill.request.op = "fill";
  fill.request.outputs = {{output.dtype, output.shape}};
  fill.request.attributes = {
      {"shape", std::vector<int64_t>(output.shape.begin(), output.shape.end())},
      {"dtype", output.dtype},
      {"value", IdentityOf(reduction, output.dtype)}};
  fill.request.threads = backend.processor().threads;
  ASSIGN_OR_RETURN(const Kernel* kernel, DefaultKernel(backend, fill.request));
  if (!output.row_major() && !kernel->StridedOutput(0)) {
    return absl::UnimplementedError(
        absl::StrCat("kernel '", kernel->name(), "' of fill writes no strided output"));
  }
  ASSIGN_OR_RETURN(fill.kernel, kernel->Bind(fill.request));
  fill.output = std::move(output);
  fills_.push_back(std::move(fill));
  return absl::OkStatus();
}

absl::Status Identities::Run(const KernelCall& call) {
  for (const Fill& fill : fills_) {
    RETURN_IF_ERROR(fill.kernel->Run({.request = fill.request,
                                      .inputs = {},
                                      .outputs = absl::MakeConstSpan(&fill.output, 1),
                                      .stream = call.stream}));
  }
  return absl::OkStatus();
}

}  // namespace tessera
