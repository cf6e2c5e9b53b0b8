#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/graph/attributes_proto.h"
#include "core/layout/layout_proto.h"
#include "core/ops/operator_list.h"
#include "core/program/proto/program_proto.h"
#include "core/program/verify/verify.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// The enumerators must be in the same order as those of the messages.
static_assert(static_cast<int>(Role::kRunningStatistic) == ProgramProto::RUNNING_STATISTIC);
static_assert(static_cast<int>(Category::kRunningStatistics) == ProgramProto::RUNNING_STATISTICS);
static_assert(static_cast<int>(MemorySpace::kOffloadHost) == ProgramProto::OFFLOAD_HOST);
static_assert(static_cast<int>(InstructionKind::kCopy) == ProgramProto::Instruction::COPY);
static_assert(static_cast<int>(Phase::kUpdate) == ProgramProto::Instruction::UPDATE);
static_assert(static_cast<int>(CollectiveOperation::kReceive) == ProgramProto::Collective::RECEIVE);
static_assert(static_cast<int>(Reduction::kMin) == ProgramProto::Collective::MIN);

template <typename... Text>
absl::Status Malformed(const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

class Reader {
 public:
  Reader(const ProgramProto& message, const KernelCatalogue& catalogue)
      : message_(message), catalogue_(catalogue) {}

  // Lists are read in an order in which each follows those of program_ that its entries are checked
  // against: mesh, parts, flat groups, and so on.
  absl::StatusOr<Program> Read() {
    program_.name = message_.name();
    program_.threads = message_.threads();
    program_.streams.assign(message_.streams().begin(), message_.streams().end());
    if (program_.streams.empty()) return Malformed("program '", program_.name, "' has no stream");
    ASSIGN_OR_RETURN(program_.mesh, Mesh::Create(AxesFromProto(message_.mesh())));
    RETURN_IF_ERROR(ReadAll(message_.parts(), program_.parts, "part"));
    RETURN_IF_ERROR(ReadAll(message_.flat_groups(), flat_groups_, "flat group"));
    RETURN_IF_ERROR(ReadAll(message_.flats(), program_.flats, "flat rule"));
    RETURN_IF_ERROR(ReadAll(message_.values(), program_.values, "value"));
    RETURN_IF_ERROR(ReadAll(message_.kernels(), program_.kernels, "kernel"));
    RETURN_IF_ERROR(ReadAll(message_.collectives(), program_.collectives, "collective"));
    RETURN_IF_ERROR(ReadAll(message_.draws(), program_.draws, "draw"));
    RETURN_IF_ERROR(ReadAll(message_.instructions(), program_.instructions, "instruction"));
    RETURN_IF_ERROR(ReadAll(message_.buffers(), program_.buffers, "buffer"));
    RETURN_IF_ERROR(ReadAll(message_.inputs(), program_.inputs, "input"));
    RETURN_IF_ERROR(ReadAll(message_.states(), program_.states, "state"));
    RETURN_IF_ERROR(ReadAll(message_.outputs(), program_.outputs, "output"));
    if (message_.arenas_size() > static_cast<int>(std::size(kAllMemorySpaces))) {
      return Malformed("program '", program_.name, "' has ", message_.arenas_size(), " arenas");
    }
    for (int i = 0; i < message_.arenas_size(); ++i) {
      RETURN_IF_ERROR(CheckBytes(message_.arenas(i)));
      program_.arenas[kAllMemorySpaces[i]] = message_.arenas(i);
    }
    return std::move(program_);
  }

 private:
  // Appends an entry to `entries` for each message. An entry is appended before it is read: the
  // Read of an instruction takes its own position from the length of program_.instructions.
  template <typename Messages, typename Entries>
  absl::Status ReadAll(const Messages& messages, Entries& entries, absl::string_view entry_kind) {
    entries.reserve(messages.size());
    for (const auto& message : messages) {
      entries.emplace_back();
      const absl::Status status = Read(message, entries.back());
      if (!status.ok()) {
        return Malformed("program '", program_.name, "', ", entry_kind, " ", entries.size() - 1,
                         ": ", status.message());
      }
    }
    return absl::OkStatus();
  }

  // Checks an index into a list of `count` entries.
  static absl::Status CheckIndex(int64_t index, int64_t count, absl::string_view entry_kind) {
    if (index >= 0 && index < count) return absl::OkStatus();
    return Malformed(entry_kind, " ", index, " does not exist; there are ", count);
  }
  // Checks an index that may be absent (kNone).
  static absl::Status CheckOptional(int64_t index, int64_t count, absl::string_view entry_kind) {
    return index == kNone ? absl::OkStatus() : CheckIndex(index, count, entry_kind);
  }
  static absl::Status CheckBytes(int64_t bytes) {
    if (bytes >= 0 && bytes <= kMaxProtoBytes) return absl::OkStatus();
    return Malformed(bytes, " bytes; 0 to 2^50 are possible");
  }

  // Appends indices into a list of `count` entries to `ids`.
  template <typename Indices, typename Ids>
  static absl::Status ReadIndices(const Indices& indices, int64_t count,
                                  absl::string_view entry_kind, Ids& ids) {
    for (const int32_t index : indices) {
      RETURN_IF_ERROR(CheckIndex(index, count, entry_kind));
      ids.emplace_back(index);
    }
    return absl::OkStatus();
  }
  // Appends operands, which must be in a buffer, to `ids`.
  template <typename Indices>
  absl::Status ReadOperands(const Indices& indices, Operands& ids) const {
    RETURN_IF_ERROR(ReadIndices(indices, message_.values_size(), "value", ids));
    for (const ProgramValueId id : ids) RETURN_IF_ERROR(CheckOperand(id.index()));
    return absl::OkStatus();
  }
  // Checks the id of a value that must be in a buffer.
  absl::Status CheckOperand(int32_t id) const {
    RETURN_IF_ERROR(CheckIndex(id, message_.values_size(), "value"));
    if (message_.values(id).buffer() != kNone) return absl::OkStatus();
    return Malformed("value ", id, " lies in no buffer");
  }

  absl::Status Read(const ProgramProto::Value& message, ProgramValue& value) const {
    value.path = message.path();
    ASSIGN_OR_RETURN(value.type, FromProto(message.type()));
    if (message.strides_size() != message.type().shape_size()) {
      return Malformed(message.strides_size(), " strides for ", TypeToString(value.type));
    }
    int64_t bytes = SizeOf(value.type.dtype);
    for (int d = 0; d < message.strides_size(); ++d) {
      const int64_t stride = message.strides(d);
      const int64_t steps = std::max<int64_t>(value.type.shape[d], 1);
      if (stride < 0 || stride > kMaxProtoBytes / steps / SizeOf(value.type.dtype)) {
        return Malformed("a stride of ", stride, " elements");
      }
      bytes += stride * steps * SizeOf(value.type.dtype);
      RETURN_IF_ERROR(CheckBytes(bytes));
      value.strides.push_back(stride);
    }
    if (!ProgramProto::Role_IsValid(message.role())) return Malformed("role ", message.role());
    value.role = static_cast<Role>(message.role());
    RETURN_IF_ERROR(CheckOptional(message.buffer(), message_.buffers_size(), "buffer"));
    RETURN_IF_ERROR(CheckBytes(message.offset()));
    RETURN_IF_ERROR(CheckOptional(message.within(), message_.values_size(), "value"));
    if (message.within() != kNone && message.buffer() != kNone) {
      RETURN_IF_ERROR(CheckOperand(message.within()));
    }
    RETURN_IF_ERROR(CheckOptional(message.part(), message_.parts_size(), "part"));
    RETURN_IF_ERROR(CheckOptional(message.sliced_from(), message_.values_size(), "value"));
    if (message.sliced_from() != kNone && message.buffer() != kNone) {
      RETURN_IF_ERROR(CheckOperand(message.sliced_from()));
    }
    RETURN_IF_ERROR(CheckOptional(message.flat(), message_.flats_size(), "flat rule"));
    value.part = PartId(message.part());
    value.sliced_from = ProgramValueId(message.sliced_from());
    RETURN_IF_ERROR(CheckOptional(message.gradient_of(), message_.values_size(), "value"));
    value.gradient_of = ProgramValueId(message.gradient_of());
    value.flat = FlatId(message.flat());
    value.packed = message.packed();
    value.buffer = BufferId(message.buffer());
    value.offset = message.offset();
    value.within = ProgramValueId(message.within());
    return absl::OkStatus();
  }

  absl::Status Read(const ProgramProto::Kernel& message, PlannedKernel& planned) const {
    KernelRequest& request = planned.request;
    request.op = message.request().op();
    request.threads = message.request().threads();
    ASSIGN_OR_RETURN(request.attributes, FromProto(message.request().attributes()));
    for (const TypeProto& type : message.request().inputs()) {
      ASSIGN_OR_RETURN(request.inputs.emplace_back(), FromProto(type));
    }
    for (const TypeProto& type : message.request().outputs()) {
      ASSIGN_OR_RETURN(request.outputs.emplace_back(), FromProto(type));
    }
    for (const KernelRequestProto::Epilogue& added : message.request().epilogues()) {
      Epilogue& epilogue = request.epilogues.emplace_back();
      epilogue.op = added.op();
      ASSIGN_OR_RETURN(epilogue.attributes, FromProto(added.attributes()));
      epilogue.extra_inputs = added.extra_inputs();
      if (epilogue.extra_inputs < 0 || epilogue.extra_inputs > message.request().inputs_size()) {
        return Malformed("an epilogue of ", epilogue.extra_inputs, " operands");
      }
      epilogue.output = added.output();
      if (epilogue.output < 0 || epilogue.output >= message.request().outputs_size()) {
        return Malformed("an epilogue of output ", epilogue.output);
      }
    }
    RETURN_IF_ERROR(CheckBytes(message.workspace_bytes()));
    planned.workspace_bytes = message.workspace_bytes();
    planned.key = request.Key();
    planned.op = FindOperator(request.op);
    if (planned.op == nullptr) return Malformed("no operator '", request.op, "'");
    return FindKernel(message.kernel(), planned);
  }

  // Checks the operator's rules before it asks a kernel: kernels may assume that requests follow
  // them.
  absl::Status FindKernel(absl::string_view name, PlannedKernel& planned) const {
    const KernelRequest& request = planned.request;
    const absl::Status status = CheckKernelRequest(*planned.op, request);
    if (!status.ok()) return Malformed(planned.key, ": ", status.message());
    for (const Kernel* kernel : CandidateKernels(catalogue_, request)) {
      if (kernel->name() == name) planned.kernel = kernel;
    }
    if (planned.kernel != nullptr) return absl::OkStatus();
    return Malformed("backend '", catalogue_.name(), "' has no kernel '", name, "' for ",
                     planned.key);
  }

  absl::Status Read(const ProgramProto::Collective& message, CollectiveRequest& request) const {
    if (!ProgramProto::Collective::Operation_IsValid(message.operation())) {
      return Malformed("operation ", message.operation());
    }
    if (!ProgramProto::Collective::Reduction_IsValid(message.reduction())) {
      return Malformed("reduction ", message.reduction());
    }
    RETURN_IF_ERROR(CheckBytes(message.elements()));
    request.operation = static_cast<CollectiveOperation>(message.operation());
    request.elements = message.elements();
    ASSIGN_OR_RETURN(request.dtype, FromProto(message.dtype()));
    request.reduction = static_cast<Reduction>(message.reduction());
    request.mesh_axes.assign(message.mesh_axes().begin(), message.mesh_axes().end());
    for (const std::string& axis : request.mesh_axes) {
      RETURN_IF_ERROR(program_.mesh.FindAxis(axis).status());
    }
    if (message.shift() < 0 || message.shift() > Mesh::kMaxRanks) {
      return Malformed("a shift of ", message.shift(), " ranks");
    }
    request.shift = message.shift();
    return absl::OkStatus();
  }

  absl::Status Read(const ProgramProto::Part& message, PartRule& part) const {
    part.global.assign(message.global().begin(), message.global().end());
    part.start.assign(message.start().begin(), message.start().end());
    part.extent.assign(message.extent().begin(), message.extent().end());
    for (const Shape& shape : {part.global, part.start, part.extent}) {
      for (const int64_t size : shape) RETURN_IF_ERROR(CheckBytes(size));
    }
    ASSIGN_OR_RETURN(part.layout, FromProto(message.layout(), program_.mesh));
    return CheckPart(part, program_.mesh);
  }

  absl::Status Read(const ProgramProto::FlatGroup& message,
                    std::shared_ptr<const FlatGroup>& group) const {
    if (message.ranks() < 1 || message.ranks() > Mesh::kMaxRanks) {
      return Malformed("split over ", message.ranks(), " ranks");
    }
    std::vector<FlatGroup::Member> members;
    for (const ProgramProto::FlatGroup::Member& member : message.members()) {
      // It is read as a tensor to apply the limits on sizes.
      TypeProto type;
      *type.mutable_shape() = member.local();
      ASSIGN_OR_RETURN(TensorType local, FromProto(type));
      members.push_back({std::move(local.shape), member.block()});
    }
    ASSIGN_OR_RETURN(FlatGroup made, FlatGroup::Create(members, message.ranks()));
    RETURN_IF_ERROR(CheckBytes(made.elements()));
    group = std::make_shared<const FlatGroup>(std::move(made));
    return absl::OkStatus();
  }

  absl::Status Read(const ProgramProto::Flat& message, FlatRule& flat) const {
    RETURN_IF_ERROR(CheckIndex(message.group(), message_.flat_groups_size(), "flat group"));
    flat = {flat_groups_[message.group()],
            {message.axes().begin(), message.axes().end()},
            message.member()};
    return CheckFlat(flat, program_.mesh);
  }

  absl::Status Read(const ProgramProto::Draw& message, DrawRule& draw) const {
    draw.path = message.path();
    return Read(message.part(), draw.part);
  }

  absl::Status Read(const ProgramProto::Instruction& message, Instruction& instruction) const {
    const int64_t position = static_cast<int64_t>(program_.instructions.size()) - 1;
    if (!ProgramProto::Instruction::Kind_IsValid(message.kind())) {
      return Malformed("kind ", message.kind());
    }
    if (!ProgramProto::Instruction::Phase_IsValid(message.phase())) {
      return Malformed("phase ", message.phase());
    }
    instruction.path = message.path();
    instruction.kind = static_cast<InstructionKind>(message.kind());
    const bool kernel = instruction.kind == InstructionKind::kKernel;
    const bool copy = instruction.kind == InstructionKind::kCopy;
    RETURN_IF_ERROR(CheckIndex(message.stream(), message_.streams_size(), "stream"));
    RETURN_IF_ERROR(
        ReadIndices(message.waits(), position, "earlier instruction", instruction.waits));
    // Each kind of instruction has the indices that it needs and no others.
    RETURN_IF_ERROR(
        CheckIndex(message.kernel(), kernel ? message_.kernels_size() : 0, "kernel", kernel));
    RETURN_IF_ERROR(CheckIndex(message.collective(),
                               kernel || copy ? 0 : message_.collectives_size(), "collective",
                               !kernel && !copy));
    RETURN_IF_ERROR(CheckOptional(message.draw(), kernel ? message_.draws_size() : 0, "draw"));
    RETURN_IF_ERROR(
        CheckOptional(message.workspace(), kernel ? message_.buffers_size() : 0, "buffer"));
    instruction.stream = StreamId(message.stream());
    instruction.kernel = KernelId(message.kernel());
    instruction.collective = CollectiveId(message.collective());
    instruction.draw = DrawId(message.draw());
    instruction.workspace = BufferId(message.workspace());
    instruction.fused_paths.assign(message.fused_paths().begin(), message.fused_paths().end());
    RETURN_IF_ERROR(ReadOperands(message.inputs(), instruction.inputs));
    RETURN_IF_ERROR(ReadOperands(message.outputs(), instruction.outputs));
    RETURN_IF_ERROR(
        ReadIndices(message.after(), message_.values_size(), "value", instruction.after));
    if (instruction.draw != kNone && instruction.outputs.empty())
      return Malformed("draws no output");
    instruction.phase = static_cast<Phase>(message.phase());
    instruction.recomputed = message.recomputed();
    if (message.has_block()) {
      if (message.block() < 0) return Malformed("block ", message.block());
      instruction.block = BlockId(message.block());
    }
    instruction.cost = {message.flops(), message.recomputed_flops(), message.bytes()};
    for (const double cost : {message.flops(), message.recomputed_flops(), message.bytes()}) {
      if (!std::isfinite(cost) || cost < 0) return Malformed("a cost of ", cost);
    }
    return absl::OkStatus();
  }
  // Checks an index that must be present if `needed` and absent otherwise.
  static absl::Status CheckIndex(int64_t index, int64_t count, absl::string_view entry_kind,
                                 bool needed) {
    return needed ? CheckIndex(index, count, entry_kind) : CheckOptional(index, 0, entry_kind);
  }

  absl::Status Read(const ProgramProto::Buffer& message, Buffer& buffer) const {
    const int64_t end = message_.instructions_size();
    buffer.path = message.path();
    RETURN_IF_ERROR(CheckBytes(message.bytes()));
    buffer.bytes = message.bytes();
    if (!ProgramProto::MemorySpace_IsValid(message.space())) {
      return Malformed("memory space ", message.space());
    }
    if (!ProgramProto::Category_IsValid(message.category())) {
      return Malformed("category ", message.category());
    }
    buffer.space = static_cast<MemorySpace>(message.space());
    buffer.category = static_cast<Category>(message.category());
    for (const ProgramProto::Buffer::Change& change : message.changes()) {
      RETURN_IF_ERROR(CheckIndex(change.first(), end, "instruction"));
      if (!ProgramProto::Category_IsValid(change.category())) {
        return Malformed("category ", change.category());
      }
      buffer.changes.push_back({change.first(), static_cast<Category>(change.category())});
    }
    buffer.state = message.state();
    if (message.first() < -1 || message.first() > end || message.last() < -1 ||
        message.last() > end) {
      return Malformed("live in [", message.first(), ", ", message.last(), "] of ", end,
                       " instructions");
    }
    buffer.first = message.first();
    buffer.last = message.last();
    if (message.offset() != -1) RETURN_IF_ERROR(CheckBytes(message.offset()));
    buffer.offset = message.offset();
    return absl::OkStatus();
  }

  absl::Status Read(const ProgramProto::NamedValue& message, NamedValue& value) const {
    RETURN_IF_ERROR(CheckOperand(message.value()));
    value = {message.name(), ProgramValueId(message.value())};
    return absl::OkStatus();
  }

  absl::Status Read(const ProgramProto::State& message, ProgramState& state) const {
    if (!ProgramProto::Role_IsValid(message.role())) return Malformed("role ", message.role());
    if (message.input() != kNone) RETURN_IF_ERROR(CheckOperand(message.input()));
    RETURN_IF_ERROR(CheckOperand(message.updated()));
    state = {message.path(), message.origin(), static_cast<Role>(message.role()),
             ProgramValueId(message.input()), ProgramValueId(message.updated())};
    return absl::OkStatus();
  }

  const ProgramProto& message_;
  const KernelCatalogue& catalogue_;
  std::vector<std::shared_ptr<const FlatGroup>> flat_groups_;
  Program program_;
};

}  // namespace

absl::StatusOr<Program> FromProto(const ProgramProto& message, const KernelCatalogue& catalogue) {
  absl::StatusOr<Program> program = Reader(message, catalogue).Read();
  if (program.ok()) return program;
  // Names from the message may have line breaks.
  std::string text(program.status().message());
  std::replace_if(text.begin(), text.end(), absl::ascii_iscntrl, ' ');
  return absl::Status(program.status().code(), text);
}

}  // namespace tessera
