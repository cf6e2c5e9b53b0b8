#include "core/runtime/executor.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/program/ranks/local_operands.h"
#include "core/runtime/identities.h"
#include "core/status/status_macros.h"

namespace tessera {

struct Executor::Bound {
  LocalOperands operands;
  // Set for a kernel:
  BoundKernel* kernel = nullptr;
  const KernelRequest* request = nullptr;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
  // Set for a collective:
  const CollectiveRequest* collective = nullptr;
  int group = 0;
  FlatGroup::Range unread;
  StartedCollective started;

  Stream* stream = nullptr;
  std::vector<const Event*> events_before;  // its stream waits for them
  std::unique_ptr<Event> ended;             // null if no other stream waits for it
};

struct Executor::InstructionEvents {
  std::unique_ptr<Event> begin, end;
};

Executor::~Executor() = default;

TensorView Executor::ViewOf(ProgramValueId value) const {
  const ProgramValue& v = program_->value(value);
  const ArenaAddress address = own_parts_->AddressOf(value, binding_->AddressOf(value));
  return {arenas_[address.space] + address.offset, v.type.dtype, binding_->ShapeOf(value),
          binding_->StridesOf(value)};
}

const Shape& Executor::MovedShapeOf(ProgramValueId value) const {
  const ProgramValue& v = program_->value(value);
  return v.flat == kNone ? v.type.shape : binding_->ShapeOf(value);
}

ArenaRange Executor::MemoryOf(ProgramValueId value) const {
  const ArenaAddress address = own_parts_->AddressOf(value, binding_->AddressOf(value));
  const int64_t bytes =
      NumElements(MovedShapeOf(value)) * SizeOf(program_->value(value).type.dtype);
  return {address.space, address.offset, address.offset + bytes};
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program* program, Backend* backend,
                                                           const Arenas& arenas,
                                                           const RankPosition& rank) {
  auto executor = absl::WrapUnique(new Executor());
  executor->program_ = program;
  executor->backend_ = backend;
  executor->arenas_ = arenas;
  executor->collectives_ = rank.collectives;
  executor->coordinates_ = program->mesh.CoordinatesOf(rank.rank);
  executor->binding_ = std::make_unique<RankBinding>(program, executor->coordinates_);
  executor->own_parts_ =
      std::make_unique<OwnParts>(*program, *executor->binding_, executor->coordinates_);
  RETURN_IF_ERROR(executor->CreateStreams());
  executor->kernels_.resize(program->kernels.size());
  executor->bound_.reserve(program->instructions.size());
  for (const InstructionId id : program->instructions.ids()) {
    RETURN_IF_ERROR(executor->BindInstruction(id));
  }
  executor->waits_ = WaitsForCollectives(
      *program, [&executor](ProgramValueId id) { return executor->MemoryOf(id); });
  for (const InstructionId id : program->instructions.ids()) {
    for (const InstructionId earlier : program->instructions[id].waits) {
      if (program->Communicates(program->instructions[earlier])) continue;
      Bound& bound = executor->bound_[earlier];
      if (bound.ended == nullptr) {
        ASSIGN_OR_RETURN(bound.ended, backend->CreateEvent());
      }
      executor->bound_[id].events_before.push_back(bound.ended.get());
    }
  }
  executor->times_.resize(program->instructions.size());
  return executor;
}

absl::Status Executor::CreateStreams() {
  for (const std::string& name : program_->streams) {
    ASSIGN_OR_RETURN(streams_.emplace_back(), backend_->CreateStream(name));
  }
  ASSIGN_OR_RETURN(step_begin_, backend_->CreateEvent());
  ASSIGN_OR_RETURN(step_end_, backend_->CreateEvent());
  return absl::OkStatus();
}

absl::Status Executor::BindInstruction(InstructionId id) {
  const Instruction& instruction = program_->instructions[id];
  Bound bound;
  bound.stream = streams_[instruction.stream].get();
  if (instruction.kind == InstructionKind::kKernel) {
    RETURN_IF_ERROR(BindKernel(instruction, bound));
    bound_.push_back(std::move(bound));
    return absl::OkStatus();
  }
  const auto view = [&](ProgramValueId id) {
    TensorView view = ViewOf(id);
    view.shape = MovedShapeOf(id);
    return view;
  };
  for (ProgramValueId id : instruction.inputs) bound.operands.inputs.push_back(view(id));
  for (ProgramValueId id : instruction.outputs) bound.operands.outputs.push_back(view(id));
  if (program_->Communicates(instruction)) RETURN_IF_ERROR(BindCollective(id, bound));
  bound_.push_back(std::move(bound));
  return absl::OkStatus();
}

absl::Status Executor::BindKernel(const Instruction& instruction, Bound& bound) {
  const PlannedKernel& planned = program_->KernelOf(instruction);
  bound.operands =
      OperandsOf(instruction, *binding_, [this](ProgramValueId id) { return ViewOf(id); });
  bound.request = &planned.request;
  if (instruction.workspace != kNone) {
    const Buffer& workspace = program_->buffers[instruction.workspace];
    bound.workspace = arenas_[workspace.space] + workspace.offset;
    bound.workspace_bytes = planned.workspace_bytes;
  }
  switch (LocalWorkOf(*program_, instruction, *binding_)) {
    case LocalWork::kPlanned: {
      ASSIGN_OR_RETURN(bound.kernel, FindOrBindPlanned(instruction));
      return absl::OkStatus();
    }
    case LocalWork::kOwn:
      return BindOwnKernel(instruction, bound);
    case LocalWork::kIdentity:
      return BindIdentities(instruction, bound);
    case LocalWork::kNothing:
      identities_.push_back(std::make_unique<Identities>());
      bound.kernel = identities_.back().get();
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<BoundKernel*> Executor::FindOrBindPlanned(const Instruction& instruction) {
  std::unique_ptr<BoundKernel>& kernel = kernels_[instruction.kernel];
  if (kernel == nullptr) {
    const PlannedKernel& planned = program_->KernelOf(instruction);
    ASSIGN_OR_RETURN(kernel, planned.kernel->Bind(planned.request));
  }
  return kernel.get();
}

absl::Status Executor::BindOwnKernel(const Instruction& instruction, Bound& bound) {
  const PlannedKernel& planned = program_->KernelOf(instruction);
  KernelRequest request = LocalRequest(*program_, instruction, *binding_);
  ASSIGN_OR_RETURN(const Kernel* kernel, LocalKernel(*backend_, planned, request));
  OwnKernel& own = own_kernels_[absl::StrCat(kernel->name(), " ", request.Key())];
  if (own.kernel == nullptr) {
    const int64_t workspace = kernel->WorkspaceBytes(request, backend_->processor());
    if (workspace > planned.workspace_bytes) {
      return absl::InternalError(absl::StrCat(
          "program '", program_->name, "', ", instruction.path, ": ", request.Key(), " needs ",
          workspace, " bytes of workspace; ", planned.workspace_bytes, " are planned"));
    }
    own.request = std::move(request);
    ASSIGN_OR_RETURN(own.kernel, kernel->Bind(own.request));
  }
  bound.request = &own.request;
  bound.kernel = own.kernel.get();
  return absl::OkStatus();
}

absl::Status Executor::BindIdentities(const Instruction& instruction, Bound& bound) {
  auto identities = std::make_unique<Identities>();
  for (size_t j = 0; j < instruction.outputs.size(); ++j) {
    const ProgramValue& value = program_->value(instruction.outputs[j]);
    TensorView view = bound.operands.outputs[j];
    if (view.elements() == 0) continue;
    const AxisLayout* partial = nullptr;
    if (value.part != kNone) {
      for (const AxisLayout& axis : program_->parts[value.part].layout.axes()) {
        if (axis.partial()) partial = &axis;
      }
    }
    if (partial == nullptr) {
      return absl::InternalError(
          absl::StrCat("program '", program_->name, "', ", instruction.path, ": ", value.path,
                       " is not partial, and this rank holds nothing of an input"));
    }
    // Writing padding is allowed, so the fill covers the full padded shape.
    if (!view.row_major()) view.shape = value.type.shape;
    RETURN_IF_ERROR(identities->Add(*backend_, std::move(view), partial->reduction));
  }
  bound.kernel = identities.get();
  identities_.push_back(std::move(identities));
  return absl::OkStatus();
}

absl::Status Executor::BindCollective(InstructionId id, Bound& bound) {
  const Instruction& instruction = program_->instructions[id];
  const CollectiveRequest& request = program_->collectives[instruction.collective];
  if (collectives_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("program '", program_->name, "' runs on ranks: ", instruction.path, " is ",
                     request.ToString(), "; this run has one process alone"));
  }
  bound.collective = &request;
  bound.unread = own_parts_->UnreadIn(id);
  ASSIGN_OR_RETURN(bound.group, collectives_->FindOrCreateGroup(request.mesh_axes));
  const int64_t ranks = collectives_->SizeOf(bound.group);
  const TensorView* share = nullptr;  // an operand that is one rank's share of the elements
  if (request.operation == CollectiveOperation::kReduceScatter) share = &bound.operands.outputs[0];
  if (request.operation == CollectiveOperation::kAllGather) share = &bound.operands.inputs[0];
  if (share != nullptr && share->elements() * ranks != request.elements) {
    return absl::InvalidArgumentError(
        absl::StrCat("program '", program_->name, "', ", instruction.path, ": ", request.ToString(),
                     " has ", ranks, " ranks, but parts of ", share->elements(), " elements"));
  }
  return absl::OkStatus();
}

absl::Status Executor::NamingInstruction(InstructionId i, const absl::Status& status) const {
  if (status.ok()) return status;
  const Instruction& instruction = program_->instructions[i];
  return absl::Status(status.code(),
                      absl::StrCat("instruction ", i.index(), " (", instruction.path, ", ",
                                   program_->OperationOf(instruction), "): ", status.message()));
}

absl::Status Executor::Start(InstructionId i) {
  Bound& bound = bound_[i];
  if (bound.kernel != nullptr) {
    return bound.kernel->Run({*bound.request, bound.operands.inputs, bound.operands.outputs,
                              bound.workspace, bound.workspace_bytes, bound.operands.draw.get(),
                              bound.stream, bound.operands.input_regions,
                              bound.operands.output_regions});
  }
  const void* const from = bound.operands.inputs.empty() ? nullptr : bound.operands.inputs[0].data;
  void* const to = bound.operands.outputs.empty() ? nullptr : bound.operands.outputs[0].data;
  if (bound.collective != nullptr) {
    bound.started = collectives_->Start(*bound.collective, bound.group, from, to, bound.unread);
    return absl::OkStatus();
  }
  const TensorView& copied = bound.operands.inputs[0];
  return backend_->Copy(to, from, copied.elements() * SizeOf(copied.dtype), *bound.stream);
}

absl::Status Executor::WaitForCollective(InstructionId i) {
  RETURN_IF_ERROR(NamingInstruction(i, collectives_->Wait(bound_[i].started)));
  if (!timed_) return absl::OkStatus();
  return backend_->Record(*timers_[i].end, *bound_[i].stream);
}

absl::Status Executor::Issue(InstructionId i) {
  Bound& bound = bound_[i];
  for (const InstructionId earlier : waits_.before[i]) {
    RETURN_IF_ERROR(WaitForCollective(earlier));
  }
  for (const Event* event : bound.events_before) {
    RETURN_IF_ERROR(backend_->Wait(*bound.stream, *event));
  }
  if (timed_) RETURN_IF_ERROR(backend_->Record(*timers_[i].begin, *bound.stream));
  const absl::Status status = Start(i);
  if (!status.ok()) return NamingInstruction(i, status);
  if (timed_ && bound.collective == nullptr) {
    RETURN_IF_ERROR(backend_->Record(*timers_[i].end, *bound.stream));
  }
  if (bound.ended != nullptr) return backend_->Record(*bound.ended, *bound.stream);
  return absl::OkStatus();
}

absl::Status Executor::WaitForCollectivesAtEnd() {
  for (const InstructionId i : waits_.at_end) RETURN_IF_ERROR(WaitForCollective(i));
  return absl::OkStatus();
}

absl::Status Executor::RunInstruction(InstructionId i) {
  RETURN_IF_ERROR(NamingInstruction(i, Start(i)));
  if (bound_[i].collective != nullptr)
    RETURN_IF_ERROR(NamingInstruction(i, collectives_->Wait(bound_[i].started)));
  return backend_->Synchronize();
}

absl::Status Executor::Run() {
  for (const InstructionId i : bound_.ids()) RETURN_IF_ERROR(Issue(i));
  RETURN_IF_ERROR(WaitForCollectivesAtEnd());
  return backend_->Synchronize();
}

absl::Status Executor::CreateTimers() {
  if (!timers_.empty()) return absl::OkStatus();
  timers_.resize(bound_.size());
  for (InstructionEvents& events : timers_) {
    ASSIGN_OR_RETURN(events.begin, backend_->CreateEvent());
    ASSIGN_OR_RETURN(events.end, backend_->CreateEvent());
  }
  return absl::OkStatus();
}

absl::Status Executor::RunTimed() {
  RETURN_IF_ERROR(CreateTimers());
  timed_ = true;
  absl::Status status = backend_->Record(*step_begin_, *streams_.front());
  if (status.ok()) status = Run();
  timed_ = false;
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(backend_->Record(*step_end_, *streams_.front()));
  RETURN_IF_ERROR(backend_->Synchronize());
  for (const InstructionId i : timers_.ids()) {
    times_[i] = {timers_[i].begin->Nanoseconds(), timers_[i].end->Nanoseconds()};
  }
  step_begin_ns_ = step_begin_->Nanoseconds();
  step_end_ns_ = step_end_->Nanoseconds();
  return absl::OkStatus();
}

}  // namespace tessera
