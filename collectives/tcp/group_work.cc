// How collectives go.
#include <algorithm>
#include <vector>

#include "collectives/reduce/reduce.h"
#include "collectives/tcp/group.h"
#include "collectives/tcp/requests.h"

namespace tessera::comm::tcp {
namespace {

// Pieces of a flow that the connection has not written: enough to keep it busy, and few enough that
// another group's come between them.
constexpr int kPending = 2;

// The ranks to which a rank hands a broadcast on: those that differ from it in one of the zeros
// behind its last one, all counted from the root.
std::vector<int> Children(int rank, int root, int ranks) {
  std::vector<int> children;
  const int own = (rank - root + ranks) % ranks;
  for (int bit = 1; own + bit < ranks && (own & bit) == 0; bit *= 2) {
    children.push_back((own + bit + root) % ranks);
  }
  // The largest subtree first.
  std::reverse(children.begin(), children.end());
  return children;
}

int ParentOf(int rank, int root, int ranks) {
  const int own = (rank - root + ranks) % ranks;
  return ((own & (own - 1)) + root) % ranks;
}

}  // namespace

void Group::Post(const Queued& operation, Lane lane, int to, const char* data, int64_t bytes) {
  const Request& request = operation.request;
  Header header;
  header.kind = Kind::kWish;
  header.lane = lane;
  header.operation = request.operation;
  header.dtype = request.dtype;
  header.reduction = request.reduction;
  header.peer = request.peer;
  header.partial = request.partial ? 1 : 0;
  header.bytes = static_cast<int32_t>(bytes);
  header.group = id_;
  header.number = operation.number;
  header.count = request.count;
  header.part = request.part;
  network_->Send(ranks_[to], header, data, nullptr);
  CountSent(request.operation, bytes);
}

void Group::PostCollective(Queued& operation) {
  const Request& request = operation.request;
  const int64_t size = SizeOf(request.dtype);
  operation.posted = true;
  if (!IsEager(request)) PlanFlows(request);
  // The next rank first, so that not all send to the same.
  for (int k = 1; k < this->size(); ++k) {
    const int r = (rank() + k) % this->size();
    const Part part = IsEager(request) ? EagerPart(request, rank(), r) : Part();
    Post(operation, Lane::kCollective, r, Bytes(request.input, part.begin * size),
         part.size * size);
  }
}

void Group::PlanFlows(const Request& request) {
  const int64_t size = SizeOf(request.dtype);
  const bool all_to_all = request.operation == Operation::kAllToAll;
  switch (request.operation) {
    case Operation::kAllReduce:
      PlanReduction(request, AllReducePart(request.count, this->size()));
      break;
    case Operation::kReduceScatter:
      PlanReduction(request, request.part);
      break;
    case Operation::kAllGather:
    case Operation::kAllToAll:
      for (int r = 0; r < this->size(); ++r) {
        const Part given = all_to_all ? PartOf(request.count, request.part, r)
                                      : Part{0, PartOf(request.count, request.part, rank()).size};
        const Part taken = PartOf(request.count, request.part, r);
        const char* const from = Bytes(request.input, given.begin * size);
        char* const to = Bytes(request.output, taken.begin * size);
        if (r == rank()) {
          Copy(to, from, taken.size * size);
        } else {
          exchanged_[r].out[1] = {from, given.size * size, given.size * size};
          exchanged_[r].in[1] = {to, taken.size * size};
        }
      }
      break;
    case Operation::kBroadcast:
      PlanBroadcast(request);
      break;
    default:
      break;
  }
}

// Each rank reduces a part, of which the others send it theirs; of an all-reduce it sends them the
// result.
void Group::PlanReduction(const Request& request, int64_t part) {
  const int64_t size = SizeOf(request.dtype);
  const Part own = PartOf(request.count, part, rank());
  for (int r = 0; r < this->size(); ++r) {
    if (r == rank()) continue;
    const Part theirs = PartOf(request.count, part, r);
    Exchanged& each = exchanged_[r];
    const int64_t bytes = theirs.size * size;
    each.out[0] = {Bytes(request.input, theirs.begin * size), bytes,
                   std::min(bytes, kScratchBytes)};
    each.in[0] = {nullptr, own.size * size};
    if (own.size > 0) each.in[0].scratch = network_->TakeScratch();
    if (request.operation != Operation::kAllReduce) continue;
    each.out[1] = {Bytes(request.output, own.begin * size), own.size * size};
    each.in[1] = {Bytes(request.output, theirs.begin * size), bytes};
  }
}

// Down a binomial tree.
void Group::PlanBroadcast(const Request& request) {
  const int64_t bytes = request.count * SizeOf(request.dtype);
  const bool is_root = rank() == request.peer;
  char* const output = Bytes(request.output, 0);
  if (is_root) {
    Copy(output, request.input, bytes);
  } else {
    exchanged_[ParentOf(rank(), request.peer, size())].in[1] = {output, bytes};
  }
  for (int child : Children(rank(), request.peer, size())) {
    exchanged_[child].out[1] = {output, bytes, is_root ? bytes : 0};
  }
}

bool Group::AdvanceCollective() {
  Channel& channel = *channels_[0];
  Queued& operation = channel.head();
  const Request& request = operation.request;
  if (!operation.posted) {
    PostCollective(operation);
    return true;
  }
  bool moved = false;
  for (int r = 0; r < size(); ++r) {
    Exchanged& each = exchanged_[r];
    if (r == rank() || each.met) continue;
    const Wish* const wish = each.heard.Find(operation.number);
    if (wish == nullptr || WishOf(wish->header) != WishOf(request)) continue;
    each.met = moved = true;
  }
  if (!operation.agreed && Agree(operation)) moved = true;
  if (!status_.ok()) return false;
  if (IsEager(request)) {
    if (!operation.agreed) return moved;
    FinishEager(operation);
    Complete(channel);
    return true;
  }
  while (ReducePiece(operation)) moved = true;
  bool done = operation.agreed;
  for (int k = 1; k < size(); ++k) {
    const int r = (rank() + k) % size();
    Exchanged& each = exchanged_[r];
    if (request.operation == Operation::kBroadcast && rank() != request.peer) {
      each.out[1].allowed = std::min(
          each.out[1].bytes, exchanged_[ParentOf(rank(), request.peer, size())].in[1].arrived);
    }
    for (int stage : {1, 0}) {  // first what may be the last
      if (each.met && SendPieces(operation, Lane::kCollective, stage, r, each.out[stage])) {
        channel.moved = std::chrono::steady_clock::now();
        moved = true;
      }
      done = done && each.out[stage].done() && each.in[stage].done();
    }
  }
  if (!done) return moved;
  Complete(channel);
  return true;
}

bool Group::Agree(Queued& operation) {
  const Request& request = operation.request;
  bool same = true;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const Wish* const wish = exchanged_[r].heard.Find(operation.number);
    if (wish == nullptr) return false;
    const int64_t bytes =
        IsEager(request) ? EagerPart(request, r, rank()).size * SizeOf(request.dtype) : 0;
    same = same && WishOf(wish->header) == WishOf(request) && wish->header.bytes == bytes;
  }
  operation.agreed = same;
  if (same) return true;
  std::vector<int> ranks;
  std::vector<tessera::comm::Wish> wishes;
  for (int r = 0; r < size(); ++r) {
    ranks.push_back(r);
    wishes.push_back(r == rank() ? WishOf(request)
                                 : WishOf(exchanged_[r].heard.Find(operation.number)->header));
  }
  Fail(Disagreement(name(), operation.number + 1, ranks, wishes));
  return true;
}

