#include "core/program/ranks/own_parts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"

namespace tessera {
namespace {

using Range = FlatGroup::Range;

bool Contains(const Range& range, const Range& other) {
  return range.begin <= other.begin && other.end <= range.end;
}

bool Overlap(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

// An instruction that reads a value.
struct Reader {
  InstructionId instruction;
  ProgramValueId value;
};

// An all-gather of a state.
struct Gather {
  InstructionId instruction;
  ProgramValueId output;
  std::vector<Reader> readers;
};

// Returns the elements of the output that a value covers; all of them if they differ between ranks.
Range ElementsOf(const Program& program, ProgramValueId output, ProgramValueId id) {
  const ProgramValue& gathered = program.value(output);
  const ProgramValue& value = program.value(id);
  const Range all = {0, NumElements(gathered.type.shape)};
  if (id == output || value.sliced_from != kNone || value.flat != kNone ||
      value.type.dtype != gathered.type.dtype) {
    return all;
  }
  const int64_t begin = (value.offset - gathered.offset) / SizeOf(gathered.type.dtype);
  const Shape& shape = value.type.shape;
  if (value.packed || NumElements(shape) == 0) return {begin, begin + NumElements(shape)};
  int64_t last = begin;
  for (size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * value.strides[d];
  return {begin, last + 1};
}

// Returns the elements of an all-gather's output that are this rank's own part, if the input is a
// state.
std::optional<Range> OwnPartOf(const Program& program, const Instruction& instruction,
                               absl::Span<const int> coordinates) {
  if (instruction.kind != InstructionKind::kCollective) return std::nullopt;
  const CollectiveRequest& request = program.collectives[instruction.collective];
  if (request.operation != CollectiveOperation::kAllGather) return std::nullopt;
  const ProgramValue& input = program.value(instruction.inputs[0]);
  const ProgramValue& output = program.value(instruction.outputs[0]);
  const bool plain = input.flat == kNone && input.sliced_from == kNone && output.within == kNone;
  const Buffer& state = program.buffers[input.buffer];
  if (!plain || !state.state || state.space != program.buffers[output.buffer].space) {
    return std::nullopt;
  }
  int64_t ranks = 1, own = 0;  // parts are in the order of the ranks
  for (int axis = 0; axis < program.mesh.num_axes(); ++axis) {
    const auto& [name, size] = program.mesh.axis(axis);
    if (!absl::c_linear_search(request.mesh_axes, name)) continue;
    ranks *= size;
    own = own * size + coordinates[axis];
  }
  const int64_t part = request.elements / ranks;
  return Range{own * part, (own + 1) * part};
}

// Returns whether a state keeps its gathered contents until the output has been read. `writers` are
// all instructions that write it.
bool StaysWhileRead(const Program& program, const Gather& gather,
                    const std::vector<InstructionId>& writers) {
  for (const InstructionId writer : writers) {
    if (writer < gather.instruction) continue;
    for (const Reader& reader : gather.readers) {
      const bool ordered =
          program.instructions[writer].stream == program.instructions[reader.instruction].stream;
      if (writer <= reader.instruction || !ordered) return false;
    }
  }
  return true;
}

// Returns the longest range of `own` that no range of `read` overlaps. `read` has the values that
// are not completely inside the own part.
Range LongestUnread(const Range& own, std::vector<Range> read) {
  std::sort(read.begin(), read.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  read.push_back({own.end, own.end});
  Range longest;
  int64_t end = own.begin;
  for (const Range& range : read) {
    const int64_t begin = std::min(range.begin, own.end);
    if (begin - end > longest.size()) longest = {end, begin};
    end = std::max(end, range.end);
  }
  return longest;
}

}  // namespace

OwnParts::OwnParts(const Program& program, const RankBinding& binding,
                   absl::Span<const int> coordinates) {
  absl::flat_hash_map<ProgramValueId, Gather> gathers;                // by output
  absl::flat_hash_map<BufferId, std::vector<InstructionId>> writers;  // by buffer of a state
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    for (const ProgramValueId input : instruction.inputs) {
      const auto gather = gathers.find(program.TensorOf(input));
      if (gather != gathers.end()) gather->second.readers.push_back({i, input});
    }
    for (const ProgramValueId output : instruction.outputs) {
      const BufferId buffer = program.value(output).buffer;
      if (buffer != kNone && program.buffers[buffer].state) writers[buffer].push_back(i);
    }
    if (OwnPartOf(program, instruction, coordinates).has_value()) {
      gathers.try_emplace(instruction.outputs[0], Gather{i, instruction.outputs[0], {}});
    }
  }
  // Results of the step are read at their planned addresses.
  for (const NamedValue& output : program.outputs) gathers.erase(program.TensorOf(output.value));
  for (const ProgramState& state : program.states) {
    if (state.updated != kNone) gathers.erase(program.TensorOf(state.updated));
  }
  for (const auto& [output, gather] : gathers) {
    const Instruction& instruction = program.instructions[gather.instruction];
    const ProgramValueId state = instruction.inputs[0];
    if (!StaysWhileRead(program, gather, writers[program.value(state).buffer])) continue;
    const Range own = *OwnPartOf(program, instruction, coordinates);
    std::vector<Range> read;
    for (const Reader& reader : gather.readers) {
      const Range elements = ElementsOf(program, output, reader.value);
      if (!Contains(own, elements)) read.push_back(elements);
    }
    const Range unread = LongestUnread(own, std::move(read));
    // A value that is only partly inside `unread` needs all of its elements in the output.
    bool some_value_is_partly_inside = false;
    for (const Reader& reader : gather.readers) {
      const Range elements = ElementsOf(program, output, reader.value);
      some_value_is_partly_inside =
          some_value_is_partly_inside || (Overlap(unread, elements) && !Contains(unread, elements));
    }
    if (unread.size() == 0 || some_value_is_partly_inside) continue;
    unread_[gather.instruction] = unread;
    const int64_t size = SizeOf(program.value(output).type.dtype);
    for (const Reader& reader : gather.readers) {
      const Range elements = ElementsOf(program, output, reader.value);
      if (!Contains(unread, elements)) continue;
      in_state_[reader.value] = binding.AddressOf(state) + (elements.begin - own.begin) * size;
    }
  }
}

}  // namespace tessera
