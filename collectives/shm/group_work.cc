// What a rank does of a collective: on data in slots, where it lies, or through staging areas.
#include <algorithm>

#include "collectives/reduce/reduce.h"
#include "collectives/shm/group.h"
#include "collectives/shm/requests.h"

namespace tessera::comm::shm {
namespace {

// Whether a rank gives each of the others another part.
bool HasPartForEach(const Request& request) {
  return request.operation == Operation::kReduceScatter ||
         request.operation == Operation::kAllToAll;
}

// Whether what an operation puts out is too large to be found in a cache afterwards.
bool IsPastCaches(const Request& request) {
  constexpr int64_t kCacheBytes = int64_t{32} << 20;
  return request.count * SizeOf(request.dtype) >= kCacheBytes;
}

// Copies a piece of what an operation puts out.
void PutOut(const Request& request, void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from && IsPastCaches(request)) {
    CopyPastCaches(to, from, bytes);
  } else {
    Copy(to, from, bytes);
  }
}

// Elements that go through a staging area in a round: of the buffer, or of each part.
int64_t StagedElements(const Request& request, int ranks) {
  const int64_t elements =
      kStagingBytes / SizeOf(request.dtype) / (HasPartForEach(request) ? ranks : 1);
  constexpr int64_t kGrain = 64;
  return std::max<int64_t>(1, elements / kGrain * kGrain);
}

}  // namespace

int64_t Group::BytesSent(const Request& request, Way way) const {
  const int64_t peers = size() - 1;
  // This rank's part goes to all others, or all parts but its own to where they belong.
  const auto gathered = [&](int64_t count, int64_t part) {
    return PartOf(count, part, rank()).size * peers;
  };
  const auto scattered = [&](int64_t count, int64_t part) {
    return count - PartOf(count, part, rank()).size;
  };
  int64_t elements = 0;
  switch (request.operation) {
    case Operation::kAllReduce: {
      if (way == Way::kEager) {
        elements = request.count * peers;
        break;
      }
      const int64_t round = way == Way::kDirect ? request.count : StagedElements(request, size());
      for (int64_t begin = 0; begin < request.count; begin += round) {
        const int64_t count = std::min(round, request.count - begin);
        const int64_t part = AllReducePart(count, size());
        elements += scattered(count, part) + gathered(count, part);
      }
      break;
    }
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      elements = scattered(request.count, request.part);
      break;
    case Operation::kAllGather:
      elements = gathered(request.count, request.part);
      break;
    case Operation::kBroadcast:
      elements = rank() == request.peer ? request.count * peers : 0;
      break;
    default:
      break;
  }
  return elements * SizeOf(request.dtype);
}

void Group::WorkAlone(const Request& request) {
  if (request.operation == Operation::kReduceScatter) {
    return ReduceOwnPart(request, {request.input}, 0, PartOf(request.count, request.part, 0).size);
  }
  Copy(request.output, request.input, InputElements(request, 0) * SizeOf(request.dtype));
}

Group::Next Group::Work(Queued& operation) {
  switch (operation.way) {
    case Way::kEager:
      WorkEager(operation);
      return Next::kEnd;
    case Way::kDirect:
      return WorkDirect(operation);
    case Way::kStaged:
      return WorkStaged(operation);
  }
  return Next::kEnd;
}

// Everything that is needed lies in the slots.
void Group::WorkEager(const Queued& operation) {
  const Request& request = operation.request;
  const int64_t size = SizeOf(request.dtype);
  char* const output = static_cast<char*>(request.output);
  const auto data = [&](int r) { return SlotOf(r, operation.number).data; };
  const Part own = PartOf(request.count, request.part, rank());
  switch (request.operation) {
    case Operation::kAllReduce:
      for (int r = 0; r < this->size(); ++r) inputs_[r] = data(r);
      Reduce(inputs_, {output}, request.count, request.dtype, request.reduction);
      break;
    case Operation::kReduceScatter:
      for (int r = 0; r < this->size(); ++r) inputs_[r] = data(r) + own.begin * size;
      ReduceOwnPart(request, inputs_, 0, own.size);
      break;
    case Operation::kAllGather:
      for (int r = 0; r < this->size(); ++r) {
        const Part part = PartOf(request.count, request.part, r);
        char* const to = output + part.begin * size;
        if (to != request.input) Copy(to, data(r), part.size * size);
      }
      break;
    case Operation::kAllToAll:
      for (int r = 0; r < this->size(); ++r) {
        Copy(output + r * request.part * size, data(r) + own.begin * size, request.part * size);
      }
      break;
    case Operation::kBroadcast:
      Copy(output, data(request.peer), request.count * size);
      break;
    default:
      break;
  }
}

// All that peers read, and of an all-reduce all that they write, lies in shared memory. Each rank
// does its share where it lies, and then meets the others.
Group::Next Group::WorkDirect(Queued& operation) {
  if (operation.step == 1) return Next::kEnd;
  const Operation kind = operation.request.operation;
  const bool reduces = kind == Operation::kAllReduce || kind == Operation::kReduceScatter;
  const bool more = reduces ? ReduceDirect(operation) : CopyDirect(operation);
  if (more) return Next::kMore;
  operation.step = 1;
  return Next::kMeet;
}

char* Group::InputOf(const Queued& operation, int rank) const {
  return host_->Find(ranks_[rank], SlotOf(rank, operation.number).wanted.input);
}

