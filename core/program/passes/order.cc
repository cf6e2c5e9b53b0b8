// The order in which a Graph was recorded has three faults. It keeps values live longer than
// needed: a gradient that could be added to its sum at once waits for the rest of the backward
// pass. It starts the reduction of some gradients late: a weight that is reshaped before it is used
// is reduced at the position where the Graph reshapes its gradient, after other gradients. And it
// reads reduced gradients in the order of the parameters; in the order of the reductions, the
// readers would overlap with later reductions.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/program/hazards/dependencies.h"
#include "core/program/passes/pass.h"
#include "core/program/stream_names.h"
#include "core/status/check.h"

namespace tessera {
namespace {

class Scheduler {
 public:
  explicit Scheduler(Program& program) : program_(program) {}

  void Run() {
    const size_t count = program_.instructions.size();
    FindSuccessors();
    CountReaders();
    reduction_.assign(count, 0);
    scheduled_.assign(count, false);
    for (size_t i = 0; i < count; ++i) {
      if (waiting_[i] == 0) MakeReady(static_cast<int32_t>(i));
    }
    std::vector<Instruction> ordered;
    ordered.reserve(count);
    while (ordered.size() < count) {
      TESSERA_CHECK(!ready_.empty()) << "the program's dependencies form a circle";
      const int32_t next = Next();
      ready_.erase(next);
      freeing_.erase(next);
      reductions_.erase(next);
      after_reduction_.erase({reduction_[next], next});
      if (IsReduction(next)) ++reductions_run_;
      scheduled_[next] = true;
      for (int32_t buffer : buffers_read_[next]) {
        if (--unread_[buffer] == 1) Reconsider(buffer);
      }
      for (int32_t after : successors_[next]) {
        if (IsReduction(next)) reduction_[after] = reductions_run_;
        if (--waiting_[after] == 0) MakeReady(after);
      }
      ordered.push_back(std::move(program_.instructions[next]));
    }
    program_.instructions = std::move(ordered);
  }

 private:
  using Pairs = std::vector<std::pair<int32_t, int32_t>>;

  void FindSuccessors() {
    const IndexLists predecessors = Predecessors(program_);
    const size_t count = program_.instructions.size();
    waiting_.resize(count);
    Pairs successors;
    for (size_t i = 0; i < count; ++i) {
      waiting_[i] = static_cast<int32_t>(predecessors[i].size());
      for (int32_t before : predecessors[i]) {
        successors.emplace_back(before, static_cast<int32_t>(i));
      }
    }
    successors_ = IndexLists(count, successors);
  }

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
    Pairs read, readers;
    absl::InlinedVector<int32_t, 16> once;
    for (size_t i = 0; i < count; ++i) {
      once.clear();
      for (int32_t id : program_.instructions[i].inputs) {
        const int32_t buffer = BufferOf(id);
        if (std::find(once.begin(), once.end(), buffer) == once.end()) once.push_back(buffer);
      }
      for (int32_t buffer : once) {
        ++unread_[buffer];
        read.emplace_back(static_cast<int32_t>(i), buffer);
        readers.emplace_back(buffer, static_cast<int32_t>(i));
      }
    }
    buffers_read_ = IndexLists(count, read);
    readers_ = IndexLists(buffers, readers);
  }

  // Returns the bytes that running instruction i now would free, minus those that it takes.
  int64_t Gain(int32_t i) const {
    int64_t gain = 0;
    for (int32_t buffer : buffers_read_[i]) {
      if (unread_[buffer] == 1 && !kept_[buffer]) gain += program_.buffers[buffer].bytes;
    }
    for (int32_t id : program_.instructions[i].outputs) {
      if (!kept_[BufferOf(id)]) gain -= NumBytes(program_.values[id].type);
    }
    return gain;
  }

  // Returns whether instruction i reduces gradients; such a reduction overlaps with later
  // computation.
  bool IsReduction(int32_t i) const {
    const Instruction& instruction = program_.instructions[i];
    return instruction.kind == InstructionKind::kCollective &&
           program_.streams[instruction.stream] == kGradientStream;
  }

  int32_t Next() const {
    if (!reductions_.empty()) return *reductions_.begin();
    if (!freeing_.empty()) return *freeing_.begin();
    const int32_t first = *ready_.begin();
    return reduction_[first] == 0 ? first : after_reduction_.begin()->second;
  }

  void MakeReady(int32_t i) {
    ready_.insert(i);
    if (IsReduction(i)) reductions_.insert(i);
    if (reduction_[i] > 0) after_reduction_.insert({reduction_[i], i});
    if (Gain(i) > 0) freeing_.insert(i);
  }

  // Called when only one reader of the buffer is left: running that reader would free the buffer.
  void Reconsider(int32_t buffer) {
    for (int32_t reader : readers_[buffer]) {
      if (!scheduled_[reader]) {
        if (ready_.count(reader) > 0 && Gain(reader) > 0) freeing_.insert(reader);
        return;
      }
    }
  }

  int32_t BufferOf(int32_t value) const { return program_.values[value].buffer; }

  Program& program_;
  IndexLists successors_;
  std::vector<int32_t> waiting_;  // predecessors that have not been scheduled
  IndexLists readers_;            // by buffer
  IndexLists buffers_read_;       // by instruction, each once
  std::vector<int32_t> unread_;   // by buffer: readers that have not been scheduled
  std::vector<bool> kept_;        // by buffer: not freed within the step
  int32_t reductions_run_ = 0;
  std::vector<int32_t> reduction_;  // the last reduction that an instruction waits for; 0: none
  std::vector<bool> scheduled_;
  std::set<int32_t> ready_;
  // Subsets of ready_:
  std::set<int32_t> freeing_;
  std::set<int32_t> reductions_;
  std::set<std::pair<int32_t, int32_t>> after_reduction_;  // the reduction, the instruction
};

}  // namespace

absl::Status OrderPass(KernelChooser& chooser, Program& program) {
  Scheduler(program).Run();
  return absl::OkStatus();
}

}  // namespace tessera
