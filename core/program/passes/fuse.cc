// Fusion is a pass and not part of the Graph because a bias or an activation must come after a
// partial sum is complete, and which sums are partial is known only after layouts.
//
// In 16 bits, a bias is cast to them between the product and the addition, and a bias that is added
// to partial sums is set to zero on all ranks but one there; both are then moved in front of the
// product. A gradient that is cast to f32 is stored in f32 by the kernel that
// computes it, which does not round it to 16 bits before.
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/program/kernels/kernel_uses.h"
#include "core/program/passes/pass.h"

namespace tessera {
namespace {

bool IsKernel(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kKernel;
}

// Returns whether instructions that follow may become epilogues: a matrix product, also if it is a
// convolution.
bool MayHaveEpilogues(const KernelRequest& request) {
  return request.op == "matmul" || request.op == "convolution";
}

// Returns whether an instruction may become an epilogue of a product: an addition, or an activation
// (an operator with one operand). The kernels decide whether they support it as an epilogue.
bool MayBeEpilogue(const KernelRequest& request) {
  return request.op == "add" || request.inputs.size() == 1;
}

bool IsCast(const KernelRequest& request) {
  return request.op == "cast" && request.epilogues.empty();
}

// Returns whether a request makes what is added to a product from a bias.
bool PreparesBias(const KernelRequest& request) {
  return IsCast(request) || request.op == "zero_elsewhere";
}

// Returns whether a request casts 16 bits to f32.
bool WidensToF32(const KernelRequest& request) {
  return IsCast(request) && IsHalf(request.inputs[0].dtype) &&
         request.outputs[0].dtype == DType::kF32;
}

// Joins each product with the elementwise instructions that follow it, and every kernel with the
// casts of its outputs to f32, as epilogues, one by one.
class Fuser {
 public:
  Fuser(KernelChooser& chooser, Program& program)
      : kernels_(&chooser, &program),
        program_(program),
        uses_(program.buffers.size()),
        gone_(program.instructions.size(), false) {
    for (const ProgramValue& value : program.values) ++uses_[value.buffer].values;
    for (const InstructionId i : program.instructions.ids()) {
      for (ProgramValueId id : program.instructions[i].inputs) {
        Uses& uses = UsesOf(id);
        ++uses.reads;
        uses.read = id;
        uses.reader = i;
      }
      for (ProgramValueId id : program.instructions[i].outputs) {
        ++UsesOf(id).writes;
        UsesOf(id).writer = i;
      }
      for (ProgramValueId id : program.instructions[i].after) UsesOf(id).fixed = true;
    }
    for (const NamedValue& output : program.outputs) UsesOf(output.value).fixed = true;
    for (const ProgramState& state : program.states) UsesOf(state.updated).fixed = true;
  }

  absl::Status Run() {
    for (const InstructionId i : program_.instructions.ids()) {
      if (gone_[i] || !IsKernel(program_.instructions[i])) continue;
      for (size_t output = 0; output < program_.instructions[i].outputs.size(); ++output) {
        while (FuseNext(i, output)) {
        }
      }
    }
    RemoveAndMove();
    return absl::OkStatus();
  }

 private:
  // The uses of a buffer.
  struct Uses {
    int32_t values = 0, reads = 0, writes = 0;
    bool fixed = false;    // it holds an output, an updated state or the end of an order edge
    ProgramValueId read;   // by `reader`, its last one
    InstructionId reader;  // kNone: nothing reads it
    InstructionId writer;  // the last one
  };

  // An instruction that is moved in front of the one that needs it.
  struct Move {
    InstructionId before, moved;
  };

  Uses& UsesOf(ProgramValueId id) { return uses_[program_.values[id].buffer]; }
  const Uses& UsesOf(ProgramValueId id) const { return uses_[program_.values[id].buffer]; }
  const KernelRequest& RequestOf(const Instruction& instruction) const {
    return program_.KernelOf(instruction).request;
  }