// All that is needed came with the wishes.
void Group::FinishEager(const Queued& operation) {
  const Request& request = operation.request;
  const int64_t size = SizeOf(request.dtype);
  const Part own = IsCut(request.operation) ? PartOf(request.count, request.part, rank()) : Part();
  // What each rank has given to this one.
  for (int r = 0; r < this->size(); ++r) {
    inputs_[r] = r == rank() ? Bytes(request.input, EagerPart(request, r, r).begin * size)
                             : exchanged_[r].heard.Find(operation.number)->data.data();
  }
  switch (request.operation) {
    case Operation::kAllReduce:
      Reduce(inputs_, {request.output}, request.count, request.dtype, request.reduction);
      break;
    case Operation::kReduceScatter:
      ReduceOwnPart(request, inputs_, 0, own.size);
      break;
    case Operation::kAllGather:
    case Operation::kAllToAll:
      for (int r = 0; r < this->size(); ++r) {
        const Part part = PartOf(request.count, request.part, r);
        Copy(Bytes(request.output, part.begin * size), inputs_[r], part.size * size);
      }
      break;
    case Operation::kBroadcast:
      Copy(request.output, inputs_[request.peer], request.count * size);
      break;
    default:
      break;
  }
}

// The next piece of this rank's part, if all have sent it.
bool Group::ReducePiece(const Queued& operation) {
  const Request& request = operation.request;
  const bool all = request.operation == Operation::kAllReduce;
  if (!all && request.operation != Operation::kReduceScatter) return false;
  const int64_t size = SizeOf(request.dtype);
  const Part own = PartOf(request.count,
                          all ? AllReducePart(request.count, this->size()) : request.part, rank());
  const int64_t end = own.size * size;
  const int64_t now = std::min<int64_t>(kPieceBytes, end - reduced_);
  if (now == 0) return false;
  for (int r = 0; r < this->size(); ++r) {
    const Inflow& in = exchanged_[r].in[0];
    if (r == rank()) {
      inputs_[r] = Bytes(request.input, own.begin * size + reduced_);
    } else if (in.arrived < reduced_ + now) {
      return false;
    } else {
      inputs_[r] = in.Place(reduced_);
    }
  }
  if (all) {
    char* const output = Bytes(request.output, own.begin * size + reduced_);
    Reduce(inputs_, {output}, now / size, request.dtype, request.reduction);
  } else {
    ReduceOwnPart(request, inputs_, reduced_ / size, now / size);
  }
  // Of an all-reduce the result says how far this rank is.
  const bool credit = !all && reduced_ + kScratchBytes < end;
  reduced_ += now;
  Header header;
  header.kind = Kind::kCredit;
  header.group = id_;
  header.number = operation.number;
  header.offset = reduced_;
  for (int r = 0; r < this->size(); ++r) {
    if (r == rank()) continue;
    if (all) exchanged_[r].out[1].allowed = reduced_;
    if (credit) network_->Send(ranks_[r], header, nullptr, nullptr);
  }
  return true;
}

bool Group::SendPieces(const Queued& operation, Lane lane, int stage, int to, Outflow& out) {
  bool moved = false;
  while (out.sent < out.allowed && out.pending < kPending) {
    const int64_t now = std::min<int64_t>(kPieceBytes, out.allowed - out.sent);
    if (now < kPieceBytes && out.allowed < out.bytes) break;  // whole pieces, but for the last
    Header header;
    header.kind = Kind::kData;
    header.lane = lane;
    header.stage = static_cast<uint8_t>(stage);
    header.bytes = static_cast<int32_t>(now);
    header.group = id_;
    header.number = operation.number;
    header.offset = out.sent;
    const char* const data = out.data + out.sent;
    out.sent += now;
    network_->Send(ranks_[to], header, data, &out.pending);
    CountSent(operation.request.operation, now);
    moved = true;
  }
  return moved;
}

}  // namespace tessera::comm::tcp
