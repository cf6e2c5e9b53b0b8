#include "core/program/memory/assign_buffers.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/program/hazards/hazards.h"
#include "core/program/hazards/in_place.h"
#include "core/program/hazards/waits.h"
#include "core/program/kernels/copy_instruction.h"
#include "core/program/kernels/workspaces.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Decides which buffers of a lowered Program share memory: an output may take over the buffer of an
// input, an updated state that of its input value. Also plans workspaces and waits.
class Assignment {
 public:
  Assignment(KernelChooser& chooser, Program& program)
      : chooser_(chooser), kernels_(&chooser, &program), program_(program) {}

  absl::Status Run() {
    MoveCollectiveOperandsToSharedMemory();
    RETURN_IF_ERROR(UpdateStatesInTheirBuffers());
    FindLiveRanges();
    target_.assign(program_.buffers.size(), kNone);
    AssignStatesAndInputs();
    for (const InstructionId i : program_.instructions.ids()) AssignOutputs(i);
    for (ProgramValue& value : program_.values) {
      // A plugin may have left a value that no instruction uses without a buffer.
      if (value.buffer != kNone) value.buffer = target_[value.buffer];
    }
    program_.buffers = std::move(assigned_);
    AddDataWaits(program_);
    KeepBuffersUntilWaited(program_);
    DropUnusedKernels(program_);
    chooser_.ChooseRecorded(program_);
    RETURN_IF_ERROR(PlanWorkspaces(chooser_, program_));
    AssignWorkspaces();
    return absl::OkStatus();
  }

 private:
  BufferId BufferOf(ProgramValueId value) const { return program_.values[value].buffer; }
  int32_t count() const { return program_.instructions.end_id().index(); }

  void MoveCollectiveOperandsToSharedMemory() {
    for (const Instruction& instruction : program_.instructions) {
      if (!program_.Communicates(instruction)) continue;
      ForEachBuffer(program_, instruction, [this](BufferId buffer) {
        MemorySpace& space = program_.buffers[buffer].space;
        if (space == MemorySpace::kDevice) space = MemorySpace::kShared;
      });
    }
  }

  // Returns whether two buffers may be merged. If one of them is shared memory, the result is, too.
  static bool CanMerge(const Buffer& a, const Buffer& b) {
    const auto reached_by_kernels = [](const Buffer& buffer) {
      return buffer.space == MemorySpace::kDevice || buffer.space == MemorySpace::kShared;
    };
    return a.space == b.space || (reached_by_kernels(a) && reached_by_kernels(b));
  }
  // Sets the memory space of `kept` to one that suits both buffers. CanMerge() must hold.
  static void MergeSpace(Buffer& kept, const Buffer& joined) {
    if (joined.space == MemorySpace::kShared) kept.space = MemorySpace::kShared;
  }

  // Sets the first write, the last use and the number of writes of every buffer that lowering has
  // made.
  void FindLiveRanges() {
    first_.assign(program_.buffers.size(), count());
    last_.assign(program_.buffers.size(), -1);
    writers_.assign(program_.buffers.size(), 0);
    for (const InstructionId i : program_.instructions.ids()) {
      for (ProgramValueId id : program_.instructions[i].outputs) {
        first_[BufferOf(id)] = std::min(first_[BufferOf(id)], i.index());
        last_[BufferOf(id)] = std::max(last_[BufferOf(id)], i.index());
        ++writers_[BufferOf(id)];
      }
      for (ProgramValueId id : program_.instructions[i].inputs) {
        last_[BufferOf(id)] = std::max(last_[BufferOf(id)], i.index());
      }
    }
    for (const NamedValue& input : program_.inputs) first_[BufferOf(input.value)] = -1;
    for (const NamedValue& output : program_.outputs) last_[BufferOf(output.value)] = count();
  }

  // Returns whether one instruction writes all of the value's buffer at once.
  bool FillsItsBuffer(ProgramValueId id) const {
    const ProgramValue& value = program_.values[id];
    return value.within == kNone && writers_[value.buffer] == 1 &&
           NumBytes(value.type) == program_.buffers[value.buffer].bytes;
  }

  // Returns whether the updated value of a state can be computed in the bytes of the input value:
  // nothing reads the input later, and the instruction that reads it last allows it.
  bool CanUpdateInPlace(const ProgramState& state) const {
    return FillsItsBuffer(state.updated) && !claimed_.contains(state.updated) &&
           CanOverwrite(state);
  }

