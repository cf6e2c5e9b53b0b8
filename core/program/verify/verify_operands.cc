#include "core/program/verify/verify_operands.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/interface/backend.h"
#include "core/ops/operator_list.h"
#include "core/program/verify/verify.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Checks each instruction's operands by themselves: types, contiguity, memory spaces.
class OperandVerifier {
 public:
  OperandVerifier(const Program& program, Buffers buffers) : program_(program), buffers_(buffers) {}

  absl::Status Run() const {
    RETURN_IF_ERROR(CheckKernels());
    for (const Instruction& instruction : program_.instructions) {
      RETURN_IF_ERROR(CheckOperands(instruction));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Error(absl::string_view where, absl::string_view fault) const {
    return absl::InternalError(absl::StrCat("program '", program_.name, "', ", where, ": ", fault));
  }

  absl::Status CheckOperands(const Instruction& instruction) const {
    switch (instruction.kind) {
      case InstructionKind::kKernel: {
        const KernelRequest& request = program_.KernelOf(instruction).request;
        for (const absl::Span<const ProgramValueId> ids :
             {absl::MakeConstSpan(instruction.inputs), absl::MakeConstSpan(instruction.outputs)}) {
          RETURN_IF_ERROR(
              CheckSpaces(instruction.path, ids, {MemorySpace::kDevice, MemorySpace::kShared}));
        }
        RETURN_IF_ERROR(CheckDraw(instruction));
        RETURN_IF_ERROR(CheckTypes(instruction.path, "input", instruction.inputs, request.inputs));
        return CheckTypes(instruction.path, "output", instruction.outputs, request.outputs);
      }
      case InstructionKind::kCopy: {
        if (instruction.inputs.size() != 1 || instruction.outputs.size() != 1) {
          return Error(instruction.path, "copies one value to one other");
        }
        const ProgramValue& from = program_.values[instruction.inputs[0]];
        const ProgramValue& to = program_.values[instruction.outputs[0]];
        if (from.type == to.type && Contiguous(from) && Contiguous(to)) return absl::OkStatus();
        return Error(instruction.path, absl::StrCat("copies ", from.path, " to ", to.path,
                                                    ", which is not of its type and contiguous"));
      }
      default:
        return CheckCollective(instruction);
    }
  }

  // Checks that an instruction draws its output's part of a global tensor.
  absl::Status CheckDraw(const Instruction& instruction) const {
    if (instruction.draw == kNone) return absl::OkStatus();
    const DrawRule& draw = program_.draws[instruction.draw];
    const absl::Status status = CheckPart(draw.part, program_.mesh);
    if (!status.ok()) return Error(instruction.path, status.message());
    const ProgramValue& output = program_.values[instruction.outputs[0]];
    Shape local = draw.part.LocalShape(program_.mesh);
    const Shape& drawn = output.type.shape;
    if (output.flat != kNone) {  // a range of what the other axes leave
      const FlatRule& flat = program_.flats[output.flat];
      const bool is_of_member = local == flat.group->members()[flat.member].local;
      local = is_of_member ? Shape{flat.LocalElements()} : Shape();
    }
    if (local == drawn) return absl::OkStatus();
    return Error(instruction.path, absl::StrCat("draws ", ShapeToString(local), ", its output is ",
                                                ShapeToString(drawn)));
  }

  // Checks that values are in memory that their instruction can access.
  absl::Status CheckSpaces(absl::string_view where, absl::Span<const ProgramValueId> ids,
                           std::initializer_list<MemorySpace> reached) const {
    for (const ProgramValueId id : ids) {
      if (program_.values[id].buffer == kNone) {
        return Error(where,
                     absl::StrCat("works on ", program_.values[id].path, ", which has no memory"));
      }
      if (buffers_ == Buffers::kMade) continue;
      const MemorySpace space = program_.buffers[program_.values[id].buffer].space;
      if (std::find(reached.begin(), reached.end(), space) != reached.end()) continue;
      return Error(where, absl::StrCat("cannot work on ", program_.values[id].path, " in ",
                                       MemorySpaceName(space), " memory"));
    }
    return absl::OkStatus();
  }

  static bool Contiguous(const ProgramValue& value) {
    return IsRowMajor(value.type.shape, value.strides);
  }

  // Checks that a collective's operands are contiguous, in shared memory, and of the request's
  // size; an operand that is one rank's share may be any divisor of it.
  absl::Status CheckCollective(const Instruction& instruction) const {
    const CollectiveRequest& request = program_.collectives[instruction.collective];
    const CollectiveOperation operation = request.operation;
    if (request.mesh_axes.empty()) return Error(instruction.path, "names no axis of the mesh");
    if (KindOf(operation) != instruction.kind ||
        instruction.inputs.size() != (HasInput(operation) ? 1 : 0) ||
        instruction.outputs.size() != (HasOutput(operation) ? 1 : 0)) {
      return Error(instruction.path,
                   absl::StrCat("has not the kind or the operands of ", request.ToString()));
    }
    const bool scatters = operation == CollectiveOperation::kReduceScatter;
    const bool gathers = operation == CollectiveOperation::kAllGather;
    const auto check = [&](ProgramValueId id, bool is_share) {
      const ProgramValue& value = program_.values[id];
      const int64_t elements = NumElements(value.type.shape);
      const bool fits =
          is_share ? (elements == 0 ? request.elements == 0 : request.elements % elements == 0)
                   : elements == request.elements;
      if (fits && value.type.dtype == request.dtype && Contiguous(value)) return absl::OkStatus();
      return Error(instruction.path,
                   absl::StrCat(value.path, ": ", TypeToString(value.type),
                                " is no contiguous operand of ", request.ToString()));
    };
    RETURN_IF_ERROR(CheckSpaces(instruction.path, instruction.inputs, {MemorySpace::kShared}));
    RETURN_IF_ERROR(CheckSpaces(instruction.path, instruction.outputs, {MemorySpace::kShared}));
    for (const ProgramValueId id : instruction.inputs) RETURN_IF_ERROR(check(id, gathers));
    for (const ProgramValueId id : instruction.outputs) RETURN_IF_ERROR(check(id, scatters));
    return absl::OkStatus();
  }

  // Returns the kind of the instructions that run an operation.
  static InstructionKind KindOf(CollectiveOperation operation) {
    return operation == CollectiveOperation::kSend      ? InstructionKind::kSend
           : operation == CollectiveOperation::kReceive ? InstructionKind::kReceive
                                                        : InstructionKind::kCollective;
  }

  // Checks that operands have the types of their request.
  absl::Status CheckTypes(absl::string_view where, absl::string_view side,
                          absl::Span<const ProgramValueId> ids,
                          absl::Span<const TensorType> types) const {
    if (ids.size() != types.size()) {
      return Error(where,
                   absl::StrCat("has ", ids.size(), " ", side, "s; its kernel has ", types.size()));
    }
    for (size_t j = 0; j < ids.size(); ++j) {
      const TensorType& type = program_.values[ids[j]].type;
      if (type != types[j]) {
        return Error(where, absl::StrCat(side, " ", j, " is ", TypeToString(type),
                                         "; its kernel has ", TypeToString(types[j])));
      }
    }
    return absl::OkStatus();
  }

  // Checks that requests follow their operators' shape rules.
  absl::Status CheckKernels() const {
    for (const PlannedKernel& planned : program_.kernels) {
      const absl::Status status = CheckKernelRequest(*planned.op, planned.request);
      if (!status.ok()) return Error(planned.key, status.message());
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const Buffers buffers_;
};

}  // namespace

absl::Status CheckKernelRequest(const Operator& op, const KernelRequest& request) {
  size_t extra = 0;
  for (const Epilogue& epilogue : request.epilogues) extra += epilogue.extra_inputs;
  if (extra > request.inputs.size()) return absl::InvalidArgumentError("has too few inputs");
  absl::Span<const TensorType> inputs = request.inputs;
  absl::Span<const TensorType> extra_inputs = inputs.last(extra);
  inputs.remove_suffix(extra);
  ASSIGN_OR_RETURN(std::vector<TensorType> types, op.InferTypes(inputs, request.attributes));
  if (types.size() != request.outputs.size()) {
    return absl::InvalidArgumentError("has a wrong number of outputs");
  }
  for (const Epilogue& epilogue : request.epilogues) {
    const Operator* const applied = FindOperator(epilogue.op);
    if (applied == nullptr || types.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("'", epilogue.op, "' is no epilogue of it"));
    }
    TensorType& result = types[epilogue.output];
    std::vector<TensorType> operands = {result};
    for (int i = 0; i < epilogue.extra_inputs; ++i) operands.push_back(extra_inputs[i]);
    extra_inputs.remove_prefix(epilogue.extra_inputs);
    ASSIGN_OR_RETURN(const std::vector<TensorType> results,
                     applied->InferTypes(operands, epilogue.attributes));
    if (results.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("'", epilogue.op, "' is no epilogue of it"));
    }
    result = results[0];
  }
  for (size_t j = 0; j < types.size(); ++j) {
    if (types[j].shape == request.outputs[j].shape) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("output ", j, " should be ", ShapeToString(types[j].shape)));
  }
  return absl::OkStatus();
}

absl::Status VerifyOperands(const Program& program, Buffers buffers) {
  return OperandVerifier(program, buffers).Run();
}

}  // namespace tessera
