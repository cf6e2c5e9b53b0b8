// The three algorithms of a collective: on data in slots, in place in shared memory, and through
// staging areas.
#include <algorithm>

#include "collectives/reduce/reduce.h"
#include "collectives/shm/group.h"

namespace tessera::comm::shm {
namespace {

// Returns whether a rank sends a different part to each of the others.
bool HasPartForEach(const Request& request) {
  return request.operation == Operation::kReduceScatter ||
         request.operation == Operation::kAllToAll;
}

// Returns whether the output is too large to still be in a cache when it is used. Between two
// operations of a training step, other data take most of the cache.
bool IsNonTemporal(const Request& request) {
  constexpr int64_t kCacheBytes = int64_t{8} << 20;
  return request.count * SizeOf(request.dtype) > kCacheBytes;
}

// Copies a piece of the output.
void CopyOut(const Request& request, void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from && IsNonTemporal(request)) {
    CopyNonTemporal(to, from, bytes);
  } else {
    Copy(to, from, bytes);
  }
}

// Returns the elements, of the buffer or of each part, that pass a staging area in one round.
int64_t StagedElements(const Request& request, int ranks) {
  const int64_t elements =
      kStagingBytes / SizeOf(request.dtype) / (HasPartForEach(request) ? ranks : 1);
  constexpr int64_t kElementsPerLine = 64;
  return std::max<int64_t>(1, elements / kElementsPerLine * kElementsPerLine);
}

}  // namespace

int64_t Group::BytesSent(const Request& request, Algorithm algorithm) const {
  const int64_t to_all = request.count * (size() - 1);
  int64_t elements = 0;
  if (request.operation == Operation::kBroadcast) {
    elements = rank() == request.peer ? to_all : 0;
  } else if (request.operation == Operation::kAllReduce && algorithm == Algorithm::kEager) {
    elements = to_all;
  } else if (request.operation == Operation::kAllReduce && algorithm == Algorithm::kStaged) {
    Request round = request;
    for (int64_t begin = 0; begin < request.count; begin += round.count) {
      round.count = std::min(StagedElements(request, size()), request.count - begin);
      elements += ElementsSent(round, rank(), size());
    }
  } else {
    elements = ElementsSent(request, rank(), size());
  }
  return elements * SizeOf(request.dtype);
}

Group::Next Group::Step() {
  switch (collective_.algorithm) {
    case Algorithm::kEager:
      RunEager();
      return Next::kEnd;
    case Algorithm::kDirect:
      return StepDirect();
    case Algorithm::kStaged:
      return StepStaged();
  }
  return Next::kEnd;
}

// Completes a collective whose inputs are all in the slots.
void Group::RunEager() {
  const Request& request = First(0);
  for (int r = 0; r < size(); ++r) {
    const int64_t begin = InputFor(request, r, rank()).begin * SizeOf(request.dtype);
    inputs_[r] = r == rank() ? Bytes(request.input, begin) : SlotOf(r).data + begin;
  }
  WriteOutput(request, rank(), inputs_);
}

// Advances a collective whose buffers are in shared memory: all that peers read, and for an
// all-reduce those that they write. Each rank does its share in place, and then a phase ends.
Group::Next Group::StepDirect() {
  if (collective_.step == 1) return Next::kEnd;
  bool has_more = false;
  switch (First(0).operation) {
    case Operation::kAllReduce:
      has_more = AllReduceDirect();
      break;
    case Operation::kReduceScatter:
      has_more = ReduceDirect();
      break;
    default:
      has_more = CopyDirect();
  }
  // A rank that has failed may have changed its buffers while this rank read them.
  if (HasFailedMember()) {
    CheckFailures();
    return Next::kStep;
  }
  if (has_more) return Next::kStep;
  collective_.step = 1;
  return Next::kPhase;
}

void Group::FindBuffers() {
  for (int r = 0; r < size(); ++r) {
    const PostedRequest& posted = SlotOf(r).request;
    buffers_[r] = {memory_->Find(ranks_[r], posted.input), memory_->Find(ranks_[r], posted.output)};
  }
}

// Reduces a piece of this rank's part to its output.
bool Group::ReduceDirect() {
  const Request& request = First(0);
  const int64_t size = SizeOf(request.dtype);
  const Part own = PartOf(request.count, request.part, rank());
  int64_t& position = collective_.position;
  const int64_t count = std::min(kPieceBytes / size, own.size - position);
  for (int r = 0; r < this->size(); ++r)
    inputs_[r] = buffers_[r].input + (own.begin + position) * size;
  if (count > 0) ReduceOwnPart(request, inputs_, position, count, IsNonTemporal(request));
  position += count;
  return position < own.size;
}

// Reduces a piece of this rank's part to the outputs of all ranks. The buffers of a failed rank
// must not be written, so this rank first sets is_writing and then checks whether any rank has
// failed.
bool Group::AllReduceDirect() {
  const Request& request = First(0);
  const int64_t size = SizeOf(request.dtype);
  const Part own = PartOf(request.count, AllReducePart(request.count, this->size()), rank());
  int64_t& position = collective_.position;
  const int64_t count = std::min(kPieceBytes / size, own.size - position);
  const int64_t offset = (own.begin + position) * size;
  for (int r = 0; r < this->size(); ++r) {
    inputs_[r] = buffers_[r].input + offset;
    outputs_[r] = buffers_[r].output + offset;
  }
  Mine().is_writing.store(1);
  const bool may_write = !HasFailedMember();
  if (count > 0 && may_write) {
    Reduce(inputs_, outputs_, count, request.dtype, request.reduction, IsNonTemporal(request));
  }
  Mine().is_writing.store(0, std::memory_order_release);
  position += count;
  return position < own.size;
}

