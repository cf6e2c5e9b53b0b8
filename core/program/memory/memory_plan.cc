#include "core/program/memory/memory_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/kernels/interface/backend.h"
#include "core/program/hazards/waits.h"
#include "core/program/memory/assign_offsets.h"
#include "core/status/check.h"

namespace tessera {
namespace {

int64_t Align(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// The room that the buffers beside the states need in each arena.
struct Rooms {
  BySpace<std::vector<LiveRange>> ranges;
  BySpace<std::vector<BufferId>> buffers;  // of the ranges
};

Rooms RoomsOf(const StateLayout& states, const Program& program) {
  Rooms rooms;
  for (const BufferId i : program.buffers.ids()) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.state) continue;
    const MemorySpace space = states.SpaceOf(buffer);
    // A buffer of no bytes gets an offset too, so that its address is one of the arena's.
    const int64_t bytes = std::max(Align(buffer.bytes), kBufferAlignment);
    rooms.ranges[space].push_back({bytes + 2 * states.fence_bytes(), buffer.first, buffer.last});
    rooms.buffers[space].push_back(i);
  }
  return rooms;
}

bool IsOnSide(MemorySpace space, MemorySide side) {
  return (space == MemorySpace::kOffloadHost) == (side == MemorySide::kHost);
}

}  // namespace

absl::Status StateLayout::Add(const Program& program) {
  for (const Instruction& instruction : program.instructions) {
    communicates_ = communicates_ || program.Communicates(instruction);
  }
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.state) continue;
    auto [it, inserted] = index_of_.try_emplace(buffer.path, entries_.size());
    if (inserted) entries_.push_back({buffer.bytes, {buffer.space, 0}});
    Entry& entry = entries_[it->second];
    if (entry.bytes != buffer.bytes) {
      return absl::InvalidArgumentError(absl::StrCat("state '", buffer.path, "' has ", buffer.bytes,
                                                     " bytes in program '", program.name, "' and ",
                                                     entry.bytes, " in another"));
    }
    const bool on_host = entry.address.space == MemorySpace::kOffloadHost;
    if ((buffer.space == MemorySpace::kOffloadHost) != on_host) {
      return absl::InvalidArgumentError(
          absl::StrCat("state '", buffer.path, "' lies in ", MemorySpaceName(buffer.space),
                       " memory in program '", program.name, "' and in ",
                       MemorySpaceName(entry.address.space), " memory in another"));
    }
    if (buffer.space == MemorySpace::kShared) entry.address.space = MemorySpace::kShared;
  }
  bytes_ = SpaceBytes();
  for (Entry& entry : entries_) {
    int64_t& bytes = bytes_[entry.address.space];
    entry.address.offset = bytes + fence_bytes_;
    bytes += Align(entry.bytes) + 2 * fence_bytes_;
  }
  return absl::OkStatus();
}

MemorySpace StateLayout::SpaceOf(const Buffer& buffer) const {
  const bool moves = communicates_ && buffer.space == MemorySpace::kDevice;
  return moves ? MemorySpace::kShared : buffer.space;
}

ArenaAddress StateLayout::AddressOf(const std::string& path) const {
  auto it = index_of_.find(path);
  TESSERA_CHECK(it != index_of_.end()) << path;
  return entries_[it->second].address;
}

void PlanMemory(const StateLayout& states, Program& program) {
  for (Buffer& buffer : program.buffers) {
    if (!buffer.state) {
      buffer.space = states.SpaceOf(buffer);
      continue;
    }
    const ArenaAddress address = states.AddressOf(buffer.path);
    buffer.space = address.space;
    buffer.offset = address.offset;
  }
  program.arenas = states.bytes();
  const Rooms rooms = RoomsOf(states, program);
  for (const MemorySpace space : kAllMemorySpaces) {
    if (rooms.ranges[space].empty()) continue;
    const Assignment assignment = AssignOffsets(rooms.ranges[space]);
    for (size_t i = 0; i < rooms.buffers[space].size(); ++i) {
      program.buffers[rooms.buffers[space][i]].offset =
          states.bytes()[space] + assignment.offsets[i] + states.fence_bytes();
    }
    program.arenas[space] += assignment.bytes;
  }
  AddReuseWaits(program);
}

SpaceBytes BytesBesideStates(const StateLayout& states, const Program& program) {
  const Rooms rooms = RoomsOf(states, program);
  SpaceBytes bytes;
  for (const MemorySpace space : kAllMemorySpaces) {
    if (!rooms.ranges[space].empty()) bytes[space] = AssignOffsets(rooms.ranges[space]).bytes;
  }
  return bytes;
}

MemoryReport ReportMemory(const Program& program, MemorySide side) {
  const int32_t count = static_cast<int32_t>(program.instructions.size());
  std::vector<int64_t> change(count + 3, 0);
  for (const Buffer& buffer : program.buffers) {
    if (!IsOnSide(buffer.space, side)) continue;
    const int64_t bytes = Align(buffer.bytes);
    change[buffer.first + 1] += bytes;
    change[buffer.last + 2] -= bytes;
  }
  MemoryReport report;
  for (const MemorySpace space : kAllMemorySpaces) {
    if (IsOnSide(space, side)) report.arena_bytes += program.arenas[space];
  }
  int64_t live = 0;
  for (int32_t time = -1; time <= count; ++time) {
    live += change[time + 1];
    if (live > report.live_bytes) {
      report.live_bytes = live;
      report.peak_instruction = time;
    }
  }
  for (const Buffer& buffer : program.buffers) {
    if (IsOnSide(buffer.space, side) && buffer.first <= report.peak_instruction &&
        report.peak_instruction <= buffer.last) {
      report.bytes_at_peak[static_cast<size_t>(buffer.CategoryAt(report.peak_instruction))] +=
          Align(buffer.bytes);
    }
  }
  return report;
}

std::vector<BytesByCategory> LiveBytesByTime(const Program& program, MemorySide side) {
  std::vector<BytesByCategory> live(program.instructions.size() + 2);
  // First the differences between consecutive times, and then their sums.
  const auto add = [&live](int32_t time, Category category, int64_t bytes) {
    const auto i = static_cast<size_t>(int64_t{time} + 1);
    if (i < live.size()) live[i][static_cast<size_t>(category)] += bytes;
  };
  for (const Buffer& buffer : program.buffers) {
    if (!IsOnSide(buffer.space, side)) continue;
    const int64_t bytes = Align(buffer.bytes);
    Category held = buffer.CategoryAt(buffer.first);
    add(buffer.first, held, bytes);
    for (const CategoryChange& change : buffer.changes) {
      if (change.first <= buffer.first || change.first > buffer.last) continue;
      add(change.first, held, -bytes);
      add(change.first, change.category, bytes);
      held = change.category;
    }
    add(buffer.last + 1, held, -bytes);
  }
  for (size_t i = 1; i < live.size(); ++i) {
    for (size_t c = 0; c < live[i].size(); ++c) live[i][c] += live[i - 1][c];
  }
  return live;
}

}  // namespace tessera
