#include "core/program/program.h"

#include <xxhash.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tessera {
namespace {

ProgramValueId FindByName(const std::vector<NamedValue>& named, absl::string_view name) {
  for (const NamedValue& entry : named) {
    if (entry.name == name) return entry.value;
  }
  return kNone;
}

// Writes the text form of a Program.
class ProgramText {
 public:
  // `program` must outlive the object.
  explicit ProgramText(const Program& program) : p_(program), groups_(program.FlatGroups()) {}

  std::string All() const {
    std::string text = Header();
    for (const NamedValue& input : p_.inputs) {
      absl::StrAppend(&text, "input ", Describe(input.value), "\n");
    }
    for (const ProgramState& state : p_.states) absl::StrAppend(&text, Line(state), "\n");
    for (const InstructionId i : p_.instructions.ids()) {
      absl::StrAppend(&text, "[", i.index(), "] ", Line(p_.instructions[i]), "\n");
    }
    for (const NamedValue& output : p_.outputs) {
      absl::StrAppend(&text, "output ", output.name, " = ", Describe(output.value), "\n");
    }
    for (const BufferId i : p_.buffers.ids()) {
      absl::StrAppend(&text, "buffer #", i.index(), " ", Line(p_.buffers[i]), "\n");
    }
    return text;
  }

 private:
  // Returns the first line, with threads, arenas and streams, and the lines of flat groups.
  std::string Header() const {
    std::string text =
        absl::StrCat("program ", p_.name, " threads=", p_.threads, " arena=", p_.arena_bytes());
    for (const MemorySpace space : kAllMemorySpaces) {
      if (space == MemorySpace::kDevice || p_.arenas[space] == 0) continue;
      absl::StrAppend(&text, " (", MemorySpaceName(space), " ", p_.arenas[space], ")");
    }
    if (p_.streams.size() > 1) {
      absl::StrAppend(&text, " streams=", absl::StrJoin(p_.streams, ","));
    }
    text += "\n";
    for (size_t g = 0; g < groups_.size(); ++g) {
      absl::StrAppend(&text, "flat group ", g, ": ", groups_[g]->ToString(), "\n");
    }
    return text;
  }

  std::string Line(const ProgramState& state) const {
    const ProgramValueId value = state.input != kNone ? state.input : state.updated;
    std::string text = absl::StrCat(RoleName(state.role), " ", Describe(value));
    if (state.updated != state.input) {
      absl::StrAppend(&text, " leaves %", p_.values[state.updated].path);
    }
    return text;
  }

  std::string Line(const Instruction& instruction) const {
    std::string text = absl::StrJoin(
        instruction.outputs, ", ",
        [&](std::string* out, ProgramValueId id) { absl::StrAppend(out, Describe(id)); });
    absl::StrAppend(&text, instruction.outputs.empty() ? "" : " = ", Work(instruction), "(",
                    Names(instruction.inputs), ")");
    const bool runs_kernel = instruction.kind == InstructionKind::kKernel;
    if (runs_kernel) {
      const Attributes& attributes = p_.KernelOf(instruction).request.attributes;
      absl::StrAppend(&text, attributes.empty() ? "" : " ", attributes.ToString());
      if (instruction.draw != kNone) {
        absl::StrAppend(&text, " draws ", p_.draws[instruction.draw].ToString(p_.mesh));
      }
    }
    if (!instruction.after.empty()) absl::StrAppend(&text, " after ", Names(instruction.after));
    if (runs_kernel) {
      const PlannedKernel& planned = p_.KernelOf(instruction);
      absl::StrAppend(&text, " kernel=", planned.kernel->name());
      if (planned.workspace_bytes > 0) {
        absl::StrAppend(&text, " workspace=", planned.workspace_bytes);
      }
    }
    if (instruction.stream != kFirstStream) {
      absl::StrAppend(&text, " on ", p_.streams[instruction.stream]);
    }
    if (!instruction.waits.empty()) {
      absl::StrAppend(
          &text, " waits for ",
          absl::StrJoin(instruction.waits, ", ", [](std::string* out, InstructionId id) {
            absl::StrAppend(out, id.index());
          }));
    }
    return text;
  }

  static std::string Line(const Buffer& buffer) {
    std::string text = absl::StrCat(buffer.path, " ", buffer.bytes, " bytes at ", buffer.offset);
    if (buffer.space != MemorySpace::kDevice) {
      absl::StrAppend(&text, " of ", MemorySpaceName(buffer.space));
    }
    absl::StrAppend(&text, ", live [", buffer.first, ", ", buffer.last, "], ",
                    CategoryName(buffer.category));
    for (const CategoryChange& change : buffer.changes) {
      absl::StrAppend(&text, ", ", CategoryName(change.category), " from ", change.first);
    }
    return text;
  }

  // Returns the work of an instruction without its operands, for example "matmul+add" or
  // "all-reduce of 12 f32 (sum) over data".
  std::string Work(const Instruction& instruction) const {
    if (p_.Communicates(instruction)) return p_.collectives[instruction.collective].ToString();
    if (instruction.kind == InstructionKind::kCopy) return "copy-bytes";
    const KernelRequest& request = p_.KernelOf(instruction).request;
    std::string text = request.op;
    for (const Epilogue& epilogue : request.epilogues) {
      absl::StrAppend(&text, epilogue.ToString());
    }
    return text;
  }

