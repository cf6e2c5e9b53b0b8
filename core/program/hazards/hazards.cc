#include "core/program/hazards/hazards.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/ids/table.h"
#include "core/program/hazards/buffer_contents.h"
#include "core/program/hazards/last_users.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::Status VisitDataHazards(const Program& program,
                              const std::function<void(InstructionId)>& begin,
                              const HazardVisitor& visit) {
  if (program.streams.size() == 1) return absl::OkStatus();
  Table<BufferId, BufferContents> contents(program.buffers.size());
  Table<ProgramValueId, InstructionId> writer(program.values.size(), kNone);
  const ValueBytes bytes_of(program);
  // Inputs and states have readers too, though no instruction writes them first.
  const auto add_initial = [&](ProgramValueId id) {
    contents[program.values[id].buffer].Write(id, kNone, bytes_of.Of(id));
  };
  for (const NamedValue& input : program.inputs) add_initial(input.value);
  for (const ProgramState& state : program.states) {
    if (state.input != kNone) add_initial(state.input);
  }
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    begin(i);
    const auto require = [&](Hazard::Kind kind, ProgramValueId value, InstructionId earlier) {
      if (earlier == kNone || earlier == i ||
          program.instructions[earlier].stream == instruction.stream) {
        return absl::OkStatus();
      }
      return visit({kind, i, earlier, value});
    };
    absl::Status status;
    for (const ProgramValueId id : instruction.after) {
      RETURN_IF_ERROR(require(Hazard::Kind::kOrder, id, writer[id]));
    }
    for (const ProgramValueId id : instruction.inputs) {
      const StridedRange bytes = bytes_of.Of(id);
      contents[program.values[id].buffer].ForEachNear(bytes, [&](BufferContents::Entry& entry) {
        if (StridedRange::CommonElements(entry.bytes, bytes) == 0) return;
        status.Update(require(Hazard::Kind::kRead, id, entry.writer));
        entry.AddReader({instruction.stream, i});
      });
    }
    for (const ProgramValueId id : instruction.outputs) {
      const StridedRange bytes = bytes_of.Of(id);
      BufferContents& buffer = contents[program.values[id].buffer];
      buffer.ForEachNear(bytes, [&](BufferContents::Entry& entry) {
        if (StridedRange::CommonElements(entry.bytes, bytes) == 0) return;
        status.Update(require(Hazard::Kind::kOverwrite, id, entry.writer));
        for (const BufferContents::Reader& reader : entry.readers) {
          status.Update(require(Hazard::Kind::kOverwrite, id, reader.instruction));
        }
      });
      buffer.Write(id, i, bytes);
      writer[id] = i;
    }
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status VisitReuseHazards(const Program& program,
                               const std::function<void(InstructionId)>& begin,
                               const HazardVisitor& visit) {
  const size_t streams = program.streams.size();
  if (streams == 1) return absl::OkStatus();
  BySpace<LastUsers<BufferId>> users;  // of the memory
  // By buffer and stream: the last use of the buffer, and the last use of the buffers that had its
  // memory before.
  std::vector<InstructionId> last_use(program.buffers.size() * streams);
  std::vector<InstructionId> previous_use(program.buffers.size() * streams);
  Table<BufferId, bool> begun(program.buffers.size(), false);
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    begin(i);
    absl::Status status;
    ForEachBuffer(program, instruction, [&](BufferId b) {
      const Buffer& buffer = program.buffers[b];
      if (buffer.bytes == 0) return;
      InstructionId* const previous = &previous_use[b.index() * streams];
      if (!begun[b]) {
        begun[b] = true;
        const auto visit = [&](BufferId other) {
          for (size_t s = 0; s < streams; ++s) {
            previous[s] = std::max(previous[s], last_use[other.index() * streams + s]);
          }
        };
        users[buffer.space].Use(buffer.offset, buffer.offset + buffer.bytes, b, visit);
      }
      InstructionId& last = last_use[b.index() * streams + instruction.stream.index()];
      if (last == kNone) {  // the first use on this stream
        for (const StreamId s : program.streams.ids()) {
          const InstructionId earlier = previous[s.index()];
          if (earlier == kNone || s == instruction.stream) continue;
          status.Update(visit({Hazard::Kind::kReuse, i, earlier, kNone, b}));
        }
      }
      last = i;
    });
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace tessera
