#include "core/kernels/cpu/epilogues.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/status/status_macros.h"

namespace tessera::cpu {
namespace {

// The elements of a part, which fit into the second level of caches with their operands.
constexpr int64_t kPartElements = 16384;

// Returns whether an addition's operand is a row that is added to each row of y.
bool IsRow(const Shape& added, const Shape& y) { return added.size() == 1 && y.size() > 1; }

// Returns the first elementwise kernel that accepts the request; nullptr if there is none.
const Kernel* FindElementwiseKernel(const KernelRequest& request) {
  for (const Kernel* kernel : Kernels()) {
    if (kernel->op() == request.op && kernel->Elementwise() && kernel->Accepts(request)) {
      return kernel;
    }
  }
  return nullptr;
}

}  // namespace

bool ReadEpilogues(const KernelRequest& request, size_t own_inputs, Epilogues* epilogues) {
  size_t operand = own_inputs;
  const TensorType& y = request.outputs[0];
  for (const Epilogue& epilogue : request.epilogues) {
    if (StoresInF32(request, epilogue)) continue;
    if (!epilogues->activation.empty()) return false;
    KernelRequest alone{.op = epilogue.op,
                        .attributes = epilogue.attributes,
                        .inputs = {y},
                        .outputs = {y},
                        .epilogues = {},
                        .threads = request.threads};
    const bool adds = epilogue.op == "add" && epilogue.extra_inputs == 1;
    if (adds && operand < request.inputs.size()) {
      const TensorType& added = request.inputs[operand++];
      const bool row = IsRow(added.shape, y.shape) && added.shape[0] == y.shape.back();
      if (!row && added.shape != y.shape) return false;
      epilogues->additions.push_back(
          {added.shape == y.shape ? ProductEpilogue::kAddFull : ProductEpilogue::kAddRow,
           added.dtype});
      alone.inputs.push_back(added);
    } else if (adds || epilogue.extra_inputs != 0) {
      return false;
    }
    const Kernel* const kernel = FindElementwiseKernel(alone);
    if (kernel == nullptr) return false;
    (adds ? epilogues->stored_additions : epilogues->activation)
        .push_back({kernel, std::move(alone)});
  }
  return operand == request.inputs.size();
}

absl::StatusOr<BoundEpilogues::Part> BoundEpilogues::BindPart(
    const std::vector<StoredEpilogue>& epilogues, int64_t rows) {
  Part part;
  part.rows = rows;
  const int workers = epilogues[0].request.threads;
  for (int worker = 0; rows > 0 && worker < workers; ++worker) {
    std::vector<Bound>& bound = part.of_worker.emplace_back();
    for (const StoredEpilogue& epilogue : epilogues) {
      KernelRequest request = epilogue.request;
      const int64_t columns = request.outputs[0].shape.back();
      for (auto* types : {&request.inputs, &request.outputs}) {
        for (TensorType& type : *types) {
          if (!IsRow(type.shape, request.outputs[0].shape)) type.shape = {rows, columns};
        }
      }
      request.threads = 1;
      ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> kernel, epilogue.kernel->Bind(request));
      bound.push_back({std::move(request), std::move(kernel)});
    }
  }
  return part;
}

absl::StatusOr<BoundEpilogues> BoundEpilogues::Bind(const std::vector<StoredEpilogue>& epilogues) {
  BoundEpilogues result;
  if (epilogues.empty()) return result;
  const TensorType& y = epilogues[0].request.outputs[0];
  const int64_t columns = y.shape.back();
  result.threads_ = epilogues[0].request.threads;
  result.rows_ = NumElements(y.shape) / columns;
  const int64_t rows = std::clamp<int64_t>(kPartElements / columns, 1, result.rows_);
  ASSIGN_OR_RETURN(result.part_, BindPart(epilogues, rows));
  ASSIGN_OR_RETURN(result.last_, BindPart(epilogues, result.rows_ % rows));
  return result;
}

absl::Status BoundEpilogues::RunPart(absl::Span<const Bound> bound, const TensorView& y,
                                     absl::Span<const TensorView> operands, int64_t first,
                                     int64_t rows) {
  const int64_t columns = y.shape.back();
  const auto part_of = [&](const TensorView& tensor) -> TensorView {
    if (IsRow(tensor.shape, y.shape)) return tensor;
    return {ElementAt(tensor.dtype, tensor.data, first * columns),
            tensor.dtype,
            {rows, columns},
            {columns, 1}};
  };
  const TensorView part = part_of(y);
  size_t next = 0;
  for (const Bound& epilogue : bound) {
    const size_t inputs = epilogue.request.inputs.size();
    const TensorView terms[] = {part, inputs == 2 ? part_of(operands[next++]) : part};
    RETURN_IF_ERROR(
        epilogue.kernel->Run({epilogue.request, absl::MakeConstSpan(terms).first(inputs),
                              absl::MakeConstSpan(&part, 1)}));
  }
  return absl::OkStatus();
}

