#include "core/program/verify.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/kernels/interface/backend.h"
#include "core/program/strided_range.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckKernels());
    RETURN_IF_ERROR(CheckValues());
    holder_.assign(program_.buffers.size(), kNone);
    written_.assign(program_.values.size(), false);
    for (const NamedValue& input : program_.inputs) RETURN_IF_ERROR(Begin(input.value));
    for (const ProgramState& state : program_.states) {
      if (state.input != kNone) RETURN_IF_ERROR(Begin(state.input));
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      RETURN_IF_ERROR(CheckInstruction(static_cast<int32_t>(i)));
    }
    RETURN_IF_ERROR(CheckEnd());
    return CheckOffsets();
  }

 private:
  absl::Status Error(absl::string_view where, absl::string_view what) const {
    return absl::InternalError(absl::StrCat("program '", program_.name, "', ", where, ": ", what));
  }

  absl::Status CheckValues() const {
    for (size_t id = 0; id < program_.values.size(); ++id) {
      const ProgramValue& value = program_.values[id];
      if (value.buffer == kNone) continue;  // a value that nothing needs any more
      const ProgramValue& root = program_.values[value.root];
      if (root.root != value.root) return Error(value.path, "its root is a view");
      if (root.type.dtype != value.type.dtype) return Error(value.path, "a view of another dtype");
      const int64_t extent = ExtentInElements(value.type.shape, value.strides);
      const bool fits = value.root_offset >= 0 &&
                        (extent == 0 || value.root_offset + extent <= NumElements(root.type.shape));
      if (!fits) {
        return Error(value.path, absl::StrCat("reaches outside of ", root.path));
      }
      if (program_.buffers[value.buffer].bytes < NumBytes(root.type)) {
        return Error(value.path, "its buffer is too small");
      }
    }
    return absl::OkStatus();
  }

  // Notes a value that is there before the first instruction.
  absl::Status Begin(int32_t id) {
    const ProgramValue& value = program_.values[id];
    if (program_.buffers[value.buffer].first != -1) {
      return Error(value.path, "is set before its buffer is live");
    }
    holder_[value.buffer] = value.root;
    return MarkWritten(value.path, id);
  }

  StridedRange RangeOf(int32_t id) const {
    const ProgramValue& value = program_.values[id];
    return StridedRange(value.root_offset, value.type.shape, value.strides);
  }

  // Notes that a value was written; no other value of its root that was may have its elements.
  absl::Status MarkWritten(absl::string_view where, int32_t id) {
    const ProgramValue& value = program_.values[id];
    if (written_[id]) return Error(where, absl::StrCat(value.path, " is written twice"));
    const auto overlap = [&](int32_t other) {
      return Error(where, absl::StrCat("writes ", value.path, " over elements of ",
                                       program_.values[other].path));
    };
    written_[id] = true;
    if (value.root == id) {
      const auto parts = parts_.find(id);
      if (parts == parts_.end() || parts->second.elements == 0) return absl::OkStatus();
      return overlap(parts->second.by_end.begin()->second.value);
    }
    Parts& parts = parts_[value.root];
    const StridedRange range = RangeOf(id);
    if (range.elements() == 0) return absl::OkStatus();
    if (written_[value.root]) return overlap(value.root);
    for (auto it = parts.by_end.upper_bound(value.root_offset); it != parts.by_end.end(); ++it) {
      if (it->second.begin < range.end()) {
        parts.interleaved = true;
      } else if (!parts.interleaved) {
        break;
      }
      if (StridedRange::Common(RangeOf(it->second.value), range) > 0) {
        return overlap(it->second.value);
      }
    }
    parts.by_end.emplace(range.end(), Part{value.root_offset, id});
    parts.elements += range.elements();
    return absl::OkStatus();
  }

  // Whether every element of a value was written.
  bool IsWritten(int32_t id) const {
    const ProgramValue& value = program_.values[id];
    if (written_[id] || written_[value.root]) return true;
    const auto found = parts_.find(value.root);
    if (found == parts_.end()) return false;
    const Parts& parts = found->second;
    if (parts.elements == NumElements(program_.values[value.root].type.shape)) return true;
    const StridedRange range = RangeOf(id);
    int64_t common = 0;
    for (auto it = parts.by_end.upper_bound(value.root_offset);
         it != parts.by_end.end() && common < range.elements(); ++it) {
      if (it->second.begin >= range.end() && !parts.interleaved) break;
      common += StridedRange::Common(RangeOf(it->second.value), range);
    }
    return common == range.elements();
  }

  absl::Status CheckInstruction(int32_t i) {
    const Instruction& instruction = program_.instructions[i];
    for (int32_t id : instruction.inputs) RETURN_IF_ERROR(CheckRead(instruction.path, i, id));
    RETURN_IF_ERROR(CheckShapes(instruction));
    for (size_t j = 0; j < instruction.outputs.size(); ++j) {
      RETURN_IF_ERROR(CheckWrite(instruction, i, static_cast<int>(j)));
    }
    if (instruction.workspace != kNone) {
      RETURN_IF_ERROR(CheckLiveRange(instruction.path, i, instruction.workspace));
    }
    return absl::OkStatus();
  }

  absl::Status CheckLiveRange(absl::string_view where, int32_t i, int32_t buffer) const {
    const Buffer& b = program_.buffers[buffer];
    if (i < b.first || i > b.last) {
      return Error(where, absl::StrCat("instruction ", i, " touches buffer #", buffer, " (", b.path,
                                       "), which is live in [", b.first, ", ", b.last, "]"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckRead(absl::string_view where, int32_t i, int32_t id) const {
    const ProgramValue& value = program_.values[id];
    RETURN_IF_ERROR(CheckLiveRange(where, i, value.buffer));
    if (holder_[value.buffer] != value.root) {
      const int32_t holder = holder_[value.buffer];
      return Error(where, absl::StrCat("reads ", value.path, ", but its memory holds ",
                                       holder == kNone ? "nothing" : program_.values[holder].path));
    }
    if (!IsWritten(id)) {
      return Error(where, absl::StrCat("reads ", value.path, ", which was not written"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckShapes(const Instruction& instruction) const {
    const KernelRequest& request = program_.KernelOf(instruction).request;
    RETURN_IF_ERROR(CheckTypes(instruction.path, "input", instruction.inputs, request.inputs));
    return CheckTypes(instruction.path, "output", instruction.outputs, request.outputs);
  }

  // Checks that values have the types of the request that they are an operand of.
  absl::Status CheckTypes(absl::string_view where, absl::string_view what,
                          absl::Span<const int32_t> ids, absl::Span<const TensorType> types) const {
    if (ids.size() != types.size()) {
      return Error(where,
                   absl::StrCat("has ", ids.size(), " ", what, "s; its kernel has ", types.size()));
    }
    for (size_t j = 0; j < ids.size(); ++j) {
      const TensorType& type = program_.values[ids[j]].type;
      if (type != types[j]) {
        return Error(where, absl::StrCat(what, " ", j, " is ", TypeToString(type),
                                         "; its kernel has ", TypeToString(types[j])));
      }
    }
    return absl::OkStatus();
  }

  // Checks that requests follow their operators' shape rules.
  absl::Status CheckKernels() const {
    for (const PlannedKernel& planned : program_.kernels) {
      const KernelRequest& request = planned.request;
      size_t extra = 0;
      for (const Epilogue& epilogue : request.epilogues) extra += epilogue.extra_inputs;
      if (extra > request.inputs.size()) return Error(planned.key, "has too few inputs");
      const auto outputs = planned.op->InferTypes(
          absl::MakeConstSpan(request.inputs).first(request.inputs.size() - extra),
          request.attributes);
      if (!outputs.ok()) return Error(planned.key, outputs.status().message());
      if (outputs->size() != request.outputs.size()) {
        return Error(planned.key, "has a wrong number of outputs");
      }
      for (size_t j = 0; j < outputs->size(); ++j) {
        if ((*outputs)[j].shape != request.outputs[j].shape) {
          return Error(planned.key, absl::StrCat("output ", j, " should be ",
                                                 ShapeToString((*outputs)[j].shape)));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckWrite(const Instruction& instruction, int32_t i, int j) {
    const int32_t id = instruction.outputs[j];
    const ProgramValue& value = program_.values[id];
    RETURN_IF_ERROR(CheckLiveRange(instruction.path, i, value.buffer));
    RETURN_IF_ERROR(MarkWritten(instruction.path, id));
    const int32_t holder = holder_[value.buffer];
    if (holder != kNone && holder != value.root) {
      for (size_t k = 0; k < instruction.inputs.size(); ++k) {
        const ProgramValue& input = program_.values[instruction.inputs[k]];
        if (input.buffer != value.buffer) continue;
        if (input.root_offset != value.root_offset || input.type != value.type ||
            !IsRowMajor(input.type.shape, input.strides) ||
            !IsRowMajor(value.type.shape, value.strides) ||
            !Allowed(instruction, static_cast<int>(k), j)) {
          return Error(instruction.path,
                       absl::StrCat("may not write ", value.path, " over ", input.path));
        }
      }
    }
    holder_[value.buffer] = value.root;
    return absl::OkStatus();
  }

  bool Allowed(const Instruction& instruction, int input, int output) const {
    const PlannedKernel& planned = program_.KernelOf(instruction);
    const KernelRequest& request = planned.request;
    for (const auto& [from, to] :
         planned.op->InPlace({request.inputs, request.outputs, request.attributes})) {
      if (from == input && to == output) return true;
    }
    return false;
  }

  absl::Status CheckEnd() const {
    const int32_t end = static_cast<int32_t>(program_.instructions.size());
    for (const NamedValue& output : program_.outputs) {
      RETURN_IF_ERROR(CheckRead(absl::StrCat("output ", output.name), end, output.value));
    }
    for (const ProgramState& state : program_.states) {
      const std::string where = absl::StrCat("state ", state.path);
      RETURN_IF_ERROR(CheckRead(where, end, state.updated));
      if (state.input != kNone &&
          program_.values[state.input].buffer != program_.values[state.updated].buffer) {
        return Error(where, "is updated in another buffer than its input");
      }
    }
    return absl::OkStatus();
  }

  // Sweeps through time and keeps the live buffers by offset.
  absl::Status CheckOffsets() const {
    std::vector<std::vector<int32_t>> begins(program_.instructions.size() + 3);
    std::vector<std::vector<int32_t>> ends(program_.instructions.size() + 3);
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      const std::string where = absl::StrCat("buffer #", b, " (", buffer.path, ")");
      if (buffer.offset < 0 || buffer.offset % kBufferAlignment != 0 ||
          buffer.offset + buffer.bytes > program_.arena_bytes) {
        return Error(where, "does not lie in the arena");
      }
      if (buffer.first > buffer.last) return Error(where, "ends before it begins");
      begins[buffer.first + 1].push_back(static_cast<int32_t>(b));
      ends[buffer.last + 2].push_back(static_cast<int32_t>(b));
    }
    std::map<int64_t, int32_t> live;  // by offset
    for (size_t step = 0; step < begins.size(); ++step) {
      for (int32_t b : ends[step]) {
        if (program_.buffers[b].bytes > 0) live.erase(program_.buffers[b].offset);
      }
      for (int32_t b : begins[step]) {
        const Buffer& buffer = program_.buffers[b];
        if (buffer.bytes == 0) continue;
        auto [it, inserted] = live.emplace(buffer.offset, b);
        auto next = std::next(it);
        const bool meets_next = next != live.end() && next->first < buffer.offset + buffer.bytes;
        const bool meets_previous =
            it != live.begin() &&
            std::prev(it)->first + program_.buffers[std::prev(it)->second].bytes > buffer.offset;
        if (!inserted || meets_next || meets_previous) {
          const int32_t other = !inserted    ? it->second
                                : meets_next ? next->second
                                             : std::prev(it)->second;
          return Error(absl::StrCat("buffer #", b, " (", buffer.path, ")"),
                       absl::StrCat("shares bytes with buffer #", other, " (",
                                    program_.buffers[other].path, ") while both are live"));
        }
      }
    }
    return absl::OkStatus();
  }

  // A written value, which may be a part of a root.
  struct Part {
    int64_t begin;  // in elements of the root
    int32_t value;
  };
  // The parts of a root that were written.
  struct Parts {
    std::multimap<int64_t, Part> by_end;
    int64_t elements = 0;
    bool interleaved = false;  // some part begins before another one ends
  };

  const Program& program_;
  std::vector<int32_t> holder_;                // by buffer: the root whose bytes it holds
  std::vector<bool> written_;                  // by value
  absl::flat_hash_map<int32_t, Parts> parts_;  // by root, if it is written part by part
};

}  // namespace

absl::Status VerifyProgram(const Program& program) { return Verifier(program).Run(); }

}  // namespace tessera
