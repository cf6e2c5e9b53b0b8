// Fusion is a pass and not part of the Graph because a bias or an activation must come after a
// partial sum is complete, and which sums are partial is known only after layouts.
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "core/ids/table.h"
#include "core/program/hazards/index_lists.h"
#include "core/program/kernels/kernel_uses.h"
#include "core/program/passes/pass.h"

namespace tessera {
namespace {

bool IsKernel(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kKernel;
}

// Returns whether an instruction may become an epilogue: an addition, or an activation (an operator
// with one operand). The kernels decide whether they support it as an epilogue.
bool MayBeEpilogue(const KernelRequest& request) {
  return request.op == "add" || request.inputs.size() == 1;
}

// Joins each matmul with the elementwise instructions that follow it, as epilogues, one by one.
class Fuser {
 public:
  Fuser(KernelChooser& chooser, Program& program)
      : kernels_(&chooser, &program), program_(program) {
    std::vector<std::pair<ProgramValueId, InstructionId>> readers;
    values_in_.resize(program.buffers.size(), 0);
    written_.resize(program.buffers.size());
    for (const ProgramValue& value : program.values) ++values_in_[value.buffer];
    for (const InstructionId i : program.instructions.ids()) {
      for (ProgramValueId id : program.instructions[i].inputs) {
        readers.emplace_back(id, i);
      }
      for (ProgramValueId id : program.instructions[i].outputs) {
        written_[program.values[id].buffer] = i;
      }
      for (ProgramValueId id : program.instructions[i].after) fixed_.insert(id);
    }
    readers_ = {program.values.size(), readers};
    for (const NamedValue& output : program.outputs) fixed_.insert(output.value);
    for (const ProgramState& state : program.states) fixed_.insert(state.updated);
  }

  absl::Status Run() {
    Table<InstructionId, bool> gone(program_.instructions.size(), false);
    for (const InstructionId i : program_.instructions.ids()) {
      if (gone[i] || !IsKernel(program_.instructions[i]) ||
          RequestOf(program_.instructions[i]).op != "matmul") {
        continue;
      }
      while (true) {
        const InstructionId next = NextEpilogue(i);
        if (next == kNone) break;
        std::optional<Instruction> joined = Joined(i, next);
        if (!joined.has_value()) break;
        program_.instructions[i] = *std::move(joined);
        gone[next] = true;
      }
    }
    InstructionId kept(0);
    for (const InstructionId i : program_.instructions.ids()) {
      if (gone[i]) continue;
      if (kept != i) program_.instructions[kept] = std::move(program_.instructions[i]);
      ++kept;
    }
    program_.instructions.resize(kept - InstructionId(0));
    return absl::OkStatus();
  }

 private:
  // Returns the instruction that can be joined to instruction i: an elementwise one that is the
  // only reader of i's output and whose other inputs, and the values after which it runs, are
  // written before i; kNone if there is none.
  InstructionId NextEpilogue(InstructionId i) const {
    const Instruction& instruction = program_.instructions[i];
    const ProgramValueId output = instruction.outputs[0];
    const ProgramValue& value = program_.values[output];
    if (instruction.outputs.size() != 1 || readers_[output].size() != 1 ||
        fixed_.contains(output) || values_in_[value.buffer] != 1) {
      return kNone;
    }
    const InstructionId reader = readers_[output][0];
    const Instruction& next = program_.instructions[reader];
    if (!IsKernel(next) || next.stream != instruction.stream || !MayBeEpilogue(RequestOf(next)) ||
        program_.values[next.outputs[0]].type != value.type || next.phase != instruction.phase ||
        next.recomputed != instruction.recomputed) {
      return kNone;
    }
    const auto written_before = [&](ProgramValueId id) {
      return written_[program_.values[id].buffer] < i;
    };
    const bool can_run = absl::c_all_of(next.after, written_before) &&
                         absl::c_all_of(next.inputs, [&](ProgramValueId id) {
                           return id == output || written_before(id);
                         });
    return can_run ? reader : kNone;
  }

  // Returns one instruction that does the work of both, to stand at the position of the first;
  // nullopt if no kernel does both. Changes no instruction.
  std::optional<Instruction> Joined(InstructionId first, InstructionId second) {
    const Instruction& a = program_.instructions[first];
    const Instruction& b = program_.instructions[second];
    Instruction joined = a;
    const KernelRequest& first_request = RequestOf(a);
    const KernelRequest& second_request = RequestOf(b);
    KernelWork work{first_request.op, first_request.attributes, first_request.epilogues};
    work.epilogues.push_back(
        {second_request.op, second_request.attributes, static_cast<int>(b.inputs.size()) - 1});
    joined.fused_paths.push_back(b.path);
    // An addition accepts its operands in either order.
    for (ProgramValueId id : b.inputs) {
      if (id != a.outputs[0]) joined.inputs.push_back(id);
    }
    joined.outputs = b.outputs;
    joined.after.insert(joined.after.end(), b.after.begin(), b.after.end());
    joined.cost.flops += b.cost.flops;
    // The value between the two is neither written nor read.
    joined.cost.bytes +=
        b.cost.bytes - 2.0 * static_cast<double>(NumBytes(program_.values[a.outputs[0]].type));
    joined.kernel = kernels_.FindOrAddIfSupported(std::move(work), joined.inputs, joined.outputs);
    if (joined.kernel == kNone) return std::nullopt;
    const Kernel& kernel = *program_.KernelOf(joined).kernel;
    for (size_t i = 0; i < joined.inputs.size(); ++i) {
      if (!kernel.StridedInput(static_cast<int>(i)) &&
          !IsRowMajorOnAllRanks(program_, joined.inputs[i])) {
        return std::nullopt;
      }
    }
    if (!kernel.StridedOutput(0) && !IsRowMajorOnAllRanks(program_, joined.outputs[0]))
      return std::nullopt;
    return joined;
  }

  const KernelRequest& RequestOf(const Instruction& instruction) const {
    return program_.KernelOf(instruction).request;
  }

  KernelTable kernels_;
  Program& program_;
  IndexLists<ProgramValueId, InstructionId> readers_;
  Table<BufferId, int> values_in_;
  Table<BufferId, InstructionId> written_;     // the last instruction that writes it
  absl::flat_hash_set<ProgramValueId> fixed_;  // outputs, updated states, ends of order edges
};

}  // namespace

absl::Status FusePass(KernelChooser& chooser, Program& program) {
  return Fuser(chooser, program).Run();
}

}  // namespace tessera
