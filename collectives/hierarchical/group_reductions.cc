// The reductions of a group on several hosts, made of reductions within hosts and on rails.
#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/hierarchical/group.h"
#include "collectives/reduce/reduce.h"
#include "collectives/requests.h"
#include "core/status/status_macros.h"

namespace tessera::comm::hierarchical {

absl::Status Group::RunCollective(const Request& request, uint64_t number) {
  RETURN_IF_ERROR(AgreeLocally(request, number));
  if (IsEager(request)) return RunEager(request, number);
  switch (request.operation) {
    case Operation::kAllReduce:
      return AllReduceChunks(request, number);
    case Operation::kReduceScatter:
      return placement_.is_regular ? ReduceScatterBlocks(request, number)
                                   : ReduceScatterByAllReduce(request, number);
    case Operation::kAllGather:
      return placement_.is_regular ? AllGatherBlocks(request, number)
                                   : AllGatherByBroadcast(request, number);
    case Operation::kAllToAll:
      return AllToAllMessages(request, number);
    case Operation::kBroadcast:
      return BroadcastChunks(request, number);
    default:  // a barrier
      RETURN_IF_ERROR(AgreeOnRail(number));
      return WaitFor(*subgroups_.local, subgroups_.local->Barrier());
  }
}

absl::Status Group::Run(const Request& request, uint64_t number) {
  absl::Status status = RunCollective(request, number);
  // The message of an abort already names its operation.
  if (status.ok() || absl::IsAborted(status) || absl::IsInvalidArgument(status)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), ", for ", Describe(request), ", operation ",
                                   number + 1, " of group '", name(), "'"));
}

absl::Status Group::AgreeLocally(const Request& request, uint64_t number) {
  Communicator& local = *subgroups_.local_requests;
  local_requests_.resize(local.size() + 1);
  LocalRequest& mine = local_requests_.back();
  mine.descriptor = DescriptorOf(request);
  if (IsEager(request)) {
    Copy(mine.data, request.input, InputElements(request, rank()) * SizeOf(request.dtype));
  }
  constexpr int64_t kLocalBytes = sizeof(LocalRequest), kBytes = sizeof(RequestDescriptor);
  RETURN_IF_ERROR(
      WaitFor(local, local.AllGather(&mine, local_requests_.data(), local.size() * kLocalBytes,
                                     kLocalBytes, DType::kU8)));
  std::vector<RequestDescriptor> descriptors;
  for (int r = 0; r < local.size(); ++r) descriptors.push_back(local_requests_[r].descriptor);
  RETURN_IF_ERROR(CompareRequests(name(), number + 1, descriptors, host_ranks()));
  if (subgroups_.rail_requests == nullptr) return absl::OkStatus();
  rail_requests_.resize(placement_.host_count());
  rail_ticket_ =
      subgroups_.rail_requests->AllGather(&mine.descriptor, rail_requests_.data(),
                                          placement_.host_count() * kBytes, kBytes, DType::kU8);
  return absl::OkStatus();
}

