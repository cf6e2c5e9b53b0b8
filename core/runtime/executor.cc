#include "core/runtime/executor.h"

#include <chrono>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {

struct Executor::Bound {
  BoundKernel* kernel = nullptr;
  const KernelRequest* request = nullptr;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Executor::~Executor() = default;

void* Executor::AddressOf(int32_t value) const { return arena_ + program_->OffsetOf(value); }

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program* program, Backend* backend,
                                                           void* arena) {
  auto executor = absl::WrapUnique(new Executor());
  executor->program_ = program;
  executor->backend_ = backend;
  executor->arena_ = static_cast<char*>(arena);
  const auto view = [&](int32_t id) {
    const ProgramValue& value = program->value(id);
    return TensorView{executor->AddressOf(id), value.type.dtype, value.type.shape, value.strides};
  };
  for (const PlannedKernel& planned : program->kernels) {
    ASSIGN_OR_RETURN(executor->kernels_.emplace_back(), planned.kernel->Bind(planned.request));
  }
  executor->bound_.reserve(program->instructions.size());
  for (const Instruction& instruction : program->instructions) {
    Bound bound;
    const PlannedKernel& planned = program->KernelOf(instruction);
    bound.kernel = executor->kernels_[instruction.kernel].get();
    bound.request = &planned.request;
    for (int32_t id : instruction.inputs) bound.inputs.push_back(view(id));
    for (int32_t id : instruction.outputs) bound.outputs.push_back(view(id));
    if (instruction.workspace != kNone) {
      bound.workspace = executor->arena_ + program->buffers[instruction.workspace].offset;
      bound.workspace_bytes = planned.workspace_bytes;
    }
    executor->bound_.push_back(std::move(bound));
  }
  executor->times_.resize(program->instructions.size());
  return executor;
}

absl::Status Executor::RunInstruction(int i) {
  Bound& bound = bound_[i];
  absl::Status status = bound.kernel->Run(
      {*bound.request, bound.inputs, bound.outputs, bound.workspace, bound.workspace_bytes});
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("instruction ", i, " (", program_->instructions[i].path, ", ",
                                     bound.request->op, "): ", status.message()));
  }
  return status;
}

absl::Status Executor::Run() {
  const int count = static_cast<int>(bound_.size());
  for (int i = 0; i < count; ++i) RETURN_IF_ERROR(RunInstruction(i));
  return backend_->Synchronize();
}

absl::Status Executor::RunTimed() {
  const int count = static_cast<int>(bound_.size());
  step_begin_ns_ = Now();
  for (int i = 0; i < count; ++i) {
    times_[i].begin_ns = Now();
    RETURN_IF_ERROR(RunInstruction(i));
    times_[i].end_ns = Now();
  }
  absl::Status status = backend_->Synchronize();
  step_end_ns_ = Now();
  return status;
}

}  // namespace tessera
