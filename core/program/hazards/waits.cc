#include "core/program/hazards/waits.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/program/hazards/hazards.h"
#include "core/status/check.h"

namespace tessera {
namespace {

using Visit = absl::Status (*)(const Program&, const std::function<void(int32_t)>&,
                               const HazardVisitor&);

// Adds waits for the hazards that `visit` finds. For each instruction, the latest earlier
// instructions come first, because a wait for one of them often covers the others.
void AddWaits(Program& program, Visit visit) {
  StreamClocks clocks(program);
  std::vector<int32_t> needed;
  int32_t current = kNone;
  const auto add = [&] {
    std::sort(needed.rbegin(), needed.rend());
    for (const int32_t earlier : needed) {
      if (clocks.HasEnded(earlier, current)) continue;
      clocks.AddWait(current, earlier);
      program.instructions[current].waits.push_back(earlier);
    }
    needed.clear();
  };
  const absl::Status status = visit(
      program,
      [&](int32_t i) {
        add();
        current = i;
        clocks.Begin(i);
        for (const int32_t earlier : program.instructions[i].waits) clocks.AddWait(i, earlier);
      },
      [&](const Hazard& hazard) {
        needed.push_back(hazard.earlier);
        return absl::OkStatus();
      });
  TESSERA_CHECK(status.ok());
  add();
}

std::string Describe(const Program& program, const Hazard& hazard) {
  switch (hazard.kind) {
    case Hazard::Kind::kRead:
      return absl::StrCat("reads ", program.value(hazard.value).path);
    case Hazard::Kind::kOverwrite:
      return absl::StrCat("overwrites bytes with ", program.value(hazard.value).path);
    case Hazard::Kind::kOrder:
      return absl::StrCat("comes after ", program.value(hazard.value).path);
    case Hazard::Kind::kReuse:
      return absl::StrCat("uses memory again for buffer #", hazard.buffer, " (",
                          program.buffers[hazard.buffer].path, ")");
  }
  return "?";
}

absl::Status CheckWaitsFor(const Program& program, Visit visit) {
  StreamClocks clocks(program);
  const auto name = [&](int32_t i) {
    const Instruction& instruction = program.instructions[i];
    return absl::StrCat("instruction ", i, " (", instruction.path, ", on ",
                        program.streams[instruction.stream], ")");
  };
  return visit(
      program,
      [&](int32_t i) {
        clocks.Begin(i);
        for (const int32_t earlier : program.instructions[i].waits) clocks.AddWait(i, earlier);
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
      clocks_(program.instructions.size() * streams_, kNone),
      previous_(streams_, kNone) {}

void StreamClocks::Begin(int32_t instruction) {
  const int32_t stream = program_.instructions[instruction].stream;
  const int32_t previous = std::exchange(previous_[stream], instruction);
  if (previous != kNone) AddWait(instruction, previous);
}

void StreamClocks::AddWait(int32_t instruction, int32_t earlier) {
  int32_t* const clock = &clocks_[static_cast<size_t>(instruction) * streams_];
  const int32_t* const other = &clocks_[static_cast<size_t>(earlier) * streams_];
  for (size_t s = 0; s < streams_; ++s) clock[s] = std::max(clock[s], other[s]);
  int32_t& own = clock[program_.instructions[earlier].stream];
  own = std::max(own, earlier);
}

void AddDataWaits(Program& program) { AddWaits(program, VisitDataHazards); }
void AddReuseWaits(Program& program) { AddWaits(program, VisitReuseHazards); }

void KeepBuffersUntilWaited(Program& program) {
  const int32_t streams = static_cast<int32_t>(program.streams.size());
  const int32_t count = static_cast<int32_t>(program.instructions.size());
  if (streams == 1) return;
  // By stream: pairs (ended, instruction). From `instruction` on, the first stream knows that
  // instructions of the stream up to `ended` have ended.
  std::vector<std::vector<std::pair<int32_t, int32_t>>> known(streams);  // ended, instruction
  std::vector<int32_t> last_use(program.buffers.size() * streams, kNone);
  StreamClocks clocks(program);
  for (int32_t i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    clocks.Begin(i);
    for (const int32_t earlier : instruction.waits) clocks.AddWait(i, earlier);
    ForEachBuffer(program, instruction,
                  [&](int32_t buffer) { last_use[buffer * streams + instruction.stream] = i; });
    if (instruction.stream != 0) continue;
    for (int32_t s = 1; s < streams; ++s) {
      const int32_t ended = clocks.LastEnded(s, i);
      if (ended != kNone && (known[s].empty() || known[s].back().first < ended)) {
        known[s].emplace_back(ended, i);
      }
    }
  }
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    Buffer& buffer = program.buffers[b];
    for (int32_t s = 1; s < streams; ++s) {
      const int32_t use = last_use[b * streams + s];
      if (use == kNone) continue;
      const auto waited =
          std::lower_bound(known[s].begin(), known[s].end(), std::make_pair(use, kNone));
      buffer.last = std::max(buffer.last, waited == known[s].end() ? count : waited->second - 1);
    }
  }
}

absl::Status CheckWaits(const Program& program) {
  const int32_t streams = static_cast<int32_t>(program.streams.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    bool valid = instruction.stream >= 0 && instruction.stream < streams;
    for (const int32_t earlier : instruction.waits) {
      valid = valid && earlier >= 0 && earlier < static_cast<int32_t>(i) &&
              program.instructions[earlier].stream != instruction.stream;
    }
    if (!valid) {
      return absl::InternalError(absl::StrCat(
          "program '", program.name, "', instruction ", i, " (", instruction.path,
          "): has no stream of the program, or waits for no earlier instruction of another one"));
    }
  }
  absl::Status status = CheckWaitsFor(program, VisitDataHazards);
  if (status.ok()) status = CheckWaitsFor(program, VisitReuseHazards);
  return status;
}

}  // namespace tessera