// A piece of this rank's part: to its output, or to all outputs. Whether there is more.
bool Group::ReduceDirect(Queued& operation) {
  const Request& request = operation.request;
  const int64_t size = SizeOf(request.dtype);
  const bool all = request.operation == Operation::kAllReduce;
  const int64_t part = all ? AllReducePart(request.count, this->size()) : request.part;
  const Part own = PartOf(request.count, part, rank());
  const int64_t now = std::min(kPieceBytes / size, own.size - operation.position);
  const int64_t offset = (own.begin + operation.position) * size;
  for (int r = 0; r < this->size(); ++r) {
    inputs_[r] = InputOf(operation, r) + offset;
    if (!all) continue;
    outputs_[r] = host_->Find(ranks_[r], SlotOf(r, operation.number).wanted.output) + offset;
  }
  const bool past_caches = IsPastCaches(request);
  if (now > 0 && all) {
    Reduce(inputs_, outputs_, now, request.dtype, request.reduction, past_caches);
  } else if (now > 0) {
    ReduceOwnPart(request, inputs_, operation.position, now, past_caches);
  }
  operation.position += now;
  return operation.position < own.size;
}

// A piece of what this rank takes from the others. Whether there is more.
bool Group::CopyDirect(Queued& operation) {
  const Request& request = operation.request;
  const int64_t size = SizeOf(request.dtype);
  char* const output = static_cast<char*>(request.output);
  if (request.operation == Operation::kBroadcast) {
    const int64_t at = operation.position;
    const int64_t now = std::min(kPieceBytes / size, request.count - at);
    PutOut(request, output + at * size, InputOf(operation, request.peer) + at * size, now * size);
    operation.position += now;
    return operation.position < request.count;
  }
  // From one rank after another, the next one first, so that not all read the same memory.
  const int from =
      static_cast<int>((rank() + 1 + operation.position / request.part) % this->size());
  const int64_t at = operation.position % request.part;
  const Part part = PartOf(request.count, request.part, from);
  const int64_t now = std::min(kPieceBytes / size, part.size - at);
  if (now > 0) {
    const int64_t theirs = request.operation == Operation::kAllToAll ? rank() * request.part : 0;
    PutOut(request, output + (part.begin + at) * size,
           InputOf(operation, from) + (theirs + at) * size, now * size);
  }
  // Parts may be shorter than they are counted here.
  operation.position += now > 0 && at + now < part.size ? now : request.part - at;
  return operation.position < request.part * this->size();
}

// In rounds through staging areas: copy in, meet, and take what the others have there. Areas take
// turns: before one is filled again, all have met in the next round, and so have left this one. An
// all-reduce reduces into the areas, meets once more, and copies out.
Group::Next Group::WorkStaged(Queued& operation) {
  const Request& request = operation.request;
  const bool all_reduce = request.operation == Operation::kAllReduce;
  const bool is_cut = HasPartForEach(request) || request.operation == Operation::kAllGather;
  const int64_t end = is_cut ? request.part : request.count;
  const Round round = {operation.position,
                       std::min(StagedElements(request, size()), end - operation.position)};
  if (operation.step == 0) {
    StageIn(request, round);
    operation.step = 1;
    return Next::kMeet;
  }
  if (operation.step == 1 && all_reduce) {
    ReduceStaged(request, round);
    operation.step = 2;
    return Next::kMeet;
  }
  StageOut(request, round);
  ++staging_rounds_;
  operation.position += round.count;
  operation.step = 0;
  return operation.position < end ? Next::kMore : Next::kEnd;
}

char* Group::Area(int rank) const { return members_[rank]->staging[staging_rounds_ % 2]; }

// The elements of a round in a rank's part, as far as there are any.
Part Group::PartInRound(const Request& request, const Round& round, int rank) {
  const Part part = PartOf(request.count, request.part, rank);
  return {part.begin + round.begin,
          std::max<int64_t>(0, std::min(round.count, part.size - round.begin))};
}

void Group::StageIn(const Request& request, const Round& round) {
  const int64_t size = SizeOf(request.dtype);
  const char* const input = static_cast<const char*>(request.input);
  char* const area = Area(rank());
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
    outputs_[r] = Area(r) + own.begin * SizeOf(request.dtype);
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
      PutOut(request, output + round.begin * size, Area(rank()), round.count * size);
      break;
    case Operation::kBroadcast:
      PutOut(request, output + round.begin * size, Area(request.peer), round.count * size);
      break;
    case Operation::kReduceScatter: {
      for (int r = 0; r < this->size(); ++r) inputs_[r] = Area(r) + rank() * stride;
      const int64_t count = PartInRound(request, round, rank()).size;
      if (count > 0) ReduceOwnPart(request, inputs_, round.begin, count, IsPastCaches(request));
      break;
    }
    case Operation::kAllGather:
    case Operation::kAllToAll:
      for (int r = 0; r < this->size(); ++r) {
        const Part part = PartInRound(request, round, r);
        const int64_t at = request.operation == Operation::kAllToAll ? rank() * stride : 0;
        char* const to = output + part.begin * size;
        if (to - round.begin * size == request.input) continue;
        PutOut(request, to, Area(r) + at, part.size * size);
      }
      break;
    default:
      break;
  }
}

}  // namespace tessera::comm::shm
