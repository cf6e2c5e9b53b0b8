#include "core/program/hazards/waits.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/program/hazards/hazards.h"
#include "core/status/check.h"

namespace tessera {
namespace {

using Visit = absl::Status (*)(const Program&, const std::function<void(InstructionId)>&,
                               const HazardVisitor&);

// Adds waits for the hazards that `visit` finds. For each instruction, the latest earlier
// instructions come first, because a wait for one of them often covers the others.
void AddWaits(Program& program, Visit visit) {
  StreamClocks clocks(program);
  std::vector<InstructionId> needed;
  InstructionId current;
  const auto add_needed_waits = [&] {
    std::sort(needed.rbegin(), needed.rend());
    for (const InstructionId earlier : needed) {
      if (clocks.HasEnded(earlier, current)) continue;
      clocks.AddWait(current, earlier);
      program.instructions[current].waits.push_back(earlier);
    }
    needed.clear();
  };
  const absl::Status status = visit(
      program,
      [&](InstructionId i) {
        add_needed_waits();
        current = i;
        clocks.Begin(i);
        for (const InstructionId earlier : program.instructions[i].waits)
          clocks.AddWait(i, earlier);
      },
      [&](const Hazard& hazard) {
        needed.push_back(hazard.earlier);
        return absl::OkStatus();
      });
  TESSERA_CHECK(status.ok());
  add_needed_waits();
}

// Returns what an instruction does that makes a hazard: "reads blocks.0.gelu".
std::string Describe(const Program& program, const Hazard& hazard) {
  switch (hazard.kind) {
    case Hazard::Kind::kRead:
      return absl::StrCat("reads ", program.value(hazard.value).path);
    case Hazard::Kind::kOverwrite:
      return absl::StrCat("overwrites bytes with ", program.value(hazard.value).path);
    case Hazard::Kind::kOrder:
      return absl::StrCat("comes after ", program.value(hazard.value).path);
    case Hazard::Kind::kReuse:
      return absl::StrCat("uses memory again for buffer #", hazard.buffer.index(), " (",
                          program.buffers[hazard.buffer].path, ")");
  }
  return "?";
}

// Returns Internal if an instruction does not wait for one of the hazards that `visit` finds.
absl::Status CheckWaitsFor(const Program& program, Visit visit) {
  StreamClocks clocks(program);
  const auto name = [&](InstructionId i) {
    const Instruction& instruction = program.instructions[i];
    return absl::StrCat("instruction ", i.index(), " (", instruction.path, ", on ",
                        program.streams[instruction.stream], ")");
  };
  return visit(
      program,
      [&](InstructionId i) {
        clocks.Begin(i);
        for (const InstructionId earlier : program.instructions[i].waits)
          clocks.AddWait(i, earlier);
      },
      [&](const Hazard& hazard) {
        if (clocks.HasEnded(hazard.earlier, hazard.instruction)) return absl::OkStatus();
        return absl::InternalError(
            absl::StrCat("program '", program.name, "', ", name(hazard.instruction), ": ",
                         Describe(program, hazard), " without a wait for ", name(hazard.earlier)));
      });
}

}  // namespace

StreamClocks::StreamClocks(const Program& program)
    : program_(program),
      streams_(program.streams.size()),
      clocks_(program.instructions.size() * streams_),
      previous_(streams_) {}

void StreamClocks::Begin(InstructionId instruction) {
  const StreamId stream = program_.instructions[instruction].stream;
  const InstructionId previous = std::exchange(previous_[stream], instruction);
  if (previous != kNone) AddWait(instruction, previous);
}

void StreamClocks::AddWait(InstructionId instruction, InstructionId earlier) {
  InstructionId* const clock = &clocks_[instruction.index() * streams_];
  const InstructionId* const other = &clocks_[earlier.index() * streams_];
  for (size_t s = 0; s < streams_; ++s) clock[s] = std::max(clock[s], other[s]);
  InstructionId& own = clock[program_.instructions[earlier].stream.index()];
  own = std::max(own, earlier);
}

void AddDataWaits(Program& program) { AddWaits(program, VisitDataHazards); }
void AddReuseWaits(Program& program) { AddWaits(program, VisitReuseHazards); }

void KeepBuffersUntilWaited(Program& program) {
  const size_t streams = program.streams.size();
  if (streams == 1) return;
  // By stream: pairs (ended, instruction), ascending. From `instruction` on, the first stream knows
  // that instructions of the stream up to `ended` have ended.
  Table<StreamId, std::vector<std::pair<InstructionId, InstructionId>>> known(streams);
  std::vector<InstructionId> last_use(program.buffers.size() * streams);
  StreamClocks clocks(program);
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    clocks.Begin(i);
    for (const InstructionId earlier : instruction.waits) clocks.AddWait(i, earlier);
    ForEachBuffer(program, instruction, [&](BufferId buffer) {
      last_use[buffer.index() * streams + instruction.stream.index()] = i;
    });
    if (instruction.stream != kFirstStream) continue;
    for (const StreamId s : program.streams.ids()) {
      if (s == kFirstStream) continue;
      const InstructionId ended = clocks.LastEnded(s, i);
      if (ended != kNone && (known[s].empty() || known[s].back().first < ended)) {
        known[s].emplace_back(ended, i);
      }
    }
  }
  for (const BufferId b : program.buffers.ids()) {
    Buffer& buffer = program.buffers[b];
    for (const StreamId s : program.streams.ids()) {
      if (s == kFirstStream) continue;
      const InstructionId use = last_use[b.index() * streams + s.index()];
      if (use == kNone) continue;
      const auto waited =
          std::lower_bound(known[s].begin(), known[s].end(), std::make_pair(use, InstructionId()));
      const InstructionId free =
          waited == known[s].end() ? program.instructions.end_id() : waited->second - 1;
      buffer.last = std::max(buffer.last, free.index());
    }
  }
}

absl::Status CheckWaits(const Program& program) {
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    bool waits_for_others = program.streams.contains(instruction.stream);
    for (const InstructionId earlier : instruction.waits) {
      waits_for_others = waits_for_others && program.instructions.contains(earlier) &&
                         earlier < i && program.instructions[earlier].stream != instruction.stream;
    }
    if (!waits_for_others) {
      return absl::InternalError(absl::StrCat(
          "program '", program.name, "', instruction ", i.index(), " (", instruction.path,
          "): has no stream of the program, or waits for no earlier instruction of another one"));
    }
  }
  absl::Status status = CheckWaitsFor(program, VisitDataHazards);
  if (status.ok()) status = CheckWaitsFor(program, VisitReuseHazards);
  return status;
}

}  // namespace tessera
