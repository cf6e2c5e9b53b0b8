#include "core/program/collective_waits.h"

#include "absl/algorithm/container.h"

namespace tessera {
namespace {

bool Overlap(const ArenaRange& a, const ArenaRange& b) {
  return a.space == b.space && a.begin < b.end && b.begin < a.end;
}

// The memory of a collective's operands, which are contiguous.
struct Operands {
  std::vector<ArenaRange> inputs, outputs;
};

bool AnyOverlap(const std::vector<ArenaRange>& a, const std::vector<ArenaRange>& b) {
  return absl::c_any_of(a, [&](const ArenaRange& x) {
    return absl::c_any_of(b, [&](const ArenaRange& y) { return Overlap(x, y); });
  });
}

// Returns whether one of two collectives writes memory that the other reads or writes.
bool Conflict(const Operands& a, const Operands& b) {
  return AnyOverlap(a.outputs, b.outputs) || AnyOverlap(a.outputs, b.inputs) ||
         AnyOverlap(a.inputs, b.outputs);
}

class WaitPlanner {
 public:
  WaitPlanner(const Program& program, absl::FunctionRef<ArenaRange(ProgramValueId)> memory_of)
      : program_(program), memory_of_(memory_of), running_(program.streams.size()) {}

  CollectiveWaits Plan() {
    CollectiveWaits waits;
    waits.before.resize(program_.instructions.size());
    for (const InstructionId i : program_.instructions.ids()) {
      PlanBefore(i, waits.before[i]);
    }
    for (const std::vector<Running>& stream : running_) {
      for (const Running& collective : stream) waits.at_end.push_back(collective.id);
    }
    return waits;
  }

 private:
  // A collective that was issued and not waited for yet.
  struct Running {
    InstructionId id;
    Operands operands;
  };

  void PlanBefore(InstructionId i, std::vector<InstructionId>& before) {
    const Instruction& instruction = program_.instructions[i];
    for (const InstructionId earlier : instruction.waits) {
      WaitUpTo(earlier, running_[program_.instructions[earlier].stream], before);
    }
    std::vector<Running>& own = running_[instruction.stream];
    if (!program_.Communicates(instruction)) {
      if (!own.empty()) WaitUpTo(own.back().id, own, before);
      return;
    }
    Running added = {i, OperandsOf(instruction)};
    const bool follows_by_itself = absl::c_all_of(own, [&](const Running& earlier) {
      return AreOfOneGroup(instruction, program_.instructions[earlier.id]) &&
             !Conflict(added.operands, earlier.operands);
    });
    if (!follows_by_itself) WaitUpTo(own.back().id, own, before);
    own.push_back(std::move(added));
  }

  // Moves the collectives of a stream up to `last` from those that run to those to wait for.
  static void WaitUpTo(InstructionId last, std::vector<Running>& stream,
                       std::vector<InstructionId>& before) {
    const auto end =
        absl::c_find_if(stream, [last](const Running& collective) { return collective.id > last; });
    for (auto it = stream.begin(); it != end; ++it) before.push_back(it->id);
    stream.erase(stream.begin(), end);
  }

  bool AreOfOneGroup(const Instruction& a, const Instruction& b) const {
    return absl::c_is_permutation(program_.collectives[a.collective].mesh_axes,
                                  program_.collectives[b.collective].mesh_axes);
  }

  Operands OperandsOf(const Instruction& instruction) const {
    Operands operands;
    for (const ProgramValueId id : instruction.inputs) operands.inputs.push_back(memory_of_(id));
    for (const ProgramValueId id : instruction.outputs) operands.outputs.push_back(memory_of_(id));
    return operands;
  }

  const Program& program_;
  absl::FunctionRef<ArenaRange(ProgramValueId)> memory_of_;
  Table<StreamId, std::vector<Running>> running_;
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
