#include "core/program/program.h"

#include <xxhash.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tessera {
namespace {

ProgramValueId Find(const std::vector<NamedValue>& named, absl::string_view name) {
  for (const NamedValue& entry : named) {
    if (entry.name == name) return entry.value;
  }
  return kNone;
}

// Returns the work of an instruction without its operands, for example "matmul+add" or "all-reduce
// of 12 f32 (sum) over data".
std::string WorkToString(const Program& program, const Instruction& instruction) {
  if (program.Communicates(instruction)) {
    return program.collectives[instruction.collective].ToString();
  }
  if (instruction.kind == InstructionKind::kCopy) return "copy-bytes";
  const KernelRequest& request = program.KernelOf(instruction).request;
  std::string text = request.op;
  for (const Epilogue& epilogue : request.epilogues) {
    absl::StrAppend(&text, "+", epilogue.op, epilogue.attributes.ToString());
  }
  return text;
}

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

CollectiveId Program::EnterCollective(const CollectiveRequest& request) {
  const auto found = std::find(collectives.begin(), collectives.end(), request);
  return found == collectives.end() ? collectives.push_back(request) : collectives.IdOf(found);
}

ProgramValueId Program::FindInput(absl::string_view name) const { return Find(inputs, name); }
ProgramValueId Program::FindOutput(absl::string_view name) const { return Find(outputs, name); }

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

std::string Program::ToString() const {
  const std::vector<std::shared_ptr<const FlatGroup>> groups = FlatGroups();
  const auto describe = [this, &groups](ProgramValueId id) {
    const ProgramValue& v = values[id];
    std::string text = absl::StrCat("%", v.path, ": ", TypeToString(v.type));
    if (!IsRowMajor(v.type.shape, v.strides)) {
      absl::StrAppend(&text, " strides=", ShapeToString(v.strides));
    }
    if (v.buffer != kNone) absl::StrAppend(&text, " in #", v.buffer.index());
    if (v.offset != 0) absl::StrAppend(&text, "+", v.offset);
    if (v.within != kNone) absl::StrAppend(&text, " of %", values[v.within].path);
    if (v.part != kNone) absl::StrAppend(&text, " holds ", parts[v.part].ToString(mesh));
    if (v.packed) text += " packed";
    if (v.sliced_from != kNone) absl::StrAppend(&text, " slice of %", values[v.sliced_from].path);
    if (v.flat != kNone) {
      const FlatRule& flat = flats[v.flat];
      absl::StrAppend(&text, " flat member ", flat.member, " of group ",
                      std::find(groups.begin(), groups.end(), flat.group) - groups.begin(),
                      " over ", absl::StrJoin(flat.axes, ", ", [&](std::string* out, int axis) {
                        absl::StrAppend(out, mesh.axis(axis).name);
                      }));
    }
    return text;
  };
  const auto names = [this](absl::Span<const ProgramValueId> ids) {
    return absl::StrJoin(ids, ", ", [this](std::string* out, ProgramValueId id) {
      absl::StrAppend(out, "%", values[id].path);
    });
  };
  std::string text = absl::StrCat("program ", name, " threads=", threads, " arena=", arena_bytes());
  for (const MemorySpace space : kAllMemorySpaces) {
    if (space == MemorySpace::kDevice || arenas[space] == 0) continue;
    absl::StrAppend(&text, " (", MemorySpaceName(space), " ", arenas[space], ")");
  }
  if (streams.size() > 1) absl::StrAppend(&text, " streams=", absl::StrJoin(streams, ","));
  text += "\n";
  for (size_t g = 0; g < groups.size(); ++g) {
    absl::StrAppend(&text, "flat group ", g, ": ", groups[g]->ToString(), "\n");
  }
  for (const NamedValue& input : inputs) {
    absl::StrAppend(&text, "input ", describe(input.value), "\n");
  }
  for (const ProgramState& state : states) {
    const ProgramValueId value = state.input != kNone ? state.input : state.updated;
    absl::StrAppend(&text, RoleName(state.role), " ", describe(value));
    if (state.updated != state.input) {
      absl::StrAppend(&text, " leaves %", values[state.updated].path);
    }
    absl::StrAppend(&text, "\n");
  }
  for (const InstructionId i : instructions.ids()) {
    const Instruction& instruction = instructions[i];
    absl::StrAppend(&text, "[", i.index(), "] ",
                    absl::StrJoin(instruction.outputs, ", ",
                                  [&](std::string* out, ProgramValueId id) {
                                    absl::StrAppend(out, describe(id));
                                  }),
                    instruction.outputs.empty() ? "" : " = ", WorkToString(*this, instruction), "(",
                    names(instruction.inputs), ")");
    if (instruction.kind == InstructionKind::kKernel) {
      const PlannedKernel& planned = KernelOf(instruction);
      const Attributes& attributes = planned.request.attributes;
      absl::StrAppend(&text, attributes.empty() ? "" : " ", attributes.ToString());
      if (instruction.draw != kNone) {
        absl::StrAppend(&text, " draws ", draws[instruction.draw].ToString(mesh));
      }
      if (!instruction.after.empty()) absl::StrAppend(&text, " after ", names(instruction.after));
      absl::StrAppend(&text, " kernel=", planned.kernel->name());
      if (planned.workspace_bytes > 0) {
        absl::StrAppend(&text, " workspace=", planned.workspace_bytes);
      }
    } else if (!instruction.after.empty()) {
      absl::StrAppend(&text, " after ", names(instruction.after));
    }
    if (instruction.stream != kFirstStream)
      absl::StrAppend(&text, " on ", streams[instruction.stream]);
    if (!instruction.waits.empty()) {
      absl::StrAppend(
          &text, " waits for ",
          absl::StrJoin(instruction.waits, ", ", [](std::string* out, InstructionId id) {
            absl::StrAppend(out, id.index());
          }));
    }
    absl::StrAppend(&text, "\n");
  }
  for (const NamedValue& output : outputs) {
    absl::StrAppend(&text, "output ", output.name, " = ", describe(output.value), "\n");
  }
  for (const BufferId i : buffers.ids()) {
    const Buffer& b = buffers[i];
    absl::StrAppendFormat(&text, "buffer #%d %s %d bytes at %d", i.index(), b.path, b.bytes,
                          b.offset);
    if (b.space != MemorySpace::kDevice) {
      absl::StrAppend(&text, " of ", MemorySpaceName(b.space));
    }
    absl::StrAppendFormat(&text, ", live [%d, %d], %s", b.first, b.last, CategoryName(b.category));
    for (const CategoryChange& change : b.changes) {
      absl::StrAppendFormat(&text, ", %s from %d", CategoryName(change.category), change.first);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string Program::Fingerprint() const {
  const std::string text = ToString();
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

}  // namespace tessera
