#include "core/program/assign_buffers.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/program/copy_instruction.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class Assignment {
 public:
  Assignment(KernelChooser& chooser, Program& program)
      : chooser_(chooser), kernels_(&chooser, &program), program_(program) {}

  absl::Status Run() {
    RETURN_IF_ERROR(SettleStates());
    FindLiveRanges();
    AssignStatesAndInputs();
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      AssignOutputs(static_cast<int32_t>(i));
    }
    for (ProgramValue& value : program_.values) {
      value.buffer = program_.values[value.root].buffer;
    }
    DropUnusedKernels(program_);
    AssignWorkspaces();
    return absl::OkStatus();
  }

 private:
  int32_t Root(int32_t value) const { return program_.values[value].root; }
  int32_t count() const { return static_cast<int32_t>(program_.instructions.size()); }

  // First writes and last reads of every root, in the present order.
  void FindLiveRanges() {
    first_.assign(program_.values.size(), count());
    last_.assign(program_.values.size(), -1);
    writers_.assign(program_.values.size(), 0);
    for (int32_t i = 0; i < count(); ++i) {
      for (int32_t id : program_.instructions[i].outputs) {
        first_[Root(id)] = std::min(first_[Root(id)], i);
        last_[Root(id)] = std::max(last_[Root(id)], i);
        ++writers_[Root(id)];
      }
      for (int32_t id : program_.instructions[i].inputs) {
        last_[Root(id)] = std::max(last_[Root(id)], i);
      }
    }
    for (const NamedValue& input : program_.inputs) first_[Root(input.value)] = -1;
    for (const NamedValue& output : program_.outputs) last_[Root(output.value)] = count();
  }

  // Whether the updated value of a state can be computed where the input value lies: nothing reads
  // that later, and the instruction that reads it last allows it.
  bool CanUpdateInPlace(const ProgramState& state) const {
    return Root(state.updated) == state.updated && !claimed_.contains(state.updated) &&
           writers_[state.updated] == 1 && CanOverwrite(state);
  }

  bool CanOverwrite(const ProgramState& state) const {
    if (state.input == kNone) return true;
    const int32_t input = Root(state.input);
    const int32_t writer = first_[state.updated];
    if (last_[input] < writer) return true;
    if (last_[input] > writer) return false;
    return InPlaceAllowed(program_.instructions[writer], state.input, state.updated);
  }

  // Whether `instruction` may write `output` exactly where `input` lies.
  bool InPlaceAllowed(const Instruction& instruction, int32_t input, int32_t output) const {
    const ProgramValue& in = program_.values[input];
    const ProgramValue& out = program_.values[output];
    if (in.type != out.type || !IsRowMajor(in.type.shape, in.strides) ||
        !IsRowMajor(out.type.shape, out.strides)) {
      return false;
    }
    // Only one of its inputs may touch that memory.
    int touching = 0;
    int position = -1;
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      if (Root(instruction.inputs[i]) == Root(input)) {
        ++touching;
        position = static_cast<int>(i);
      }
    }
    if (touching != 1 || instruction.inputs[position] != input) return false;
    const PlannedKernel& planned = program_.KernelOf(instruction);
    const KernelRequest& request = planned.request;
    if (!request.epilogues.empty()) return false;
    for (const auto& [from, to] :
         planned.op->InPlace({request.inputs, request.outputs, request.attributes})) {
      if (from == position && instruction.outputs[to] == output) return true;
    }
    return false;
  }

  // If a state cannot be updated in place, a copy at the end of the step brings it there.
  absl::Status SettleStates() {
    FindLiveRanges();
    for (ProgramState& state : program_.states) {
      if (state.updated == state.input) continue;
      if (CanUpdateInPlace(state)) {
        claimed_.insert(state.updated);
        continue;
      }
      ProgramValue kept = program_.values[state.updated];
      kept.path = absl::StrCat(state.path, ".kept");
      kept.role = state.role;
      kept.root = static_cast<int32_t>(program_.values.size());
      kept.root_offset = 0;
      kept.strides = RowMajorStrides(kept.type.shape);
      const int32_t target = kept.root;
      program_.values.push_back(std::move(kept));
      ASSIGN_OR_RETURN(Instruction copy,
                       CopyInstruction(program_, kernels_, state.updated, target, Phase::kUpdate));
      state.updated = target;
      claimed_.insert(target);
      program_.instructions.push_back(std::move(copy));
    }
    return absl::OkStatus();
  }

  int32_t AddBuffer(int32_t root, Category category, int32_t first, int32_t last) {
    Buffer buffer;
    buffer.path = program_.values[root].path;
    buffer.bytes = NumBytes(program_.values[root].type);
    buffer.category = category;
    buffer.first = first;
    buffer.last = last;
    program_.buffers.push_back(std::move(buffer));
    program_.values[root].buffer = static_cast<int32_t>(program_.buffers.size()) - 1;
    return program_.values[root].buffer;
  }

  Category CategoryOf(int32_t root) const {
    const ProgramValue& value = program_.values[root];
    if (value.role == Role::kGradient || value.role == Role::kActivation) {
      // The share of one micro-batch has the micro-batch behind the path.
      absl::string_view path = value.path;
      path = path.substr(0, path.find('@'));
      if (absl::EndsWith(path, ".grad") &&
          parameters_.contains(std::string(path.data(), path.size() - 5))) {
        return Category::kGradients;
      }
    }
    return Category::kActivations;
  }

  void AssignStatesAndInputs() {
    for (const ProgramState& state : program_.states) {
      const Category category = state.role == Role::kParameter ? Category::kParameters
                                : state.role == Role::kCache   ? Category::kCache
                                                               : Category::kOptimizerState;
      if (state.role == Role::kParameter) parameters_.insert(state.path);
      const int32_t root = Root(state.input != kNone ? state.input : state.updated);
      const int32_t buffer = AddBuffer(root, category, -1, count());
      program_.buffers[buffer].path = state.path;
      program_.buffers[buffer].state = state.role != Role::kCache;
      program_.values[Root(state.updated)].buffer = buffer;
    }
    for (const NamedValue& input : program_.inputs) {
      const int32_t root = Root(input.value);
      AddBuffer(root, Category::kInputs, -1, std::max(last_[root], -1));
    }
  }

  void AssignOutputs(int32_t i) {
    const Instruction& instruction = program_.instructions[i];
    for (int32_t output : instruction.outputs) {
      const int32_t root = Root(output);
      if (program_.values[root].buffer != kNone) continue;
      const int32_t reused = root == output ? InPlaceBuffer(instruction, output, i) : kNone;
      if (reused != kNone) {
        program_.values[root].buffer = reused;
        Buffer& buffer = program_.buffers[reused];
        buffer.last = std::max(buffer.last, last_[root]);
        if (CategoryOf(root) != buffer.CategoryAt(i)) {
          buffer.changes.push_back({i, CategoryOf(root)});
        }
        continue;
      }
      AddBuffer(root, CategoryOf(root), first_[root], last_[root]);
    }
  }

  // The buffer of an input that ends here and that `output` may take over.
  int32_t InPlaceBuffer(const Instruction& instruction, int32_t output, int32_t i) const {
    if (writers_[output] != 1) return kNone;
    for (int32_t input : instruction.inputs) {
      const int32_t root = Root(input);
      const int32_t buffer = program_.values[root].buffer;
      if (last_[root] != i || buffer == kNone || program_.buffers[buffer].last != i) continue;
      const Category category = program_.buffers[buffer].category;
      if (program_.buffers[buffer].state || category == Category::kCache ||
          category == Category::kInputs) {
        continue;
      }
      // All of the buffer, not a part of something larger.
      if (NumBytes(program_.values[root].type) != NumBytes(program_.values[output].type)) continue;
      if (InPlaceAllowed(instruction, input, output)) return buffer;
    }
    return kNone;
  }

  void AssignWorkspaces() {
    for (PlannedKernel& planned : program_.kernels) {
      planned.workspace_bytes = chooser_.WorkspaceBytes(planned);
    }
    for (int32_t i = 0; i < count(); ++i) {
      Instruction& instruction = program_.instructions[i];
      const int64_t bytes = program_.KernelOf(instruction).workspace_bytes;
      if (bytes == 0) continue;
      Buffer buffer;
      buffer.path = absl::StrCat(instruction.path, ".workspace");
      buffer.bytes = bytes;
      buffer.category = Category::kWorkspace;
      buffer.first = buffer.last = i;
      instruction.workspace = static_cast<int32_t>(program_.buffers.size());
      program_.buffers.push_back(std::move(buffer));
    }
  }

  KernelChooser& chooser_;
  KernelTable kernels_;
  Program& program_;
  std::vector<int32_t> first_, last_;     // by root: instructions
  std::vector<int32_t> writers_;          // by root: how many instructions write it
  absl::flat_hash_set<int32_t> claimed_;  // values that lie in a state's buffer
  absl::flat_hash_set<std::string> parameters_;
};

}  // namespace

absl::Status AssignBuffers(KernelChooser& chooser, Program& program) {
  return Assignment(chooser, program).Run();
}

}  // namespace tessera