// Copies a piece of the other ranks' inputs.
bool Group::CopyDirect() {
  const Request& request = First(0);
  const int64_t size = SizeOf(request.dtype);
  char* const output = static_cast<char*>(request.output);
  int64_t& position = collective_.position;
  if (request.operation == Operation::kBroadcast) {
    const int64_t count = std::min(kPieceBytes / size, request.count - position);
    CopyOut(request, output + position * size, buffers_[request.peer].input + position * size,
            count * size);
    position += count;
    return position < request.count;
  }
  // Reads from one rank after another, beginning with the next rank, so that not all read the same
  // memory.
  const int from = static_cast<int>((rank() + 1 + position / request.part) % this->size());
  const Part part = PartOf(request.count, request.part, from);
  int64_t offset = position % request.part;
  int64_t end = part.size;
  if (from == rank() && request.unread.size > 0) {
    const int64_t unread = request.unread.begin - part.begin;
    if (offset == unread) {
      offset += request.unread.size;
      position += request.unread.size;
    } else if (offset < unread) {
      end = unread;
    }
  }
  const int64_t count = std::min(kPieceBytes / size, end - offset);
  if (count > 0) {
    const int64_t theirs = request.operation == Operation::kAllToAll ? rank() * request.part : 0;
    CopyOut(request, output + (part.begin + offset) * size,
            buffers_[from].input + (theirs + offset) * size, count * size);
  }
  // `position` counts full parts, but a part may be shorter.
  position += count > 0 && offset + count < part.size ? count : request.part - offset;
  return position < request.part * this->size();
}

// Advances a collective in rounds through staging areas: copy in, end a phase, copy out of the
// others' areas. Rounds alternate between two areas per rank. Before an area is filled again, all
// ranks have ended a phase of the next round, so none still reads it. An all-reduce reduces into
// the areas, ends one more phase, and copies out.
Group::Next Group::StepStaged() {
  const Request& request = First(0);
  const bool all_reduce = request.operation == Operation::kAllReduce;
  // The elements of the longest part, which may be shorter than a full one.
  const int64_t end =
      HasParts(request.operation) ? std::min(request.part, request.count) : request.count;
  const Round round = {collective_.position,
                       std::min(StagedElements(request, size()), end - collective_.position)};
  if (collective_.step == 0) {
    StageIn(request, round);
    collective_.step = 1;
    return Next::kPhase;
  }
  if (collective_.step == 1 && all_reduce) {
    ReduceStaged(request, round);
    collective_.step = 2;
    return Next::kPhase;
  }
  StageOut(request, round);
  ++staging_rounds_;
  collective_.position += round.count;
  collective_.step = 0;
  return collective_.position < end ? Next::kStep : Next::kEnd;
}

char* Group::StagingArea(int rank) const { return members_[rank]->staging[staging_rounds_ % 2]; }

// Returns the elements of a round that are in a rank's part; possibly none.
Part Group::PartInRound(const Request& request, const Round& round, int rank) {
  const Part part = PartOf(request.count, request.part, rank);
  return {part.begin + round.begin,
          std::max<int64_t>(0, std::min(round.count, part.size - round.begin))};
}

void Group::StageIn(const Request& request, const Round& round) {
  const int64_t size = SizeOf(request.dtype);
  const char* const input = static_cast<const char*>(request.input);
  char* const area = StagingArea(rank());
  if (HasPartForEach(request)) {
    const int64_t stride = StagedElements(request, this->size()) * size;
    for (int r = 0; r < this->size(); ++r) {
      const Part part = PartInRound(request, round, r);
      Copy(area + r * stride, input + part.begin * size, part.size * size);
    }
  } else if (request.operation == Operation::kAllGather) {
    Copy(area, input + round.begin * size, PartInRound(request, round, rank()).size * size);
  } else if (request.operation == Operation::kAllReduce || rank() == request.peer) {
    Copy(area, input + round.begin * size, round.count * size);
  }
}

void Group::ReduceStaged(const Request& request, const Round& round) {
  const Part own = PartOf(round.count, AllReducePart(round.count, size()), rank());
  for (int r = 0; r < size(); ++r) {
    outputs_[r] = StagingArea(r) + own.begin * SizeOf(request.dtype);
    inputs_[r] = outputs_[r];
  }
  if (own.size > 0) Reduce(inputs_, outputs_, own.size, request.dtype, request.reduction);
}

void Group::StageOut(const Request& request, const Round& round) {
  const int64_t size = SizeOf(request.dtype);
  const int64_t stride = StagedElements(request, this->size()) * size;
  char* const output = static_cast<char*>(request.output);
  switch (request.operation) {
    case Operation::kAllReduce:
      CopyOut(request, output + round.begin * size, StagingArea(rank()), round.count * size);
      break;
    case Operation::kBroadcast:
      CopyOut(request, output + round.begin * size, StagingArea(request.peer), round.count * size);
      break;
    case Operation::kReduceScatter: {
      for (int r = 0; r < this->size(); ++r) inputs_[r] = StagingArea(r) + rank() * stride;
      const int64_t count = PartInRound(request, round, rank()).size;
      if (count > 0) ReduceOwnPart(request, inputs_, round.begin, count, IsNonTemporal(request));
      break;
    }
    case Operation::kAllGather:
    case Operation::kAllToAll:
      for (int r = 0; r < this->size(); ++r) {
        const Part part = PartInRound(request, round, r);
        const int64_t at = request.operation == Operation::kAllToAll ? rank() * stride : 0;
        char* const to = output + part.begin * size;
        if (to - round.begin * size == request.input) continue;
        CopyOut(request, to, StagingArea(r) + at, part.size * size);
      }
      break;
    default:
      break;
  }
}

}  // namespace tessera::comm::shm