  // Joins the instruction that follows output `output` of instruction i to i. Returns false if
  // there is none, or no kernel does both.
  bool FuseNext(InstructionId i, size_t output) {
    const InstructionId next = NextEpilogue(i, output);
    if (next == kNone) return false;
    const ProgramValueId read = UsesOf(program_.instructions[i].outputs[output]).read;
    const std::optional<std::vector<InstructionId>> moved = WhatToMove(i, next, read);
    if (!moved.has_value()) return false;
    std::optional<Instruction> joined = Joined(i, output, next);
    if (!joined.has_value()) return false;
    program_.instructions[i] = *std::move(joined);
    gone_[next] = true;
    for (const InstructionId bias : *moved) {
      moves_.push_back({i, bias});
      // From now on it is written before instruction i.
      UsesOf(program_.instructions[bias].outputs[0]).writer = i - 1;
    }
    return true;
  }

  // Returns the instruction that may become an epilogue of an output of instruction i, if its other
  // inputs are there: an elementwise one, the only reader of the output. kNone if there is none.
  InstructionId NextEpilogue(InstructionId i, size_t output) const {
    const Instruction& instruction = program_.instructions[i];
    const ProgramValueId result = instruction.outputs[output];
    const Uses& uses = UsesOf(result);
    if (uses.reads != 1 || uses.writes != 1 || uses.fixed) return kNone;
    const Instruction& next = program_.instructions[uses.reader];
    if (!IsKernel(next) || !RunsAlongside(next, instruction)) return kNone;
    const KernelRequest& request = RequestOf(next);
    if (WidensToF32(request)) {
      const bool all_of_it = uses.read == result || IsReshaped(uses.read, result, next.outputs[0]);
      return all_of_it ? uses.reader : kNone;
    }
    const bool fits = MayHaveEpilogues(RequestOf(instruction)) && uses.values == 1 &&
                      MayBeEpilogue(request) &&
                      program_.values[next.outputs[0]].type == program_.values[result].type;
    return fits ? uses.reader : kNone;
  }

  // Returns whether an instruction belongs to the same stream, phase and recomputation as another.
  static bool RunsAlongside(const Instruction& a, const Instruction& b) {
    return a.stream == b.stream && a.phase == b.phase && a.recomputed == b.recomputed;
  }

  // Returns whether `view` is all of the tensor `result` in another shape, and has the elements of
  // `target` in the same order.
  bool IsReshaped(ProgramValueId view, ProgramValueId result, ProgramValueId target) const {
    for (const ProgramValueId id : {view, result, target}) {
      const ProgramValue& value = program_.values[id];
      if (value.packed || value.sliced_from != kNone || value.flat != kNone ||
          !IsRowMajorOnAllRanks(program_, id)) {
        return false;
      }
    }
    const ProgramValue &a = program_.values[view], &b = program_.values[result];
    return a.offset == b.offset && NumElements(a.type.shape) == NumElements(b.type.shape);
  }

  // Returns the instructions that must be moved in front of instruction i, in order, so that
  // `next`, which reads the output of i as `read`, can run there; nullopt if it cannot: another
  // input, or a value after which it runs, is not there yet.
  std::optional<std::vector<InstructionId>> WhatToMove(InstructionId i, InstructionId next,
                                                       ProgramValueId read) const {
    const Instruction& epilogue = program_.instructions[next];
    if (!AreWrittenBefore(i, epilogue.after)) return std::nullopt;
    std::vector<InstructionId> moved;
    for (ProgramValueId id : epilogue.inputs) {
      const Uses& uses = UsesOf(id);
      if (id == read || uses.writer < i) continue;
      if (!MoveBefore(i, uses.writer, moved)) return std::nullopt;
    }
    return moved;
  }

  bool AreWrittenBefore(InstructionId i, absl::Span<const ProgramValueId> ids) const {
    return absl::c_all_of(ids, [&](ProgramValueId id) { return UsesOf(id).writer < i; });
  }

  // Appends an instruction behind the product i that prepares a bias, after those that it reads
  // from. Returns false if it cannot as well run before the product, or makes more than a bias:
  // what is larger would take memory for longer.
  bool MoveBefore(InstructionId i, InstructionId later, std::vector<InstructionId>& moved) const {
    if (absl::c_linear_search(moved, later)) return true;
    const Instruction& product = program_.instructions[i];
    const Instruction& bias = program_.instructions[later];
    if (gone_[later] || !IsKernel(bias) || !PreparesBias(RequestOf(bias)) ||
        !RunsAlongside(bias, product)) {
      return false;
    }
    const int64_t columns = program_.values[product.outputs[0]].type.shape.back();
    const ProgramValueId made = bias.outputs[0];
    if (UsesOf(made).writes != 1 || NumElements(program_.values[made].type.shape) > columns ||
        !AreWrittenBefore(i, bias.after)) {
      return false;
    }
    for (const ProgramValueId input : bias.inputs) {
      const InstructionId writer = UsesOf(input).writer;
      if (writer >= i && !MoveBefore(i, writer, moved)) return false;
    }
    moved.push_back(later);
    return true;
  }

