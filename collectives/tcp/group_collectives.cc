// How collectives advance.
#include <algorithm>
#include <vector>

#include "collectives/reduce/reduce.h"
#include "collectives/tcp/group.h"

namespace tessera::comm::tcp {
namespace {

// The most pieces of a flow that wait in the connection: enough to keep it busy, and few enough
// that pieces of another group get their share.
constexpr int kPending = 2;

// Copies a rank's own part to the output, except for its unread elements.
void CopyOwnPart(const Request& request, const Part& own, const char* from, char* to) {
  const int64_t size = SizeOf(request.dtype);
  const int64_t begin = request.unread.size > 0 ? request.unread.begin - own.begin : own.size;
  const int64_t end = begin + request.unread.size;
  Copy(to, from, begin * size);
  Copy(to + end * size, from + end * size, (own.size - end) * size);
}

// Returns the ranks to which `rank` forwards a broadcast. Counted from the root, their numbers
// differ from its own in one of the zero bits below its lowest one bit.
std::vector<int> Children(int rank, int root, int ranks) {
  std::vector<int> children;
  const int own = (rank - root + ranks) % ranks;
  for (int bit = 1; own + bit < ranks && (own & bit) == 0; bit *= 2) {
    children.push_back((own + bit + root) % ranks);
  }
  // The child with the largest subtree is first.
  std::reverse(children.begin(), children.end());
  return children;
}

int ParentOf(int rank, int root, int ranks) {
  const int own = (rank - root + ranks) % ranks;
  return ((own & (own - 1)) + root) % ranks;
}

}  // namespace

void Group::Post(int channel, Lane lane, int to, const char* data, int64_t bytes) {
  const Request& request = First(channel);
  const Header header = {.kind = Kind::kRequest,
                         .lane = lane,
                         .coverage = contents_ == Contents::kControl,
                         .bytes = static_cast<int32_t>(bytes),
                         .group = id_,
                         .number = Done(channel),
                         .request = DescriptorOf(request)};
  network_->Send(ranks_[to], header, data, nullptr);
  CountSent(request.operation, bytes);
}

void Group::PostCollective() {
  const Request& request = First(0);
  const int64_t size = SizeOf(request.dtype);
  first_[0].is_posted = true;
  if (!IsSmall(request)) PlanFlows(request);
  // Begins with the next rank, so that not all send to the same rank.
  for (int k = 1; k < this->size(); ++k) {
    const int r = (rank() + k) % this->size();
    const Part part = IsSmall(request) ? InputFor(request, rank(), r) : Part();
    Post(0, Lane::kCollective, r, Bytes(request.input, part.begin * size), part.size * size);
  }
}

void Group::PlanFlows(const Request& request) {
  switch (request.operation) {
    case Operation::kAllReduce:
      return PlanReduction(request, AllReducePart(request.count, size()));
    case Operation::kReduceScatter:
      return PlanReduction(request, request.part);
    case Operation::kAllGather:
    case Operation::kAllToAll:
      return PlanExchange(request);
    case Operation::kBroadcast:
      return PlanBroadcast(request);
    default:
      break;
  }
}

// Each rank sends its part to all, or a different part to each.
void Group::PlanExchange(const Request& request) {
  const int64_t size = SizeOf(request.dtype);
  const bool all_to_all = request.operation == Operation::kAllToAll;
  for (int r = 0; r < this->size(); ++r) {
    const Part to_it = all_to_all ? PartOf(request.count, request.part, r)
                                  : Part{0, PartOf(request.count, request.part, rank()).size};
    const Part from_it = PartOf(request.count, request.part, r);
    const char* const from = Bytes(request.input, to_it.begin * size);
    char* const to = Bytes(request.output, from_it.begin * size);
    if (r == rank()) {
      CopyOwnPart(request, from_it, from, to);
    } else {
      flows_[r].out[1] = {from, to_it.size * size, to_it.size * size};
      flows_[r].in[1] = {to, from_it.size * size};
    }
  }
}

// Each rank reduces one part, for which the others send their values. In an all-reduce it sends
// them the result.
void Group::PlanReduction(const Request& request, int64_t part) {
  const int64_t size = SizeOf(request.dtype);
  const Part own = PartOf(request.count, part, rank());
  for (int r = 0; r < this->size(); ++r) {
    if (r == rank()) continue;
    const Part theirs = PartOf(request.count, part, r);
    PeerFlows& flows = flows_[r];
    const int64_t bytes = theirs.size * size;
    flows.out[0] = {Bytes(request.input, theirs.begin * size), bytes,
                    std::min(bytes, kScratchBytes)};
    flows.in[0] = {nullptr, own.size * size};
    if (own.size > 0) flows.in[0].scratch = network_->TakeScratch();
    if (request.operation != Operation::kAllReduce) continue;
    flows.out[1] = {Bytes(request.output, own.begin * size), own.size * size};
    flows.in[1] = {Bytes(request.output, theirs.begin * size), bytes};
  }
}

// Sends the data down a binomial tree.
void Group::PlanBroadcast(const Request& request) {
  const int64_t bytes = request.count * SizeOf(request.dtype);
  const bool is_root = rank() == request.peer;
  char* const output = Bytes(request.output, 0);
  if (is_root) {
    Copy(output, request.input, bytes);
  } else {
    flows_[ParentOf(rank(), request.peer, size())].in[1] = {output, bytes};
  }
  for (int child : Children(rank(), request.peer, size())) {
    flows_[child].out[1] = {output, bytes, is_root ? bytes : 0};
  }
}

bool Group::AdvanceCollective() {
  const Request& request = First(0);
  if (!first_[0].is_posted) {
    PostCollective();
    return true;
  }
  bool moved = !first_[0].is_agreed && Agree();
  if (!is_ok()) return false;
  if (IsSmall(request)) {
    if (!first_[0].is_agreed) return moved;
    FinishEager();
    EndCollective();
    return true;
  }
  while (ReducePiece()) moved = true;
  bool done = false;
  if (SendFlows(&done)) moved = true;
  if (!done || !first_[0].is_agreed) return moved;
  EndCollective();
  return true;
}

bool Group::SendFlows(bool* done) {
  const Request& request = First(0);
  bool moved = false;
  *done = true;
  for (int k = 1; k < size(); ++k) {
    const int r = (rank() + k) % size();
    PeerFlows& flows = flows_[r];
    if (request.operation == Operation::kBroadcast && rank() != request.peer) {
      flows.out[1].allowed = std::min(flows.out[1].bytes,
                                      flows_[ParentOf(rank(), request.peer, size())].in[1].arrived);
    }
    for (int stage : {1, 0}) {  // stage 1 first: it may be the last one
      if (flows.is_agreed && SendPieces(0, Lane::kCollective, stage, r, flows.out[stage])) {
        Moved(0);
        moved = true;
      }
      *done = *done && flows.out[stage].done() && flows.in[stage].done();
    }
  }
  return moved;
}

// Compares the peers' requests with this rank's, and allows data to be sent to those that match.
// Fails once all requests are there and one differs. Returns whether anything has changed.
bool Group::Agree() {
  const Request& request = First(0);
  const RequestDescriptor mine = DescriptorOf(request);
  bool moved = false, all_arrived = true, all_agree = true;
  for (int r = 0; r < size(); ++r) {
    PeerFlows& flows = flows_[r];
    if (r == rank() || flows.is_agreed) continue;
    const PeerRequest* const theirs = flows.requests.Find(Done(0));
    const int64_t bytes =
        IsSmall(request) ? InputFor(request, r, rank()).size * SizeOf(request.dtype) : 0;
    flows.is_agreed =
        theirs != nullptr && theirs->header.request == mine && theirs->header.bytes == bytes;
    moved = moved || flows.is_agreed;
    all_arrived = all_arrived && theirs != nullptr;
    all_agree = all_agree && flows.is_agreed;
  }
  first_[0].is_agreed = all_agree;
  if (all_agree || !all_arrived) return moved;
  std::vector<RequestDescriptor> descriptors;
  for (int r = 0; r < size(); ++r) {
    descriptors.push_back(r == rank() ? mine : flows_[r].requests.Find(Done(0))->header.request);
  }
  Fail(Disagreement(name(), Done(0) + 1, descriptors));
  return true;
}

// Completes a collective whose data all came with the requests.
void Group::FinishEager() {
  const Request& request = First(0);
  for (int r = 0; r < size(); ++r) {
    const int64_t begin = InputFor(request, r, r).begin * SizeOf(request.dtype);
    inputs_[r] =
        r == rank() ? Bytes(request.input, begin) : flows_[r].requests.Find(Done(0))->data.data();
  }
  WriteOutput(request, rank(), inputs_);
}

// Reduces the next piece of this rank's part, if all have sent it.
bool Group::ReducePiece() {
  const Request& request = First(0);
  const bool is_all_reduce = request.operation == Operation::kAllReduce;
  if (!is_all_reduce && request.operation != Operation::kReduceScatter) return false;
  const int64_t size = SizeOf(request.dtype);
  const int64_t part = is_all_reduce ? AllReducePart(request.count, this->size()) : request.part;
  const Part own = PartOf(request.count, part, rank());
  const int64_t own_bytes = own.size * size;
  const int64_t piece_bytes = std::min<int64_t>(kPieceBytes, own_bytes - reduced_);
  if (piece_bytes == 0) return false;
  for (int r = 0; r < this->size(); ++r) {
    const Inflow& in = flows_[r].in[0];
    if (r == rank()) {
      inputs_[r] = Bytes(request.input, own.begin * size + reduced_);
    } else if (in.arrived < reduced_ + piece_bytes) {
      return false;
    } else {
      inputs_[r] = in.AddressOf(reduced_);
    }
  }
  if (is_all_reduce) {
    char* const output = Bytes(request.output, own.begin * size + reduced_);
    Reduce(inputs_, {output}, piece_bytes / size, request.dtype, request.reduction);
  } else {
    ReduceOwnPart(request, inputs_, reduced_ / size, piece_bytes / size);
  }
  reduced_ += piece_bytes;
  SendCredit(is_all_reduce, own_bytes);
  return true;
}

// Reports to the peers how much this rank has reduced, so that they may send as much more. In an
// all-reduce, the results that they receive show it.
void Group::SendCredit(bool is_all_reduce, int64_t part_bytes) {
  const Header header = {
      .kind = Kind::kCredit, .group = id_, .number = Done(0), .offset = reduced_};
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    if (is_all_reduce) {
      flows_[r].out[1].allowed = reduced_;
    } else if (reduced_ - kPieceBytes + kScratchBytes < part_bytes) {
      network_->Send(ranks_[r], header, nullptr, nullptr);
    }
  }
}

bool Group::SendPieces(int channel, Lane lane, int stage, int to, Outflow& out) {
  bool moved = false;
  while (out.sent < out.allowed && out.pending < kPending) {
    const int64_t piece_bytes = std::min<int64_t>(kPieceBytes, out.allowed - out.sent);
    // All pieces but the last are full.
    if (piece_bytes < kPieceBytes && out.allowed < out.bytes) break;
    const Header header = {.kind = Kind::kData,
                           .lane = lane,
                           .stage = static_cast<uint8_t>(stage),
                           .coverage = contents_ == Contents::kControl,
                           .bytes = static_cast<int32_t>(piece_bytes),
                           .group = id_,
                           .number = Done(channel),
                           .offset = out.sent};
    const char* const data = out.data + out.sent;
    out.sent += piece_bytes;
    network_->Send(ranks_[to], header, data, &out.pending);
    CountSent(First(channel).operation, piece_bytes);
    moved = true;
  }
  return moved;
}

}  // namespace tessera::comm::tcp