absl::Status Group::AgreeOnRail(uint64_t number) {
  if (subgroups_.rail_requests == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(WaitFor(*subgroups_.rail_requests, rail_ticket_));
  std::vector<int> ranks;
  for (const std::vector<int>& host : placement_.hosts) ranks.push_back(host[place().local]);
  return CompareRequests(name(), number + 1, rail_requests_, ranks);
}

char* Group::Scratch(int index, int64_t bytes) {
  Memory& memory = scratch_[index];
  if (memory.bytes < bytes) {
    memory.data.reset();
    memory.data.reset(new char[bytes]);
    memory.bytes = bytes;
  }
  return memory.data.get();
}

bool Group::IsEager(const Request& request) const {
  if (request.operation == Operation::kAllToAll) return false;
  return placement_.is_regular && request.count * SizeOf(request.dtype) <= kSmallBytes;
}

// Starts the operation on the rail. Sets *count to the number of sums, which are written to `sums`.
Ticket Group::StartEager(const Request& request, char* sums, int64_t* count) {
  Communicator& rail = *subgroups_.rail;
  const int locals = subgroups_.local->size();
  const int64_t size = SizeOf(request.dtype);
  const DType wide = PartialDType(request.dtype);
  char* const output = static_cast<char*>(request.output);
  const auto reduce = [&](Part part, char* sum) {
    std::vector<const void*> inputs;
    for (int r = 0; r < locals; ++r) inputs.push_back(local_requests_[r].data + part.begin * size);
    ReducePartially(inputs, sum, part.size, request.dtype, request.reduction);
  };
  Ticket ticket;
  switch (request.operation) {
    case Operation::kAllReduce:
      *count = request.count;
      reduce({0, *count}, sums);
      ticket = rail.AllReduce(sums, sums, *count, wide, request.reduction);
      break;
    case Operation::kReduceScatter:
      for (const std::vector<int>& host : placement_.hosts) {
        const Part part = PartOf(request.count, request.part, host[place().local]);
        reduce(part, sums + *count * SizeOf(wide));
        *count += part.size;
      }
      ticket = rail.ReduceScatter(
          sums, sums + PartOf(*count, request.part, rail.rank()).begin * SizeOf(wide), *count,
          request.part, wide, request.reduction);
      break;
    case Operation::kAllGather: {
      const int64_t block = request.part * locals;
      const Part own = PartOf(request.count, block, rail.rank());
      for (int r = 0; r < locals; ++r) {
        const Part part = PartOf(request.count, request.part, host_ranks()[r]);
        Copy(output + part.begin * size, local_requests_[r].data, part.size * size);
      }
      ticket =
          rail.AllGather(output + own.begin * size, output, request.count, block, request.dtype);
      break;
    }
    case Operation::kBroadcast: {
      const RankPlacement::Place& root = placement_.places[request.peer];
      ticket = rail.Broadcast(local_requests_[root.local].data, output, request.count,
                              request.dtype, root.host);
      break;
    }
    default:
      break;
  }
  return ticket;
}

absl::Status Group::RunEager(const Request& request, uint64_t number) {
  Communicator& rail = *subgroups_.rail;
  const DType wide = PartialDType(request.dtype);
  char* const output = static_cast<char*>(request.output);
  char* const sums = Scratch(0, kSmallBytes * SizeOf(DType::kF32));
  int64_t count = 0;  // of the sums
  const Ticket ticket = StartEager(request, sums, &count);
  RETURN_IF_ERROR(AgreeOnRail(number));
  // A rank that takes part on the rail has the requests of its host, so a barrier is complete.
  if (request.operation == Operation::kBarrier) return absl::OkStatus();
  RETURN_IF_ERROR(WaitFor(rail, ticket));
  if (request.operation == Operation::kAllReduce) {
    Finish(sums, count, request.dtype, output);
  } else if (request.operation == Operation::kReduceScatter) {
    const Part own = PartOf(count, request.part, rail.rank());
    Finish(sums + own.begin * SizeOf(wide), own.size, request.partial ? wide : request.dtype,
           output);
  }
  return absl::OkStatus();
}

// A chunk of elements that are reduced, and the address of their result, which has the dtype
// `result`.
struct Group::Chunk {
  const char* input = nullptr;
  char* output = nullptr;
  int64_t count = 0;
  DType dtype = DType::kF32, result = DType::kF32;
  Reduction reduction = Reduction::kSum;
  int scratch = 0;  // index of the Scratch with its partial sums

  int64_t part = 0;  // elements of the part that one rail reduces
  Part own;          // the part of this rank's rail
  Ticket ticket;     // on the rail

  // Returns whether partial sums are fp32 and the total is rounded to bf16 or fp16.
  bool is_rounded() const {
    return result == dtype && reduction == Reduction::kSum && PartialDType(dtype) != dtype;
  }
  char* own_output() const { return output + own.begin * SizeOf(result); }
};

// Reduces this rank's part within the host, and starts its reduction on the rail.
absl::Status Group::ReduceWithinHost(Chunk& chunk) {
  Communicator& local = *subgroups_.local;
  chunk.part = AllReducePart(chunk.count, placement_.rails);
  chunk.own = PartOf(chunk.count, chunk.part, place().local);
  const bool is_rounded = chunk.is_rounded();
  char* const reduced = is_rounded ? Scratch(chunk.scratch, chunk.own.size * SizeOf(DType::kF32))
                                   : chunk.own_output();
  RETURN_IF_ERROR(
      WaitFor(local, local.Issue({.operation = Operation::kReduceScatter,
                                  .dtype = chunk.dtype,
                                  .reduction = chunk.reduction,
                                  .input = chunk.input,
                                  .output = reduced,
                                  .count = chunk.count,
                                  .part = chunk.part,
                                  .partial = is_rounded || chunk.result != chunk.dtype})));
  if (chunk.own.size == 0) return absl::OkStatus();
  Communicator& rail = *subgroups_.rail;
  if (is_rounded) {
    const int64_t part = AllReducePart(chunk.own.size, rail.size());
    char* const own = reduced + PartOf(chunk.own.size, part, rail.rank()).begin * sizeof(float);
    chunk.ticket = rail.ReduceScatter(reduced, own, chunk.own.size, part, DType::kF32);
  } else {
    chunk.ticket = rail.AllReduce(reduced, reduced, chunk.own.size, chunk.result, chunk.reduction);
  }
  return absl::OkStatus();
}

// For bf16 and fp16: rounds the share of its part that this rank reduced on the rail, and starts to
// gather the shares of the rail's other ranks.
absl::Status Group::RoundSums(Chunk& chunk) {
  if (!chunk.is_rounded() || chunk.own.size == 0) return absl::OkStatus();
  Communicator& rail = *subgroups_.rail;
  RETURN_IF_ERROR(WaitFor(rail, chunk.ticket));
  const int64_t part = AllReducePart(chunk.own.size, rail.size());
  const Part own = PartOf(chunk.own.size, part, rail.rank());
  const char* const sums =
      Scratch(chunk.scratch, chunk.own.size * SizeOf(DType::kF32)) + own.begin * sizeof(float);
  char* const rounded = chunk.own_output() + own.begin * SizeOf(chunk.dtype);
  Finish(sums, own.size, chunk.dtype, rounded);
  chunk.ticket = rail.AllGather(rounded, chunk.own_output(), chunk.own.size, part, chunk.dtype);
  return absl::OkStatus();
}

absl::Status Group::GatherWithinHost(Chunk& chunk) {
  if (chunk.own.size > 0) RETURN_IF_ERROR(WaitFor(*subgroups_.rail, chunk.ticket));
  Communicator& local = *subgroups_.local;
  return WaitFor(local, local.AllGather(chunk.own_output(), chunk.output, chunk.count, chunk.part,
                                        chunk.result));
}

// Three chunks are in flight at a time: one is reduced within the host, one is on the rail, and one
// is gathered within the host.
absl::Status Group::AllReduceChunks(const Request& request, uint64_t number) {
  const int64_t elements = ChunkElements(request.dtype);
  const int64_t chunks = (request.count + elements - 1) / elements;
  std::array<Chunk, 3> ring;
  for (int64_t k = 0; k < std::max<int64_t>(chunks, 1) + 2; ++k) {
    if (k < chunks) {
      Chunk& chunk = ring[k % 3] = Chunk();
      const int64_t begin = k * elements * SizeOf(request.dtype);
      chunk.input = Bytes(request.input, begin);
      chunk.output = Bytes(request.output, begin);
      chunk.count = std::min(elements, request.count - k * elements);
      chunk.dtype = chunk.result = request.dtype;
      chunk.reduction = request.reduction;
      chunk.scratch = static_cast<int>(k % 2);
      RETURN_IF_ERROR(ReduceWithinHost(chunk));
    }
    if (k == 0) RETURN_IF_ERROR(AgreeOnRail(number));
    if (k >= 1 && k - 1 < chunks) RETURN_IF_ERROR(RoundSums(ring[(k - 1) % 3]));
    if (k >= 2 && k - 2 < chunks) RETURN_IF_ERROR(GatherWithinHost(ring[(k - 2) % 3]));
  }
  return absl::OkStatus();
}

// Each host needs from another one only the sums of its own ranks' parts. For each host, every rank
// of this host reduces one of these parts and sends it along its rail.
absl::Status Group::ReduceScatterBlocks(const Request& request, uint64_t number) {
  Communicator& local = *subgroups_.local;
  Communicator& rail = *subgroups_.rail;
  const int64_t block = request.part * local.size();
  const bool is_wide = request.partial || request.reduction == Reduction::kSum;
  const DType sums_dtype = is_wide ? PartialDType(request.dtype) : request.dtype;
  const int64_t size = SizeOf(sums_dtype);
  char* const sums = Scratch(0, request.part * placement_.host_count() * size);
  int64_t count = 0;  // of the sums
  for (int host = 0; host < placement_.host_count(); ++host) {
    const int64_t begin = std::min(request.count, host * block);
    Request within = request;
    within.input = Bytes(request.input, begin * SizeOf(request.dtype));
    within.output = sums + host * request.part * size;
    within.count = std::min(block, request.count - begin);
    within.partial = is_wide;
    RETURN_IF_ERROR(WaitFor(local, local.Issue(within)));
    count += PartOf(within.count, request.part, local.rank()).size;
  }
  const bool is_rounded = !request.partial && sums_dtype != request.dtype;
  char* const own = sums + PartOf(count, request.part, rail.rank()).begin * size;
  const Ticket ticket = rail.ReduceScatter(sums, is_rounded ? own : request.output, count,
                                           request.part, sums_dtype, request.reduction);
  RETURN_IF_ERROR(AgreeOnRail(number));
  RETURN_IF_ERROR(WaitFor(rail, ticket));
  if (is_rounded) {
    Finish(own, PartOf(request.count, request.part, rank()).size, request.dtype, request.output);
  }
  return absl::OkStatus();
}

// All-reduces each part; only one rank keeps it.
absl::Status Group::ReduceScatterByAllReduce(const Request& request, uint64_t number) {
  RETURN_IF_ERROR(AgreeOnRail(number));
  const DType result = request.partial ? PartialDType(request.dtype) : request.dtype;
  const int64_t elements = std::min(ChunkElements(request.dtype), request.part);
  for (int r = 0; r < size(); ++r) {
    const Part part = PartOf(request.count, request.part, r);
    for (int64_t begin = 0; begin < part.size; begin += elements) {
      Chunk chunk;
      chunk.input = Bytes(request.input, (part.begin + begin) * SizeOf(request.dtype));
      chunk.output = r == rank() ? Bytes(request.output, begin * SizeOf(result))
                                 : Scratch(2, elements * SizeOf(result));
      chunk.count = std::min(elements, part.size - begin);
      chunk.dtype = request.dtype;
      chunk.result = result;
      chunk.reduction = request.reduction;
      RETURN_IF_ERROR(ReduceWithinHost(chunk));
      RETURN_IF_ERROR(RoundSums(chunk));
      RETURN_IF_ERROR(GatherWithinHost(chunk));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::comm::hierarchical