  // Returns one instruction that does the work of both, to stand at the position of the first;
  // nullopt if no kernel does both. Changes no instruction.
  std::optional<Instruction> Joined(InstructionId first, size_t output, InstructionId second) {
    const Instruction& a = program_.instructions[first];
    const Instruction& b = program_.instructions[second];
    const ProgramValueId result = a.outputs[output];
    const ProgramValueId read = UsesOf(result).read;
    Instruction joined = a;
    const KernelRequest& first_request = RequestOf(a);
    const KernelRequest& second_request = RequestOf(b);
    KernelWork work{first_request.op, first_request.attributes, first_request.epilogues};
    work.epilogues.push_back({second_request.op, second_request.attributes,
                              static_cast<int>(b.inputs.size()) - 1, static_cast<int>(output)});
    joined.fused_paths.push_back(b.path);
    // An addition accepts its operands in either order.
    for (ProgramValueId id : b.inputs) {
      if (id != read) joined.inputs.push_back(id);
    }
    joined.after.insert(joined.after.end(), b.after.begin(), b.after.end());
    joined.cost.flops += b.cost.flops;
    // The value between the two is neither written nor read.
    joined.cost.bytes +=
        b.cost.bytes - 2.0 * static_cast<double>(NumBytes(program_.values[result].type));
    joined.outputs[output] = read == result ? b.outputs[0] : AddReshaped(b.outputs[0], result);
    joined.kernel = kernels_.FindOrAddIfSupported(std::move(work), joined.inputs, joined.outputs);
    if (joined.kernel != kNone && AcceptsStrides(joined)) return joined;
    if (read != result) program_.values.pop_back();
    return std::nullopt;
  }

  // Adds a value with the elements of `target`, in the shape of `like`, and returns it.
  ProgramValueId AddReshaped(ProgramValueId target, ProgramValueId like) {
    const ProgramValue& to = program_.values[target];
    ProgramValue value = program_.values[like];
    const absl::string_view dtype = DTypeName(to.type.dtype);
    value.path = absl::StrCat(value.path, ".", std::string(dtype.data(), dtype.size()));
    value.type.dtype = to.type.dtype;
    value.buffer = to.buffer;
    value.offset = to.offset;
    value.within = program_.TensorOf(target);
    return program_.values.push_back(std::move(value));
  }

  // Returns whether the kernel of an instruction accepts the strides of its operands.
  bool AcceptsStrides(const Instruction& instruction) const {
    const Kernel& kernel = *program_.KernelOf(instruction).kernel;
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      if (kernel.StridedInput(static_cast<int>(i))) continue;
      if (!IsRowMajorOnAllRanks(program_, instruction.inputs[i])) return false;
    }
    for (size_t i = 0; i < instruction.outputs.size(); ++i) {
      if (kernel.StridedOutput(static_cast<int>(i))) continue;
      if (!IsRowMajorOnAllRanks(program_, instruction.outputs[i])) return false;
    }
    return true;
  }

  // Removes the instructions that were joined to others, and moves what prepares biases.
  void RemoveAndMove() {
    for (const Move& move : moves_) gone_[move.moved] = true;
    Table<InstructionId, Instruction> kept;
    kept.reserve(program_.instructions.size());
    auto move = moves_.begin();  // sorted by `before`
    for (const InstructionId i : program_.instructions.ids()) {
      for (; move != moves_.end() && move->before == i; ++move) {
        kept.push_back(std::move(program_.instructions[move->moved]));
      }
      if (!gone_[i]) kept.push_back(std::move(program_.instructions[i]));
    }
    program_.instructions = std::move(kept);
  }

  KernelTable kernels_;
  Program& program_;
  Table<BufferId, Uses> uses_;
  Table<InstructionId, bool> gone_;  // joined to an earlier one
  std::vector<Move> moves_;
};

}  // namespace

absl::Status FusePass(KernelChooser& chooser, Program& program) {
  return Fuser(chooser, program).Run();
}

}  // namespace tessera
