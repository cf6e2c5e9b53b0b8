#include "core/program/collective_waits.h"

#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "core/program/hazards/last_users.h"

namespace tessera {
namespace {

// The bytes that a stream's collectives use, and the last collective that uses each.
class UsedMemory {
 public:
  // Records a collective. Returns the last one of those recorded that writes memory which this one
  // reads or writes, or reads memory which it writes; kNone if there is none.
  InstructionId Add(InstructionId id, const std::vector<ArenaRange>& inputs,
                    const std::vector<ArenaRange>& outputs) {
    InstructionId last;
    const auto visit = [&last, id](InstructionId user) {
      if (user != id) last = std::max(last, user);
    };
    for (const ArenaRange& range : inputs) {
      written_[range.space].ForEachIn(range.begin, range.end, visit);
      read_[range.space].Use(range.begin, range.end, id, [](InstructionId) {});
    }
    for (const ArenaRange& range : outputs) {
      read_[range.space].ForEachIn(range.begin, range.end, visit);
      written_[range.space].Use(range.begin, range.end, id, visit);
    }
    return last;
  }

 private:
  BySpace<LastUsers<InstructionId>> read_, written_;
};

class WaitPlanner {
 public:
  WaitPlanner(const Program& program, absl::FunctionRef<ArenaRange(ProgramValueId)> memory_of)
      : program_(program), memory_of_(memory_of), streams_(program.streams.size()) {}

  CollectiveWaits Plan() {
    CollectiveWaits waits;
    waits.before.resize(program_.instructions.size());
    for (const InstructionId i : program_.instructions.ids()) {
      PlanBefore(i, waits.before[i]);
    }
    for (const Stream& stream : streams_) {
      waits.at_end.insert(waits.at_end.end(), stream.running.begin(), stream.running.end());
    }
    return waits;
  }

 private:
  // The collectives of a stream.
  struct Stream {
    std::vector<InstructionId> running;  // those that were issued and not waited for yet
    UsedMemory memory;                   // of all that were issued
  };

  void PlanBefore(InstructionId i, std::vector<InstructionId>& before) {
    const Instruction& instruction = program_.instructions[i];
    for (const InstructionId earlier : instruction.waits) {
      WaitUpTo(earlier, streams_[program_.instructions[earlier].stream].running, before);
    }
    Stream& stream = streams_[instruction.stream];
    std::vector<InstructionId>& own = stream.running;
    if (!program_.Communicates(instruction)) {
      if (!own.empty()) WaitUpTo(own.back(), own, before);
      return;
    }
    const InstructionId conflict =
        stream.memory.Add(i, RangesOf(instruction.inputs), RangesOf(instruction.outputs));
    // Those that run are of one group, because each of them follows the others by itself.
    if (!own.empty() && (conflict >= own.front() ||
                         !AreOfOneGroup(instruction, program_.instructions[own.back()]))) {
      WaitUpTo(own.back(), own, before);
    }
    own.push_back(i);
  }

  // Moves the collectives of a stream up to `last` from those that run to those to wait for.
  static void WaitUpTo(InstructionId last, std::vector<InstructionId>& running,
                       std::vector<InstructionId>& before) {
    const auto end = absl::c_upper_bound(running, last);
    before.insert(before.end(), running.begin(), end);
    running.erase(running.begin(), end);
  }

  bool AreOfOneGroup(const Instruction& a, const Instruction& b) const {
    return absl::c_is_permutation(program_.collectives[a.collective].mesh_axes,
                                  program_.collectives[b.collective].mesh_axes);
  }

  std::vector<ArenaRange> RangesOf(absl::Span<const ProgramValueId> operands) const {
    std::vector<ArenaRange> ranges;
    for (const ProgramValueId id : operands) ranges.push_back(memory_of_(id));
    return ranges;
  }

  const Program& program_;
  absl::FunctionRef<ArenaRange(ProgramValueId)> memory_of_;
  Table<StreamId, Stream> streams_;
};

// Returns the memory in which any rank has a value.
ArenaRange PlannedMemoryOf(const Program& program, ProgramValueId id) {
  while (program.values[id].sliced_from != kNone) id = program.values[id].sliced_from;
  const ProgramValue& value = program.values[id];
  const Buffer& buffer = program.buffers[value.buffer];
  if (value.flat != kNone) return {buffer.space, buffer.offset, buffer.offset + buffer.bytes};
  const int64_t begin = buffer.offset + value.offset;
  return {buffer.space, begin, begin + NumBytes(value.type)};
}

}  // namespace

CollectiveWaits WaitsForCollectives(const Program& program,
                                    absl::FunctionRef<ArenaRange(ProgramValueId)> memory_of) {
  return WaitPlanner(program, memory_of).Plan();
}

CollectiveWaits WaitsForCollectives(const Program& program) {
  return WaitsForCollectives(
      program, [&program](ProgramValueId id) { return PlannedMemoryOf(program, id); });
}

}  // namespace tessera
