// The copying collectives of a group on several hosts, made of collectives within hosts and on
// rails.
#include <algorithm>
#include <vector>

#include "collectives/hierarchical/group.h"
#include "collectives/requests.h"
#include "core/status/status_macros.h"

namespace tessera::comm::hierarchical {

absl::Status Group::WaitForAll(Communicator& subgroup, absl::Span<const Ticket> tickets) {
  for (const Ticket& ticket : tickets) RETURN_IF_ERROR(WaitFor(subgroup, ticket));
  return absl::OkStatus();
}

// Each rank sends its part along its rail; then the ranks of a host gather the parts of each other
// host among themselves.
absl::Status Group::AllGatherBlocks(const Request& request, uint64_t number) {
  Communicator& local = *subgroups_.local;
  Communicator& rail = *subgroups_.rail;
  const int64_t size = SizeOf(request.dtype);
  const int64_t block = request.part * local.size();
  const Part own = PartOf(request.count, request.part, rank());
  const int hosts = placement_.host_count();
  std::vector<Ticket> sends, receives(hosts);
  const auto part_of = [&](int host) {
    return PartOf(request.count, request.part, placement_.hosts[host][place().local]);
  };
  for (int k = 1; k < hosts; ++k) {
    const int to = (place().host + k) % hosts, from = (place().host + hosts - k) % hosts;
    const Part theirs = part_of(from);
    receives[from] =
        rail.Receive(Bytes(request.output, theirs.begin * size), theirs.size, request.dtype, from);
    sends.push_back(rail.Send(request.input, own.size, request.dtype, to));
  }
  for (int k = 0; k < hosts; ++k) {
    const int host = (place().host + hosts - k) % hosts;
    if (k == 1) RETURN_IF_ERROR(AgreeOnRail(number));
    if (k > 0) RETURN_IF_ERROR(WaitFor(rail, receives[host]));
    const int64_t begin = std::min(request.count, host * block);
    const void* const input =
        k == 0 ? request.input : Bytes(request.output, part_of(host).begin * size);
    RETURN_IF_ERROR(WaitFor(local, local.AllGather(input, Bytes(request.output, begin * size),
                                                   std::min(block, request.count - begin),
                                                   request.part, request.dtype)));
  }
  return WaitForAll(rail, sends);
}

absl::Status Group::AllGatherByBroadcast(const Request& request, uint64_t number) {
  RETURN_IF_ERROR(AgreeOnRail(number));
  for (int r = 0; r < size(); ++r) {
    const Part part = PartOf(request.count, request.part, r);
    RETURN_IF_ERROR(BroadcastFrom(r, request.input,
                                  Bytes(request.output, part.begin * SizeOf(request.dtype)),
                                  part.size, request.dtype));
  }
  return absl::OkStatus();
}

// Sends one message for each pair of ranks: between hosts an all-to-all cannot send fewer bytes.
absl::Status Group::AllToAllMessages(const Request& request, uint64_t number) {
  const int64_t bytes = request.part * SizeOf(request.dtype);
  std::vector<Ticket> tickets;
  for (int k = 1; k < size(); ++k) {
    const int to = (rank() + k) % size(), from = (rank() + size() - k) % size();
    const auto is_far = [&](int r) {
      return !placement_.is_regular || placement_.places[r].host != place().host;
    };
    if (is_far(from)) {
      tickets.push_back(subgroups_.all->Receive(Bytes(request.output, from * bytes), request.part,
                                                request.dtype, from));
    }
    if (is_far(to)) {
      tickets.push_back(
          subgroups_.all->Send(Bytes(request.input, to * bytes), request.part, request.dtype, to));
    }
  }
  if (placement_.is_regular) {
    Communicator& local = *subgroups_.local;
    const int64_t begin = host_ranks().front() * bytes;
    RETURN_IF_ERROR(
        WaitFor(local, local.AllToAll(Bytes(request.input, begin), Bytes(request.output, begin),
                                      request.part, request.dtype)));
  } else {
    Copy(Bytes(request.output, rank() * bytes), Bytes(request.input, rank() * bytes), bytes);
  }
  RETURN_IF_ERROR(AgreeOnRail(number));
  return WaitForAll(*subgroups_.all, tickets);
}

absl::Status Group::BroadcastChunks(const Request& request, uint64_t number) {
  RETURN_IF_ERROR(AgreeOnRail(number));
  return BroadcastFrom(request.peer, request.input, static_cast<char*>(request.output),
                       request.count, request.dtype);
}

// Broadcasts to the other hosts on the root's rail, and within each host from the rank on that
// rail. A root that is on no rail passes the data to its host's rank on the first rail.
absl::Status Group::BroadcastFrom(int root, const void* input, char* output, int64_t count,
                                  DType dtype) {
  Communicator& local = *subgroups_.local;
  const RankPlacement::Place& from = placement_.places[root];
  const bool is_on_rail = from.local < placement_.rails;
  const int rail = is_on_rail ? from.local : 0;
  const bool is_root = rank() == root;
  const bool is_here = from.host == place().host;
  const int64_t elements = ChunkElements(dtype);
  const int64_t chunks = (count + elements - 1) / elements;
  Ticket tickets[2];  // on the rail
  const auto start = [&](int64_t k) -> absl::Status {
    const int64_t begin = k * elements;
    const int64_t chunk_count = std::min(elements, count - begin);
    char* const to = output + begin * SizeOf(dtype);
    const void* const data = is_root ? Bytes(input, begin * SizeOf(dtype)) : nullptr;
    if (!is_on_rail && is_here) {
      RETURN_IF_ERROR(WaitFor(local, local.Broadcast(data, to, chunk_count, dtype, from.local)));
    }
    if (place().local != rail) return absl::OkStatus();
    const void* const source = is_on_rail ? data : is_here ? to : nullptr;
    tickets[k % 2] = subgroups_.rail->Broadcast(source, to, chunk_count, dtype, from.host);
    return absl::OkStatus();
  };
  if (chunks > 0) RETURN_IF_ERROR(start(0));
  for (int64_t k = 0; k < chunks; ++k) {
    if (k + 1 < chunks) RETURN_IF_ERROR(start(k + 1));
    if (place().local == rail) RETURN_IF_ERROR(WaitFor(*subgroups_.rail, tickets[k % 2]));
    if (!is_on_rail && is_here) continue;
    char* const to = output + k * elements * SizeOf(dtype);
    RETURN_IF_ERROR(WaitFor(
        local, local.Broadcast(to, to, std::min(elements, count - k * elements), dtype, rail)));
  }
  return absl::OkStatus();
}

}  // namespace tessera::comm::hierarchical