absl::Status BoundEpilogues::Run(const TensorView& y, absl::Span<const TensorView> operands) {
  if (rows_ == 0) return absl::OkStatus();
  const int64_t parts = (rows_ + part_.rows - 1) / part_.rows;
  absl::Status status;  // of worker 0, which always exists: all of them run the same kernels
  ParallelTasks(threads_, parts, [&](int64_t task, int worker) {
    const int64_t first = task * part_.rows;
    const Part& part = rows_ - first < part_.rows ? last_ : part_;
    absl::Status ran = RunPart(part.of_worker[worker], y, operands, first, part.rows);
    if (worker == 0 && !ran.ok()) status = std::move(ran);
  });
  return status;
}

namespace {

class BoundWithEpilogues : public BoundKernel {
 public:
  BoundWithEpilogues(KernelRequest own, std::unique_ptr<BoundKernel> inner, BoundEpilogues stored)
      : own_(std::move(own)), inner_(std::move(inner)), stored_(std::move(stored)) {}

  absl::Status Run(const KernelCall& call) override {
    const size_t inputs = own_.inputs.size();
    const auto first = [&](absl::Span<const Region> regions) {
      return regions.empty() ? regions : regions.first(inputs);
    };
    RETURN_IF_ERROR(inner_->Run({.request = own_,
                                 .inputs = call.inputs.first(inputs),
                                 .outputs = call.outputs,
                                 .workspace = call.workspace,
                                 .workspace_bytes = call.workspace_bytes,
                                 .draw = call.draw,
                                 .stream = call.stream,
                                 .input_regions = first(call.input_regions),
                                 .output_regions = call.output_regions}));
    return stored_.Run(call.outputs[0], call.inputs.subspan(inputs));
  }

 private:
  const KernelRequest own_;
  const std::unique_ptr<BoundKernel> inner_;
  BoundEpilogues stored_;
};

class KernelWithEpilogues : public Kernel {
 public:
  KernelWithEpilogues(size_t own_inputs, std::unique_ptr<const Kernel> inner)
      : own_inputs_(own_inputs), inner_(std::move(inner)) {}

  absl::string_view op() const override { return inner_->op(); }
  absl::string_view name() const override { return inner_->name(); }
  bool LibraryWorkspace() const override { return inner_->LibraryWorkspace(); }

  bool Accepts(const KernelRequest& request) const override {
    if (!inner_->Accepts(OwnRequest(request))) return false;
    Epilogues epilogues;
    if (!ReadEpilogues(request, own_inputs_, &epilogues)) return false;
    const bool none = epilogues.stored_additions.empty() && epilogues.activation.empty();
    return none || NumElements(request.outputs[0].shape) > 0;
  }

  int64_t WorkspaceBytes(const KernelRequest& request, const Processor& processor) const override {
    return inner_->WorkspaceBytes(OwnRequest(request), processor);
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    KernelRequest own = OwnRequest(request);
    ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> inner, inner_->Bind(own));
    Epilogues epilogues;
    ReadEpilogues(request, own_inputs_, &epilogues);
    std::vector<StoredEpilogue> all;
    if (!AddsBeforeRounding(request)) all = std::move(epilogues.stored_additions);
    for (StoredEpilogue& activation : epilogues.activation) all.push_back(std::move(activation));
    if (all.empty()) return inner;
    ASSIGN_OR_RETURN(BoundEpilogues stored, BoundEpilogues::Bind(all));
    return std::make_unique<BoundWithEpilogues>(std::move(own), std::move(inner),
                                                std::move(stored));
  }

 private:
  // Returns whether the inner kernel runs the additions. In 16 bits the sum is then rounded once.
  // In f32 that would change the bits, because the bias could come in the middle of the sum.
  static bool AddsBeforeRounding(const KernelRequest& request) {
    return IsHalf(request.inputs[0].dtype);
  }

  // Returns the request without what is run on the stored output.
  KernelRequest OwnRequest(const KernelRequest& request) const {
    KernelRequest own = request;
    own.epilogues.clear();
    size_t inputs = own_inputs_;
    for (const Epilogue& epilogue : request.epilogues) {
      const bool adds = epilogue.op == "add" && AddsBeforeRounding(request);
      if (!adds && !StoresInF32(request, epilogue)) continue;
      own.epilogues.push_back(epilogue);
      inputs += static_cast<size_t>(epilogue.extra_inputs);
    }
    own.inputs.resize(std::min(own.inputs.size(), inputs));
    return own;
  }

  const size_t own_inputs_;
  const std::unique_ptr<const Kernel> inner_;
};

}  // namespace

std::unique_ptr<const Kernel> WithStoredEpilogues(size_t own_inputs,
                                                  std::unique_ptr<const Kernel> inner) {
  return std::make_unique<KernelWithEpilogues>(own_inputs, std::move(inner));
}

}  // namespace tessera::cpu
