#include "core/program/verify/verify.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/kernels/interface/backend.h"
#include "core/program/hazards/buffer_contents.h"
#include "core/program/hazards/in_place.h"
#include "core/program/hazards/waits.h"
#include "core/program/verify/verify_operands.h"
#include "core/program/verify/verify_rank_rules.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Runs through a Program and tracks which bytes of each buffer hold which value.
class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program), bytes_(program) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckValues());
    contents_.resize(program_.buffers.size());
    written_.assign(program_.values.size(), false);
    for (const NamedValue& input : program_.inputs) RETURN_IF_ERROR(AddInitialValue(input.value));
    for (const ProgramState& state : program_.states) {
      if (state.input != kNone) RETURN_IF_ERROR(AddInitialValue(state.input));
    }
    for (const InstructionId i : program_.instructions.ids()) {
      RETURN_IF_ERROR(CheckInstruction(i));
    }
    RETURN_IF_ERROR(CheckEnd());
    RETURN_IF_ERROR(CheckOffsets());
    return CheckWaits(program_);
  }

 private:
  absl::Status Error(absl::string_view where, absl::string_view fault) const {
    return absl::InternalError(absl::StrCat("program '", program_.name, "', ", where, ": ", fault));
  }

  // Checks that values are inside their buffers, and values within a tensor inside its bytes.
  absl::Status CheckValues() const {
    for (const ProgramValueId id : program_.values.ids()) {
      const ProgramValue& value = program_.values[id];
      if (value.buffer == kNone) continue;
      const int64_t end = value.offset + ExtentInElements(value.type.shape, value.strides) *
                                             SizeOf(value.type.dtype);
      const bool empty = NumElements(value.type.shape) == 0;  // such a value may lie anywhere
      if (value.offset < 0 || value.offset % SizeOf(value.type.dtype) != 0 ||
          (!empty && end > program_.buffers[value.buffer].bytes)) {
        return Error(value.path,
                     absl::StrCat("does not lie in its buffer, #", value.buffer.index()));
      }
      if (value.within == kNone) continue;
      const ProgramValue& tensor = program_.values[value.within];
      if (tensor.within != kNone || tensor.buffer != value.buffer) {
        return Error(value.path, absl::StrCat("lies within ", tensor.path,
                                              ", which is no tensor of its buffer"));
      }
      if (tensor.type.dtype != value.type.dtype)
        return Error(value.path, "a view of another dtype");
      const StridedRange bytes = BytesOf(id);
      const StridedRange around = BytesOf(value.within);
      if (!empty && (bytes.begin() < around.begin() || bytes.end() > around.end())) {
        return Error(value.path, absl::StrCat("reaches outside of ", tensor.path));
      }
    }
    return absl::OkStatus();
  }

  // Records a value that exists before the first instruction.
  absl::Status AddInitialValue(ProgramValueId id) {
    const ProgramValue& value = program_.values[id];
    if (program_.buffers[value.buffer].first != -1) {
      return Error(value.path, "is set before its buffer is live");
    }
    RETURN_IF_ERROR(MarkWritten([&] { return value.path; }, id));
    contents_[value.buffer].Write(id, kNone, BytesOf(id));
    return absl::OkStatus();
  }

  // Returns text like "instruction 3 (blocks.0.gelu)".
  std::string Name(InstructionId i) const {
    if (i == kNone) return "the start of the step";
    return absl::StrCat("instruction ", i.index(), " (", program_.instructions[i].path, ")");
  }

  // Records that a value was written. No other written value of its tensor may have the same
  // elements.
  template <typename Where>
  absl::Status MarkWritten(const Where& where, ProgramValueId id) {
    const ProgramValue& value = program_.values[id];
    if (written_[id]) return Error(where(), absl::StrCat(value.path, " is written twice"));
    const auto overlap = [&](ProgramValueId other) {
      return Error(where(), absl::StrCat("writes ", value.path, " over elements of ",
                                         program_.values[other].path));
    };
    written_[id] = true;
    if (value.within == kNone) {
      const auto parts = parts_.find(id);
      if (parts == parts_.end() || parts->second.by_end.empty()) return absl::OkStatus();
      return overlap(parts->second.by_end.begin()->second.value);
    }
    Parts& parts = parts_[value.within];
    const StridedRange range = BytesOf(id);
    if (range.elements() == 0) return absl::OkStatus();
    if (written_[value.within]) return overlap(value.within);
    for (auto it = parts.by_end.upper_bound(range.begin()); it != parts.by_end.end(); ++it) {
      if (it->second.begin < range.end()) {
        parts.interleaved = true;
      } else if (!parts.interleaved) {
        break;
      }
      if (StridedRange::CommonElements(BytesOf(it->second.value), range) > 0) {
        return overlap(it->second.value);
      }
    }
    parts.by_end.emplace(range.end(), Part{range.begin(), id});
    return absl::OkStatus();
  }

  absl::Status CheckInstruction(InstructionId i) {
    const Instruction& instruction = program_.instructions[i];
    const auto where = [&] { return Name(i); };
    for (ProgramValueId id : instruction.inputs) RETURN_IF_ERROR(CheckRead(where, i, id));
    for (size_t j = 0; j < instruction.outputs.size(); ++j) {
      RETURN_IF_ERROR(CheckWrite(instruction, i, static_cast<int>(j)));
    }
    if (instruction.workspace != kNone) {
      RETURN_IF_ERROR(CheckLiveRange(where, i, instruction.workspace));
    }
    return absl::OkStatus();
  }

  // `where()` names what touches the buffer: most checks need no name.
  template <typename Where>
  absl::Status CheckLiveRange(const Where& where, InstructionId i, BufferId buffer) const {
    const Buffer& b = program_.buffers[buffer];
    if (i.index() < b.first || i.index() > b.last) {
      return Error(where(), absl::StrCat("touches buffer #", buffer.index(), " (", b.path,
                                         "), which is live in [", b.first, ", ", b.last, "]"));
    }
    return absl::OkStatus();
  }

  // Checks that all bytes of a value hold what was written to it. `where()` names the reader.
  template <typename Where>
  absl::Status CheckRead(const Where& where, InstructionId i, ProgramValueId id) {
    const ProgramValue& value = program_.values[id];
    RETURN_IF_ERROR(CheckLiveRange(where, i, value.buffer));
    const StridedRange bytes = BytesOf(id);
    int64_t held = 0;
    absl::InlinedVector<const BufferContents::Entry*, 4> own, others;
    contents_[value.buffer].ForEachNear(bytes, [&](BufferContents::Entry& entry) {
      const int64_t common = StridedRange::CommonElements(entry.bytes, bytes);
      if (common == 0) return;
      const bool same = program_.TensorOf(entry.value) == program_.TensorOf(id);
      if (same) held += common;
      (same ? own : others).push_back(&entry);
    });
    for (const BufferContents::Entry* other : others) {
      bool overwritten = held < bytes.elements() - bytes_.PaddingIn(value.buffer, bytes);
      for (const BufferContents::Entry* entry : own) {
        overwritten = overwritten || (entry->number < other->number &&
                                      StridedRange::CommonElements(entry->bytes, other->bytes) > 0);
      }
      if (overwritten) {
        return Error(where(),
                     absl::StrCat("reads ", value.path, ", but ", Name(other->writer), " has left ",
                                  program_.values[other->value].path, " in its bytes"));
      }
    }
    if (held < bytes.elements() &&
        held < bytes.elements() - bytes_.PaddingIn(value.buffer, bytes)) {
      return Error(where(), absl::StrCat("reads ", value.path, ", which was not written"));
    }
    return absl::OkStatus();
  }

  // Checks and records a write: it is in the buffer's live range, over no other value of its
  // tensor, and over the instruction's inputs only where the operator works in place.
  absl::Status CheckWrite(const Instruction& instruction, InstructionId i, int j) {
    const ProgramValueId id = instruction.outputs[j];
    const ProgramValue& value = program_.values[id];
    const StridedRange bytes = BytesOf(id);
    const auto where = [&] { return Name(i); };
    RETURN_IF_ERROR(CheckLiveRange(where, i, value.buffer));
    RETURN_IF_ERROR(MarkWritten(where, id));
    for (size_t k = 0; k < instruction.inputs.size(); ++k) {
      const ProgramValue& input = program_.values[instruction.inputs[k]];
      if (input.buffer != value.buffer ||
          StridedRange::CommonElements(BytesOf(instruction.inputs[k]), bytes) == 0) {
        continue;
      }
      if (input.sliced_from != kNone || input.flat != value.flat || input.packed != value.packed ||
          input.offset != value.offset || input.type != value.type ||
          !IsRowMajor(input.type.shape, input.strides) ||
          !IsRowMajor(value.type.shape, value.strides) ||
          !IsInPlacePair(instruction, static_cast<int>(k), j)) {
        return Error(Name(i), absl::StrCat("may not write ", value.path, " over ", input.path));
      }
    }
    absl::Status status;
    contents_[value.buffer].ForEachNear(bytes, [&](BufferContents::Entry& entry) {
      if (entry.writer == i && StridedRange::CommonElements(entry.bytes, bytes) > 0) {
        status = Error(Name(i), absl::StrCat("writes ", value.path, " over its own output ",
                                             program_.values[entry.value].path));
      }
    });
    contents_[value.buffer].Write(id, i, bytes);
    return status;
  }

  // Returns whether an instruction may write its output over its input, given by positions.
  bool IsInPlacePair(const Instruction& instruction, int input, int output) const {
    for (const auto& [from, to] : InPlacePairs(program_, instruction)) {
      if (from == input && to == output) return true;
    }
    return false;
  }

  // Checks what remains after the last instruction: outputs, and states in the bytes of their
  // inputs.
  absl::Status CheckEnd() {
    const InstructionId end = program_.instructions.end_id();
    for (const NamedValue& output : program_.outputs) {
      const auto where = [&] { return absl::StrCat("output ", output.name); };
      RETURN_IF_ERROR(CheckRead(where, end, output.value));
    }
    for (const ProgramState& state : program_.states) {
      const auto where = [&] { return absl::StrCat("state ", state.path); };
      RETURN_IF_ERROR(CheckRead(where, end, state.updated));
      if (state.input == kNone) continue;
      const ProgramValue& input = program_.values[state.input];
      const ProgramValue& updated = program_.values[state.updated];
      if (input.buffer != updated.buffer || input.offset != updated.offset ||
          input.flat != updated.flat || input.packed != updated.packed) {
        return Error(where(), "is updated in other bytes than its input's");
      }
      if (input.part == updated.part) continue;
      const PartRule before = program_.PartOf(input), after = program_.PartOf(updated);
      if (!HoldSameElements(before, after, program_.mesh)) {
        return Error(where(), absl::StrCat("holds ", before.ToString(program_.mesh),
                                           " and is updated to ", after.ToString(program_.mesh)));
      }
    }
    return absl::OkStatus();
  }

  // Checks offsets in a sweep through time that keeps the live buffers sorted by offset.
  absl::Status CheckOffsets() const {
    std::vector<std::vector<BufferId>> begins(program_.instructions.size() + 3);
    std::vector<std::vector<BufferId>> ends(program_.instructions.size() + 3);
    for (const BufferId b : program_.buffers.ids()) {
      const Buffer& buffer = program_.buffers[b];
      const auto where = [&] {
        return absl::StrCat("buffer #", b.index(), " (", buffer.path, ")");
      };
      if (buffer.offset < 0 || buffer.offset % kBufferAlignment != 0 ||
          buffer.offset + buffer.bytes > program_.arenas[buffer.space]) {
        return Error(where(), "does not lie in its arena");
      }
      if (buffer.first > buffer.last) return Error(where(), "ends before it begins");
      begins[buffer.first + 1].push_back(b);
      ends[buffer.last + 2].push_back(b);
    }
    BySpace<std::map<int64_t, BufferId>> live_in;  // by offset
    for (size_t step = 0; step < begins.size(); ++step) {
      for (BufferId b : ends[step]) {
        const Buffer& buffer = program_.buffers[b];
        if (buffer.bytes > 0) live_in[buffer.space].erase(buffer.offset);
      }
      for (BufferId b : begins[step]) {
        const Buffer& buffer = program_.buffers[b];
        if (buffer.bytes == 0) continue;
        std::map<int64_t, BufferId>& live = live_in[buffer.space];
        auto [it, inserted] = live.emplace(buffer.offset, b);
        auto next = std::next(it);
        const bool overlaps_next = next != live.end() && next->first < buffer.offset + buffer.bytes;
        const bool overlaps_previous =
            it != live.begin() &&
            std::prev(it)->first + program_.buffers[std::prev(it)->second].bytes > buffer.offset;
        if (!inserted || overlaps_next || overlaps_previous) {
          const BufferId other = !inserted       ? it->second
                                 : overlaps_next ? next->second
                                                 : std::prev(it)->second;
          return Error(absl::StrCat("buffer #", b.index(), " (", buffer.path, ")"),
                       absl::StrCat("shares bytes with buffer #", other.index(), " (",
                                    program_.buffers[other].path, ") while both are live"));
        }
      }
    }
    return absl::OkStatus();
  }

  // A value that was written as a part of a tensor.
  struct Part {
    int64_t begin;  // in the buffer
    ProgramValueId value;
  };
  struct Parts {
    std::multimap<int64_t, Part> by_end;
    bool interleaved = false;  // some part begins before another one ends
  };

  StridedRange BytesOf(ProgramValueId value) const { return bytes_.Of(value); }

  const Program& program_;
  const ValueBytes bytes_;
  Table<BufferId, BufferContents> contents_;
  Table<ProgramValueId, bool> written_;
  absl::flat_hash_map<ProgramValueId, Parts> parts_;  // by tensor, if it is written part by part
};

}  // namespace

absl::Status VerifyProgram(const Program& program) {
  RETURN_IF_ERROR(VerifyOperands(program));
  RETURN_IF_ERROR(VerifyRankRules(program));
  return Verifier(program).Run();
}

}  // namespace tessera
