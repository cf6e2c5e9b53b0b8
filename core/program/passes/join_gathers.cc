// The last block of the forward pass is the first one of the backward pass. If its gather for the
// backward pass begins while its parameters are still gathered, this pass removes that gather, and
// the backward pass reads the first one's result. It takes no more memory than the two together.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ids/table.h"
#include "core/program/passes/communication.h"
#include "core/program/passes/parameter_gathers.h"

namespace tessera {
namespace {

// Replaces a gather by an earlier one of the same values whose result is still in use.
class GatherJoiner {
 public:
  explicit GatherJoiner(Program& program)
      : program_(program),
        gathers_(FindParameterGathers(program)),
        gone_(program.instructions.size(), false) {
    CountWrites();
  }

  void Run() {
    std::vector<InstructionId> last_use(gathers_.size());  // by gather, with those joined to it
    for (size_t k = 0; k < gathers_.size(); ++k) {
      last_use[k] = gathers_[k].last_use;
      const std::vector<InstructionId>& instructions = gathers_[k].instructions;
      const int known = FindEarlierGather(k);
      if (known != kNone && last_use[known] >= instructions.front()) {
        Join(k, known);
        last_use[known] = std::max(last_use[known], gathers_[k].last_use);
        continue;
      }
      for (size_t i = 0; i < instructions.size(); ++i) last_of_[KeyOf(k, i)] = static_cast<int>(k);
    }
    if (joined_.empty()) return;
    ReplaceJoined();
    RemoveJoined();
  }

 private:
  // The value that an instruction of a gather reads, and how often its buffer was written before.
  using Key = std::pair<ProgramValueId, int>;

  // Sets versions_: how often the buffer that an instruction reads first was written before.
  void CountWrites() {
    Table<BufferId, int> writes(program_.buffers.size(), 0);
    for (const Instruction& instruction : program_.instructions) {
      const bool reads = !instruction.inputs.empty();
      versions_.push_back(reads ? writes[BufferOf(instruction.inputs[0])] : 0);
      for (const ProgramValueId id : instruction.outputs) ++writes[BufferOf(id)];
    }
  }

  BufferId BufferOf(ProgramValueId value) const { return program_.values[value].buffer; }
  const Instruction& At(size_t k, size_t i) const {
    return program_.instructions[gathers_[k].instructions[i]];
  }
  Key KeyOf(size_t k, size_t i) const {
    return {At(k, i).inputs[0], versions_[gathers_[k].instructions[i]]};
  }

  // Returns the last gather before k that ends with the collectives of k, on the same values; kNone
  // if there is none.
  int FindEarlierGather(size_t k) const {
    const auto found = last_of_.find(KeyOf(k, 0));
    if (found == last_of_.end()) return kNone;
    const size_t known = found->second;
    const size_t count = gathers_[k].instructions.size();
    if (gathers_[known].instructions.size() < count) return kNone;
    const size_t skipped = gathers_[known].instructions.size() - count;
    if (KeyOf(known, skipped) != KeyOf(k, 0)) return kNone;
    for (size_t i = 0; i < count; ++i) {
      const Instruction &a = At(known, skipped + i), &b = At(k, i);
      if (a.kind != InstructionKind::kCollective || a.kind != b.kind) return kNone;
      if (a.collective != b.collective) return kNone;
      if (i > 0 && !HaveSamePosition(a.inputs[0], b.inputs[0])) return kNone;
      const ProgramValue& from = program_.values[a.outputs[0]];
      const ProgramValue& to = program_.values[b.outputs[0]];
      if (from.within != kNone || to.within != kNone || from.type != to.type ||
          from.strides != to.strides) {
        return kNone;
      }
    }
    return static_cast<int>(known);
  }

  // Returns whether two values are the same elements of their tensors.
  bool HaveSamePosition(ProgramValueId a, ProgramValueId b) const {
    const auto offset = [this](ProgramValueId id) {
      return program_.values[id].offset - program_.values[program_.TensorOf(id)].offset;
    };
    const ProgramValue &first = program_.values[a], &second = program_.values[b];
    return offset(a) == offset(b) && first.type == second.type && first.strides == second.strides &&
           first.part == second.part && first.flat == second.flat;
  }

  // Marks the instructions of gather k as gone, and their results as those of the last instructions
  // of gather `known`.
  void Join(size_t k, size_t known) {
    const size_t count = gathers_[k].instructions.size();
    const size_t skipped = gathers_[known].instructions.size() - count;
    for (size_t i = 0; i < count; ++i) {
      joined_[At(k, i).outputs[0]] = At(known, skipped + i).outputs[0];
      gone_[gathers_[k].instructions[i]] = true;
    }
  }

  // Lets the readers of joined gathers read the results of the earlier ones.
  void ReplaceJoined() {
    const auto replace = [this](ProgramValueId& value) {
      const auto found = joined_.find(value);
      if (found != joined_.end()) value = found->second;
    };
    for (ProgramValue& value : program_.values) {
      const ProgramValueId tensor = value.within;
      replace(value.within);
      replace(value.sliced_from);
      if (value.within == tensor) continue;
      value.buffer = BufferOf(value.within);
      value.offset += program_.values[value.within].offset - program_.values[tensor].offset;
    }
    for (Instruction& instruction : program_.instructions) {
      for (ProgramValueId& id : instruction.inputs) replace(id);
      for (ProgramValueId& id : instruction.after) replace(id);
    }
    for (NamedValue& output : program_.outputs) replace(output.value);
  }

  void RemoveJoined() {
    InstructionId kept(0);
    for (const InstructionId i : gone_.ids()) {
      if (gone_[i]) continue;
      if (kept != i) program_.instructions[kept] = std::move(program_.instructions[i]);
      ++kept;
    }
    program_.instructions.resize(kept - InstructionId(0));
  }

  Program& program_;
  const std::vector<ParameterGather> gathers_;
  Table<InstructionId, int> versions_;  // see Key
  absl::flat_hash_map<Key, int> last_of_;
  absl::flat_hash_map<ProgramValueId, ProgramValueId>
      joined_;  // by result: the one that is read instead
  Table<InstructionId, bool> gone_;
};

}  // namespace

void JoinGathers(Program& program) { GatherJoiner(program).Run(); }

}  // namespace tessera
