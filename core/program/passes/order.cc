// The order in which a Graph was recorded has four faults. It keeps values live longer than needed:
// a gradient that could be added to its sum at once waits for the rest of the backward pass. It
// starts the reduction of some gradients late: a weight that is reshaped before it is used is
// reduced at the position where the Graph reshapes its gradient, after other gradients. It reads
// reduced gradients in the order of the parameters; in the order of the reductions, the readers
// would overlap with later reductions. And it adds a reduced gradient to its sum at once: all
// computation behind that waits for the reduction.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "core/ids/table.h"
#include "core/program/hazards/dependencies.h"
#include "core/program/passes/pass.h"
#include "core/program/stream_names.h"
#include "core/status/check.h"

namespace tessera {
namespace {

// A reduction is recent until so many later ones have begun.
constexpr int32_t kRecent = 2;

// Orders the instructions again, one after another: reductions of gradients first, then
// instructions that free memory, then readers of reduced gradients in the order of the reductions;
// else the recorded order. Readers of a recent reduction run when nothing else can, or right before
// an instruction that has to wait for it anyway: gradients in flight are limited so, and what reads
// them frees their memory.
class Scheduler {
 public:
  explicit Scheduler(Program& program) : program_(program) {}

  void Run() {
    const size_t count = program_.instructions.size();
    FindSuccessors();
    CountReaders();
    reduction_.assign(count, 0);
    has_edge_.assign(count, false);
    scheduled_.assign(count, false);
    for (const InstructionId i : program_.instructions.ids()) {
      if (waiting_[i] == 0) MakeReady(i);
    }
    Table<InstructionId, Instruction> ordered;
    ordered.reserve(count);
    while (ordered.size() < count) {
      TESSERA_CHECK(!ready_.empty() || !deferred_.empty())
          << "the program's dependencies form a circle";
      const InstructionId next = ChooseNext();
      ready_.erase(next);
      freeing_.erase(next);
      reductions_.erase(next);
      after_reduction_.erase({reduction_[next], next});
      deferred_.erase({reduction_[next], next});
      if (IsReduction(next)) BeginReduction();
      scheduled_[next] = true;
      for (BufferId buffer : buffers_read_[next]) {
        if (--unread_[buffer] == 1) MarkLastReader(buffer);
      }
      for (InstructionId after : successors_[next]) {
        if (IsReduction(next)) SetReduction(next, after);
        if (--waiting_[after] == 0) MakeReady(after);
      }
      ordered.push_back(std::move(program_.instructions[next]));
    }
    program_.instructions = std::move(ordered);
  }

 private:
  // Sets successors_ and waiting_.
  void FindSuccessors() {
    const auto predecessors = Predecessors(program_);
    const size_t count = program_.instructions.size();
    waiting_.resize(count);
    std::vector<std::pair<InstructionId, InstructionId>> successors;
    for (const InstructionId i : program_.instructions.ids()) {
      waiting_[i] = static_cast<int32_t>(predecessors[i].size());
      for (InstructionId before : predecessors[i]) {
        successors.emplace_back(before, i);
      }
    }
    successors_ = {count, successors};
  }

  // Sets, by buffer, its readers, their number, and whether the buffer outlives the step.
  void CountReaders() {
    const size_t count = program_.instructions.size();
    const size_t buffers = program_.buffers.size();
    kept_.assign(buffers, false);
    for (const NamedValue& input : program_.inputs) kept_[BufferOf(input.value)] = true;
    for (const NamedValue& output : program_.outputs) kept_[BufferOf(output.value)] = true;
    for (const ProgramState& state : program_.states) {
      if (state.input != kNone) kept_[BufferOf(state.input)] = true;
      kept_[BufferOf(state.updated)] = true;
    }
    unread_.assign(buffers, 0);
    std::vector<std::pair<InstructionId, BufferId>> read;
    std::vector<std::pair<BufferId, InstructionId>> readers;
    absl::InlinedVector<BufferId, 16> distinct;  // buffers that an instruction reads
    for (const InstructionId i : program_.instructions.ids()) {
      distinct.clear();
      for (ProgramValueId id : program_.instructions[i].inputs) {
        const BufferId buffer = BufferOf(id);
        if (std::find(distinct.begin(), distinct.end(), buffer) == distinct.end())
          distinct.push_back(buffer);
      }
      for (BufferId buffer : distinct) {
        ++unread_[buffer];
        read.emplace_back(i, buffer);
        readers.emplace_back(buffer, i);
      }
    }
    buffers_read_ = {count, read};
    readers_ = {buffers, readers};
  }