  // Returns a value's path, type and memory.
  std::string Describe(ProgramValueId id) const {
    const ProgramValue& v = p_.values[id];
    std::string text = absl::StrCat("%", v.path, ": ", TypeToString(v.type));
    if (!IsRowMajor(v.type.shape, v.strides)) {
      absl::StrAppend(&text, " strides=", ShapeToString(v.strides));
    }
    if (v.buffer != kNone) absl::StrAppend(&text, " in #", v.buffer.index());
    if (v.offset != 0) absl::StrAppend(&text, "+", v.offset);
    if (v.within != kNone) absl::StrAppend(&text, " of %", p_.values[v.within].path);
    if (v.part != kNone) absl::StrAppend(&text, " holds ", p_.parts[v.part].ToString(p_.mesh));
    if (v.packed) text += " packed";
    if (v.sliced_from != kNone) {
      absl::StrAppend(&text, " slice of %", p_.values[v.sliced_from].path);
    }
    if (v.flat != kNone) {
      const FlatRule& flat = p_.flats[v.flat];
      absl::StrAppend(&text, " flat member ", flat.member, " of group ",
                      std::find(groups_.begin(), groups_.end(), flat.group) - groups_.begin(),
                      " over ", absl::StrJoin(flat.axes, ", ", [&](std::string* out, int axis) {
                        absl::StrAppend(out, p_.mesh.axis(axis).name);
                      }));
    }
    return text;
  }

  // Returns the paths of values: "%x, %w".
  std::string Names(absl::Span<const ProgramValueId> ids) const {
    return absl::StrJoin(ids, ", ", [this](std::string* out, ProgramValueId id) {
      absl::StrAppend(out, "%", p_.values[id].path);
    });
  }

  const Program& p_;
  const std::vector<std::shared_ptr<const FlatGroup>> groups_;
};

}  // namespace

absl::string_view MemorySpaceName(MemorySpace space) {
  switch (space) {
    case MemorySpace::kDevice:
      return "device";
    case MemorySpace::kShared:
      return "shared";
    case MemorySpace::kPinnedHost:
      return "pinned host";
    case MemorySpace::kOffloadHost:
      return "offload host";
  }
  return "?";
}

absl::string_view CategoryName(Category category) {
  switch (category) {
    case Category::kParameters:
      return "parameters";
    case Category::kGradients:
      return "gradients";
    case Category::kOptimizerState:
      return "optimizer state";
    case Category::kActivations:
      return "activations";
    case Category::kInputs:
      return "inputs";
    case Category::kCache:
      return "cache";
    case Category::kWorkspace:
      return "workspace";
    case Category::kRunningStatistics:
      return "running statistics";
  }
  return "?";
}

Category Buffer::CategoryAt(int32_t time) const {
  Category result = category;
  for (const CategoryChange& change : changes) {
    if (change.first <= time) result = change.category;
  }
  return result;
}

ArenaAddress Program::AddressOf(ProgramValueId value) const {
  const ProgramValue& v = values[value];
  const Buffer& buffer = buffers[v.buffer];
  return {buffer.space, buffer.offset + v.offset};
}

std::string Program::OperationOf(const Instruction& instruction) const {
  if (Communicates(instruction)) {
    return std::string(CollectiveOperationName(collectives[instruction.collective].operation));
  }
  if (instruction.kind == InstructionKind::kCopy) return "copy-bytes";
  return KernelOf(instruction).request.op;
}

CollectiveId Program::FindOrAddCollective(const CollectiveRequest& request) {
  const auto found = std::find(collectives.begin(), collectives.end(), request);
  return found == collectives.end() ? collectives.push_back(request) : collectives.IdOf(found);
}

StreamId Program::FindOrAddStream(absl::string_view name) {
  const auto found = std::find(streams.begin(), streams.end(), name);
  return found == streams.end() ? streams.push_back(std::string(name)) : streams.IdOf(found);
}

ProgramValueId Program::FindInput(absl::string_view name) const { return FindByName(inputs, name); }
ProgramValueId Program::FindOutput(absl::string_view name) const {
  return FindByName(outputs, name);
}

PartRule Program::PartOf(const ProgramValue& value) const {
  if (value.part != kNone) return parts[value.part];
  if (value.flat == kNone) return PartRule::All(value.type.shape, mesh.num_axes());
  const FlatRule& flat = flats[value.flat];
  return PartRule::All(flat.group->members()[flat.member].local, mesh.num_axes());
}

std::vector<std::shared_ptr<const FlatGroup>> Program::FlatGroups() const {
  std::vector<std::shared_ptr<const FlatGroup>> groups;
  absl::flat_hash_set<const FlatGroup*> seen;
  for (const FlatRule& flat : flats) {
    if (seen.insert(flat.group.get()).second) groups.push_back(flat.group);
  }
  return groups;
}

std::string Program::ToString() const { return ProgramText(*this).All(); }

std::string Program::Fingerprint() const {
  const std::string text = ToString();
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

}  // namespace tessera
