// Fusion is a pass and not part of the Graph because a bias or an activation must come after a
// partial sum is complete, and which sums are partial is known only after layouts.
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/program/passes/pass.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Whether an instruction may become an epilogue: an addition, or an activation, which has no other
// operand. Whether one of the kernels runs it as one is for the kernels to say.
bool MayBeEpilogue(const Instruction& instruction) {
  return instruction.op->name() == "add" || instruction.inputs.size() == 1;
}

class Fuser {
 public:
  Fuser(KernelChooser& chooser, Program& program) : chooser_(chooser), program_(program) {
    readers_.resize(program.values.size());
    views_.resize(program.values.size(), 0);
    written_.resize(program.values.size(), -1);
    for (size_t id = 0; id < program.values.size(); ++id) {
      if (program.values[id].root != static_cast<int32_t>(id)) ++views_[program.values[id].root];
    }
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      for (int32_t id : program.instructions[i].inputs) {
        readers_[id].push_back(static_cast<int32_t>(i));
      }
      for (int32_t id : program.instructions[i].outputs) {
        written_[program.values[id].root] = static_cast<int32_t>(i);
      }
      for (int32_t id : program.instructions[i].after) fixed_.insert(id);
    }
    for (const NamedValue& output : program.outputs) fixed_.insert(output.value);
    for (const ProgramState& state : program.states) fixed_.insert(state.updated);
  }

  absl::Status Run() {
    std::vector<bool> gone(program_.instructions.size(), false);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (gone[i] || program_.instructions[i].op->name() != "matmul") continue;
      while (true) {
        const int32_t next = Next(i);
        if (next == kNone) break;
        absl::StatusOr<Instruction> joined = Join(i, static_cast<size_t>(next));
        if (!joined.ok()) break;  // no kernel does both
        program_.instructions[i] = *std::move(joined);
        gone[next] = true;
      }
    }
    std::vector<Instruction> kept;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (!gone[i]) kept.push_back(std::move(program_.instructions[i]));
    }
    program_.instructions = std::move(kept);
    return absl::OkStatus();
  }

 private:
  // The elementwise instruction that alone reads instruction i's output and whose other inputs are
  // there before i; kNone if there is none.
  int32_t Next(size_t i) const {
    const Instruction& instruction = program_.instructions[i];
    const int32_t output = instruction.outputs[0];
    const ProgramValue& value = program_.values[output];
    if (instruction.outputs.size() != 1 || readers_[output].size() != 1 ||
        fixed_.contains(output) || value.root != output || views_[output] != 0) {
      return kNone;
    }
    const int32_t reader = readers_[output][0];
    const Instruction& next = program_.instructions[reader];
    if (!MayBeEpilogue(next) || program_.values[next.outputs[0]].type != value.type ||
        next.phase != instruction.phase || next.recomputed != instruction.recomputed ||
        !next.after.empty()) {
      return kNone;
    }
    for (int32_t id : next.inputs) {
      if (id != output && written_[program_.values[id].root] >= static_cast<int32_t>(i)) {
        return kNone;
      }
    }
    return reader;
  }

  // Both in one, at the place of the first.
  absl::StatusOr<Instruction> Join(size_t first, size_t second) {
    const Instruction& a = program_.instructions[first];
    const Instruction& b = program_.instructions[second];
    Instruction joined = a;
    const absl::string_view op = b.op->name();
    joined.epilogues.push_back(
        {std::string(op.data(), op.size()), b.attributes, static_cast<int>(b.inputs.size()) - 1});
    joined.fused_paths.push_back(b.path);
    // An addition takes its operands in either order.
    for (int32_t id : b.inputs) {
      if (id != a.outputs[0]) joined.inputs.push_back(id);
    }
    joined.outputs = b.outputs;
    joined.cost.flops += b.cost.flops;
    // The value between the two is neither written nor read.
    joined.cost.bytes +=
        b.cost.bytes - 2.0 * static_cast<double>(NumBytes(program_.values[a.outputs[0]].type));
    const KernelRequest request = program_.RequestOf(joined);
    if (!chooser_.CanRun(request)) return absl::NotFoundError("no kernel");
    ASSIGN_OR_RETURN(joined.kernel, chooser_.Choose(request));
    for (size_t i = 0; i < joined.inputs.size(); ++i) {
      const ProgramValue& input = program_.values[joined.inputs[i]];
      if (!IsRowMajor(input.type.shape, input.strides) &&
          !joined.kernel->StridedInput(static_cast<int>(i))) {
        return absl::NotFoundError("strides");
      }
    }
    const ProgramValue& output = program_.values[joined.outputs[0]];
    if (!IsRowMajor(output.type.shape, output.strides) && !joined.kernel->StridedOutput(0)) {
      return absl::NotFoundError("strides");
    }
    return joined;
  }

  KernelChooser& chooser_;
  Program& program_;
  std::vector<std::vector<int32_t>> readers_;  // by value
  std::vector<int> views_;                     // by root: how many share its memory
  std::vector<int32_t> written_;               // by root: the last instruction that writes it
  absl::flat_hash_set<int32_t> fixed_;         // outputs, updated states, ends of order edges
};

}  // namespace

absl::Status FusePass(const PassOptions& options, KernelChooser& chooser, Program& program) {
  return Fuser(chooser, program).Run();
}

}  // namespace tessera