  // Returns the bytes that running instruction i now would free, minus those that it takes.
  int64_t FreedBytes(InstructionId i) const {
    int64_t freed = 0;
    for (BufferId buffer : buffers_read_[i]) {
      if (unread_[buffer] == 1 && !kept_[buffer]) freed += program_.buffers[buffer].bytes;
    }
    for (ProgramValueId id : program_.instructions[i].outputs) {
      if (!kept_[BufferOf(id)]) freed -= NumBytes(program_.values[id].type);
    }
    return freed;
  }

  // Returns whether instruction i reduces gradients; such a reduction overlaps with later
  // computation.
  bool IsReduction(InstructionId i) const {
    const Instruction& instruction = program_.instructions[i];
    return instruction.kind == InstructionKind::kCollective &&
           program_.streams[instruction.stream] == kGradientStream;
  }

  // Returns the instruction to schedule next, of those that can run.
  InstructionId ChooseNext() const {
    if (!reductions_.empty()) return *reductions_.begin();
    if (ready_.empty()) return deferred_.begin()->second;
    const InstructionId next = ChooseReady();
    const bool waits = !deferred_.empty() && deferred_.begin()->first <= reduction_[next];
    return waits ? deferred_.begin()->second : next;
  }

  InstructionId ChooseReady() const {
    if (!freeing_.empty()) return *freeing_.begin();
    const InstructionId first = *ready_.begin();
    return reduction_[first] == 0 ? first : after_reduction_.begin()->second;
  }

  // Adds an instruction, all of whose predecessors are scheduled, to those that can run.
  void MakeReady(InstructionId i) {
    if (IsReduction(i)) reductions_.insert(i);
    if (reduction_[i] > 0) after_reduction_.insert({reduction_[i], i});
    if (reduction_[i] > 0 && !has_edge_[i] && IsRecent(reduction_[i])) {
      deferred_.insert({reduction_[i], i});
    } else {
      MakeEligible(i);
    }
  }

  void MakeEligible(InstructionId i) {
    ready_.insert(i);
    if (FreedBytes(i) > 0) freeing_.insert(i);
  }

  bool IsRecent(int32_t reduction) const { return reduction > reductions_run_ - kRecent; }

  void BeginReduction() {
    ++reductions_run_;
    while (!deferred_.empty() && !IsRecent(deferred_.begin()->first)) {
      MakeEligible(deferred_.begin()->second);
      deferred_.erase(deferred_.begin());
    }
  }

  // Notes the last reduction that an instruction waits for.
  void SetReduction(InstructionId reduction, InstructionId after) {
    reduction_[after] = reductions_run_;
    const Operands& edges = program_.instructions[after].after;
    has_edge_[after] = absl::c_linear_search(edges, program_.instructions[reduction].outputs[0]);
  }

  // Adds the last reader of a buffer to the instructions that free memory. Called when only one
  // reader is left: running it would free the buffer.
  void MarkLastReader(BufferId buffer) {
    for (InstructionId reader : readers_[buffer]) {
      if (!scheduled_[reader]) {
        if (ready_.count(reader) > 0 && FreedBytes(reader) > 0) freeing_.insert(reader);
        return;
      }
    }
  }

  BufferId BufferOf(ProgramValueId value) const { return program_.values[value].buffer; }

  Program& program_;
  IndexLists<InstructionId, InstructionId> successors_;
  Table<InstructionId, int32_t> waiting_;  // predecessors that have not been scheduled
  IndexLists<BufferId, InstructionId> readers_;
  IndexLists<InstructionId, BufferId> buffers_read_;  // each once
  Table<BufferId, int32_t> unread_;                   // readers that have not been scheduled
  Table<BufferId, bool> kept_;                        // not freed within the step
  int32_t reductions_run_ = 0;
  // The last reduction that an instruction waits for, counted from 1, or 0; and whether it waits
  // because of an order edge.
  Table<InstructionId, int32_t> reduction_;
  Table<InstructionId, bool> has_edge_;
  Table<InstructionId, bool> scheduled_;
  // Instructions that can run: all but readers of recent reductions; those of them that free
  // memory; reductions; all that waited for a reduction, with the last one; and readers of recent
  // ones.
  std::set<InstructionId> ready_, freeing_, reductions_;
  std::set<std::pair<int32_t, InstructionId>> after_reduction_, deferred_;
};

}  // namespace

absl::Status OrderPass(KernelChooser& chooser, Program& program) {
  Scheduler(program).Run();
  return absl::OkStatus();
}

}  // namespace tessera