  // Returns whether the updated value may be written to the buffer of the input value.
  bool CanOverwrite(const ProgramState& state) const {
    if (state.input == kNone) return true;
    if (!CanMerge(program_.buffers[BufferOf(state.input)],
                  program_.buffers[BufferOf(state.updated)])) {
      return false;
    }
    const int32_t last_read = last_[BufferOf(state.input)];
    const int32_t writer = first_[BufferOf(state.updated)];
    if (last_read < writer) return true;
    if (last_read > writer) return false;
    return InPlaceAllowed(program_.instructions[InstructionId(writer)], state.input, state.updated);
  }

  // Returns whether `instruction` may write `output` in exactly the bytes of `input`.
  bool InPlaceAllowed(const Instruction& instruction, ProgramValueId input,
                      ProgramValueId output) const {
    const ProgramValue& in = program_.values[input];
    const ProgramValue& out = program_.values[output];
    // A slice begins at another address on each rank.
    if (in.type != out.type || in.sliced_from != kNone || in.packed != out.packed ||
        !IsRowMajor(in.type.shape, in.strides) || !IsRowMajor(out.type.shape, out.strides)) {
      return false;
    }
    // Only one of its inputs may touch that memory.
    int inputs_in_buffer = 0;
    int position = -1;
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      if (BufferOf(instruction.inputs[i]) == in.buffer) {
        ++inputs_in_buffer;
        position = static_cast<int>(i);
      }
    }
    if (inputs_in_buffer != 1 || instruction.inputs[position] != input) return false;
    for (const auto& [from, to] : InPlacePairs(program_, instruction)) {
      if (from == position && instruction.outputs[to] == output) return true;
    }
    return false;
  }

  // Has every updated state in a value that fills a buffer of its own, which can become the
  // state's. If a state cannot be updated in place, adds a copy at the end of the step.
  absl::Status UpdateStatesInTheirBuffers() {
    FindLiveRanges();
    for (ProgramState& state : program_.states) {
      if (state.updated == state.input) continue;
      if (program_.values[state.updated].flat != kNone) continue;  // it is in the state's buffer
      if (state.input != kNone && BufferOf(state.updated) == BufferOf(state.input)) continue;
      if (CanUpdateInPlace(state)) {
        claimed_.insert(state.updated);
        continue;
      }
      const ProgramValueId target = program_.values.end_id();
      ProgramValue kept = program_.values[state.updated];
      kept.path = absl::StrCat(state.path, ".kept");
      kept.role = state.role;
      kept.strides = RowMajorStrides(kept.type.shape);
      kept.buffer = program_.buffers.end_id();
      kept.offset = 0;
      kept.within = kNone;
      kept.gradient_of = kNone;
      kept.sliced_from = kNone;
      Buffer buffer;
      buffer.path = kept.path;
      buffer.bytes = NumBytes(kept.type);
      if (state.input != kNone) buffer.space = program_.buffers[BufferOf(state.input)].space;
      program_.buffers.push_back(std::move(buffer));
      program_.values.push_back(std::move(kept));
      ASSIGN_OR_RETURN(Instruction copy,
                       CopyInstruction(program_, kernels_, state.updated, target, Phase::kUpdate));
      state.updated = target;
      claimed_.insert(target);
      program_.instructions.push_back(std::move(copy));
    }
    return absl::OkStatus();
  }

  // Moves a buffer that lowering has made to the kept ones, with its category and live range.
  // Returns its new id.
  BufferId KeepBuffer(BufferId lowered, Category category, int32_t first, int32_t last) {
    Buffer buffer = std::move(program_.buffers[lowered]);  // its numbers stay, its path goes
    buffer.category = category;
    buffer.first = first;
    buffer.last = last;
    return target_[lowered] = assigned_.push_back(std::move(buffer));
  }

  Category CategoryOf(ProgramValueId tensor) const {
    const ProgramValue& value = program_.values[tensor];
    if (value.gradient_of != kNone) return Category::kGradients;
    if (value.role == Role::kParameter) return Category::kParameters;
    if (value.role == Role::kOptimizerState) return Category::kOptimizerState;
    if (value.role == Role::kRunningStatistic) return Category::kRunningStatistics;
    return Category::kActivations;
  }

  // Keeps the buffers of states and inputs, which are live from before the step. An updated state
  // gets the buffer of its input value.
  void AssignStatesAndInputs() {
    for (const ProgramState& state : program_.states) {
      const Category category = state.role == Role::kParameter ? Category::kParameters
                                : state.role == Role::kCache   ? Category::kCache
                                : state.role == Role::kRunningStatistic
                                    ? Category::kRunningStatistics
                                    : Category::kOptimizerState;
      const ProgramValueId value = state.input != kNone ? state.input : state.updated;
      BufferId buffer = target_[BufferOf(value)];
      if (buffer == kNone) {  // otherwise another member of its flat group has set it
        buffer = KeepBuffer(BufferOf(value), category, -1, count());
        if (program_.values[value].flat == kNone) assigned_[buffer].path = state.path;
        assigned_[buffer].state = state.role != Role::kCache;
      }
      target_[BufferOf(state.updated)] = buffer;
      MergeSpace(assigned_[buffer], program_.buffers[BufferOf(state.updated)]);
    }
    for (const NamedValue& input : program_.inputs) {
      const BufferId buffer = BufferOf(input.value);
      KeepBuffer(buffer, Category::kInputs, -1, last_[buffer]);
    }
  }

  // Lets each output of an instruction take over a buffer that is free, or keeps its own.
  void AssignOutputs(InstructionId i) {
    const Instruction& instruction = program_.instructions[i];
    for (ProgramValueId output : instruction.outputs) {
      const BufferId lowered = BufferOf(output);
      if (target_[lowered] != kNone) continue;
      const Category category = CategoryOf(program_.TensorOf(output));
      const BufferId reused = ReusableBuffer(instruction, output, i);
      if (reused == kNone) {
        KeepBuffer(lowered, category, first_[lowered], last_[lowered]);
        continue;
      }
      target_[lowered] = reused;
      Buffer& buffer = assigned_[reused];
      MergeSpace(buffer, program_.buffers[lowered]);
      buffer.last = std::max(buffer.last, last_[lowered]);
      if (category != buffer.CategoryAt(i.index())) buffer.changes.push_back({i.index(), category});
    }
  }

  // Returns the buffer of an input that nothing reads after instruction i, and that the output may
  // overwrite; kNone if there is none.
  BufferId ReusableBuffer(const Instruction& instruction, ProgramValueId output,
                          InstructionId i) const {
    if (!FillsItsBuffer(output)) return kNone;
    for (ProgramValueId input : instruction.inputs) {
      const BufferId lowered = BufferOf(input);
      const BufferId buffer = target_[lowered];
      if (last_[lowered] != i.index() || buffer == kNone || assigned_[buffer].last != i.index())
        continue;
      const Category category = assigned_[buffer].category;
      if (assigned_[buffer].state || category == Category::kCache ||
          category == Category::kInputs ||
          !CanMerge(assigned_[buffer], program_.buffers[BufferOf(output)])) {
        continue;
      }
      // The output must take all of the buffer, not a part of something larger.
      if (program_.buffers[lowered].bytes != NumBytes(program_.values[output].type)) continue;
      if (InPlaceAllowed(instruction, input, output)) return buffer;
    }
    return kNone;
  }

  // Adds a buffer for each kernel's workspace, live while the kernel runs.
  void AssignWorkspaces() {
    for (const InstructionId i : program_.instructions.ids()) {
      Instruction& instruction = program_.instructions[i];
      if (instruction.kind != InstructionKind::kKernel) continue;
      const int64_t bytes = program_.KernelOf(instruction).workspace_bytes;
      if (bytes == 0) continue;
      Buffer buffer;
      buffer.path = absl::StrCat(instruction.path, ".workspace");
      buffer.bytes = bytes;
      buffer.category = Category::kWorkspace;
      buffer.first = buffer.last = i.index();
      instruction.workspace = program_.buffers.push_back(std::move(buffer));
    }
  }

  KernelChooser& chooser_;
  KernelTable kernels_;
  Program& program_;
  // By buffer that lowering has made:
  Table<BufferId, int32_t> first_, last_;  // the times of its first write and its last use
  Table<BufferId, int32_t> writers_;       // the number of its values that are written
  Table<BufferId, BufferId> target_;       // its id among the kept buffers

  Table<BufferId, Buffer> assigned_;             // the kept buffers
  absl::flat_hash_set<ProgramValueId> claimed_;  // values that are in a state's buffer
};

}  // namespace

absl::Status AssignBuffers(KernelChooser& chooser, Program& program) {
  return Assignment(chooser, program).Run();
}

}  // namespace tessera
