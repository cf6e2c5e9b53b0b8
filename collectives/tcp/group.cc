#include "collectives/tcp/group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/reduce/reduce.h"
#include "core/tensor/check.h"

namespace tessera::tcp {
namespace {

// What takes longer than to wake a thread.
constexpr int64_t kLargeBytes = 1 << 20;

// Messages that may have been sent before the peer asks for the first of them.
constexpr uint64_t kSendsAhead = 4;

constexpr int64_t kScratchBytes = int64_t{kScratchPieces} * kPieceBytes;

// Pieces of a flow that the connection has not written: enough to keep it busy, and few enough that
// another group's come between them.
constexpr int kPending = 2;

// Parts of an all-reduce start at multiples of this many elements.
constexpr int64_t kAllReduceGrain = 64;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t AllReducePart(int64_t count, int ranks) {
  return CeilDiv(CeilDiv(count, ranks), kAllReduceGrain) * kAllReduceGrain;
}

bool IsCut(const Request& request) {
  return request.operation == Operation::kReduceScatter ||
         request.operation == Operation::kAllGather || request.operation == Operation::kAllToAll;
}

// Whether all that a peer gets goes with the wish.
bool IsEager(const Request& request) {
  return (IsCut(request) ? request.part : request.count) * SizeOf(request.dtype) <= kEagerBytes;
}

// The elements of a rank's input that go with its wish to another.
Part EagerPart(const Request& request, int from, int to) {
  switch (request.operation) {
    case Operation::kAllReduce:
      return {0, request.count};
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return PartOf(request.count, request.part, to);
    case Operation::kAllGather:
      return {0, PartOf(request.count, request.part, from).size};
    case Operation::kBroadcast:
      return {0, from == request.peer ? request.count : 0};
    default:
      return {};
  }
}

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

const char* Bytes(const void* data, int64_t offset) {
  return static_cast<const char*>(data) + offset;
}
char* Bytes(void* data, int64_t offset) { return static_cast<char*>(data) + offset; }

void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

Request RequestOf(const Header& wish) {
  Request request;
  request.operation = wish.operation;
  request.dtype = wish.dtype;
  request.reduction = wish.reduction;
  request.peer = wish.peer;
  request.count = wish.count;
  request.part = wish.part;
  return request;
}

bool SameWish(const Header& wish, const Request& request) {
  return wish.operation == request.operation && wish.dtype == request.dtype &&
         wish.reduction == request.reduction && wish.peer == request.peer &&
         wish.count == request.count && wish.part == request.part;
}

bool IsWish(const Header& header) {
  return static_cast<int>(header.operation) < kOperations &&
         static_cast<size_t>(header.dtype) < std::size(kAllDTypes) &&
         header.reduction <= Reduction::kMax && header.bytes <= kEagerBytes;
}

}  // namespace

const Group::Wish* Group::Heard::Find(uint64_t number) const {
  for (const Wish& wish : open) {
    if (wish.header.number == number && wish.is_there) return &wish;
  }
  return nullptr;
}

void Group::Heard::Forget(uint64_t before) {
  while (!open.empty() && open.front().header.number < before) open.pop_front();
}

char* Group::Inflow::Place(int64_t offset) const {
  return data != nullptr ? data + offset : scratch.get() + offset % kScratchBytes;
}

Group::Group(Network* network, std::string name, int rank, std::vector<int> ranks, uint64_t id)
    : Communicator(std::move(name), rank, static_cast<int>(ranks.size())),
      network_(network),
      ranks_(std::move(ranks)),
      id_(id),
      exchanged_(ranks_.size()),
      failures_(ranks_.size()),
      inputs_(ranks_.size()) {
  channels_.resize(1 + 2 * ranks_.size());
  channels_[0] = std::make_unique<Channel>();
  network_->Add(this);
}

Group::~Group() { network_->Remove(this); }

Group::Channel& Group::ChannelOf(int index) {
  if (channels_[index] == nullptr) channels_[index] = std::make_unique<Channel>();
  return *channels_[index];
}

int Group::MemberOf(int rank) const {
  return static_cast<int>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

const Network::Line& Group::LineTo(int rank) const { return *network_->lines_[ranks_[rank]]; }

Ticket Group::Start(const Request& request, const absl::Status& status) {
  int index = 0;
  if (request.operation == Operation::kSend) index = 1 + request.peer;
  if (request.operation == Operation::kReceive) index = 1 + size() + request.peer;
  if (!status.ok()) index = 0;
  std::unique_lock<std::mutex> lock(network_->mutex_);
  Channel& channel = ChannelOf(index);
  if (!status.ok()) Fail(status);
  if (!status_.ok()) return {index, channel.issued};
  if (size() == 1) {
    CopyAlone(request);
    channel.done = ++channel.issued;
    return {index, channel.issued - 1};
  }
  if (channel.full()) {
    lock.unlock();
    network_->WaitUntil([&] { return !channel.full() || !status_.ok(); });
    lock.lock();
  }
  Queued& operation = channel.queue[channel.issued % Channel::kQueue];
  operation = Queued();
  operation.request = request;
  operation.number = channel.issued;
  if (channel.empty()) channel.moved = std::chrono::steady_clock::now();
  const Ticket ticket = {index, channel.issued++};
  // What peers need of this rank is done now, if it is small.
  while (Advance()) {
  }
  if (network_->AnyNeedsThread()) network_->WakeThread();
  return ticket;
}

bool Group::NeedsThread() const {
  if (!status_.ok()) return false;
  for (const auto& channel : channels_) {
    if (channel == nullptr || channel->empty()) continue;
    const Queued& head = channel->head();
    // Otherwise only this rank waits.
    if (channel->issued - channel->done > 1 || !head.posted || !IsEager(head.request)) return true;
  }
  return false;
}

bool Group::HasLarge() const {
  return std::any_of(channels_.begin(), channels_.end(), [](const auto& channel) {
    if (channel == nullptr || channel->empty()) return false;
    const Request& request = channel->head().request;
    return request.count * SizeOf(request.dtype) > kLargeBytes;
  });
}

bool Group::IsDone(Ticket ticket) const {
  return !status_.ok() || channels_[ticket.channel] == nullptr ||
         channels_[ticket.channel]->done > ticket.number;
}

absl::Status Group::Wait(Ticket ticket) {
  network_->WaitUntil([&] { return IsDone(ticket); });
  const std::lock_guard<std::mutex> lock(network_->mutex_);
  const auto& channel = channels_[ticket.channel];
  if (channel != nullptr && channel->done > ticket.number) return absl::OkStatus();
  return status_;
}

bool Group::Test(Ticket ticket) {
  std::unique_lock<std::mutex> lock(network_->mutex_);
  if (!IsDone(ticket) && !network_->is_driven_) {
    network_->Turn(lock, 0);
    network_->changed_.notify_all();
  }
  return IsDone(ticket);
}

// Of the buffers; a header goes before each piece, and with each wish to each peer.
int64_t Group::BytesSent(const Request& request) const {
  const int64_t peers = size() - 1;
  const auto part = [&](int64_t whole) { return PartOf(request.count, whole, rank()).size; };
  int64_t elements = 0;
  switch (request.operation) {
    case Operation::kAllReduce:
      if (IsEager(request)) {
        elements = request.count * peers;
      } else {
        const int64_t own = part(AllReducePart(request.count, size()));
        elements = request.count - own + own * peers;
      }
      break;
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      elements = request.count - part(request.part);
      break;
    case Operation::kAllGather:
      elements = part(request.part) * peers;
      break;
    case Operation::kBroadcast:
      if (!IsEager(request)) {
        const auto children = Children(rank(), request.peer, size());
        elements = request.count * static_cast<int64_t>(children.size());
      } else if (rank() == request.peer) {
        elements = request.count * peers;
      }
      break;
    case Operation::kSend:
      elements = request.count;
      break;
    case Operation::kReceive:
    case Operation::kBarrier:
      break;
  }
  return elements * SizeOf(request.dtype);
}

void Group::CopyAlone(const Request& request) {
  if (request.operation == Operation::kBarrier) return;
  const int64_t count =
      IsCut(request) ? PartOf(request.count, request.part, 0).size : request.count;
  Copy(request.output, request.input, count * SizeOf(request.dtype));
}

bool Group::Advance() {
  bool moved = false;
  for (size_t index = 0; index < channels_.size(); ++index) {
    if (channels_[index] == nullptr || channels_[index]->empty() || !status_.ok()) continue;
    const int peer = static_cast<int>((index - 1) % ranks_.size());
    if (index == 0) {
      moved = AdvanceCollective() || moved;
    } else if (index <= ranks_.size()) {
      moved = AdvanceSend(*channels_[index], peer) || moved;
    } else {
      moved = AdvanceReceive(*channels_[index], peer) || moved;
    }
  }
  return moved;
}

void Group::Complete(Channel& channel) {
  ++channel.done;
  channel.moved = std::chrono::steady_clock::now();
  if (&channel == channels_[0].get()) {
    EndFlows();
    for (Exchanged& each : exchanged_) each.heard.Forget(channel.done);
  } else {
    channel.out = Outflow();
    channel.in = Inflow();
    channel.heard.Forget(channel.done);
  }
}

void Group::EndFlows() {
  for (Exchanged& each : exchanged_) {
    each.met = false;
    for (int stage : {0, 1}) {
      network_->ReturnScratch(std::move(each.in[stage].scratch));
      each.in[stage] = Inflow();
      each.out[stage] = Outflow();
    }
  }
  reduced_ = 0;
}

void Group::Post(const Queued& operation, Lane lane, int to, const char* data, int64_t bytes) {
  const Request& request = operation.request;
  Header header;
  header.kind = Kind::kWish;
  header.lane = lane;
  header.operation = request.operation;
  header.dtype = request.dtype;
  header.reduction = request.reduction;
  header.peer = request.peer;
  header.bytes = static_cast<int32_t>(bytes);
  header.group = id_;
  header.number = operation.number;
  header.count = request.count;
  header.part = request.part;
  network_->Send(ranks_[to], header, data, nullptr);
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
    if (wish == nullptr || !SameWish(wish->header, request)) continue;
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
    same = same && SameWish(wish->header, request) && wish->header.bytes == bytes;
  }
  operation.agreed = same;
  if (same) return true;
  std::vector<std::string> wishes;
  for (int r = 0; r < size(); ++r) {
    const Wish* const wish = exchanged_[r].heard.Find(operation.number);
    wishes.push_back(absl::StrCat("rank ", r, " wants ",
                                  Describe(r == rank() ? request : RequestOf(wish->header))));
  }
  Fail(absl::InvalidArgumentError(absl::StrCat("the ranks of group '", name(),
                                               "' disagree on operation ", operation.number + 1,
                                               ": ", absl::StrJoin(wishes, ", "))));
  return true;
}

// All that is needed came with the wishes.
void Group::FinishEager(const Queued& operation) {
  const Request& request = operation.request;
  const int64_t size = SizeOf(request.dtype);
  const Part own = IsCut(request) ? PartOf(request.count, request.part, rank()) : Part();
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
      Reduce(inputs_, {request.output}, own.size, request.dtype, request.reduction);
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
  char* const output = Bytes(request.output, (all ? own.begin * size : 0) + reduced_);
  Reduce(inputs_, {output}, now / size, request.dtype, request.reduction);
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
    moved = true;
  }
  return moved;
}

// A message of few bytes has been sent when it is under way.
bool Group::AdvanceSend(Channel& channel, int peer) {
  Queued& operation = channel.head();
  const Request& request = operation.request;
  const int64_t bytes = request.count * SizeOf(request.dtype);
  const bool eager = IsEager(request);
  if (!operation.posted) {
    if (operation.number >= channel.heard.wishes + kSendsAhead) return false;
    Post(operation, Lane::kSend, peer, Bytes(request.input, 0), eager ? bytes : 0);
    operation.posted = true;
    if (eager) Complete(channel);
    return true;
  }
  if (!operation.agreed) {
    const Wish* const wish = channel.heard.Find(operation.number);
    if (wish == nullptr || !PairAgrees(operation, peer, wish->header)) return false;
    operation.agreed = true;
    channel.out = {Bytes(request.input, 0), bytes, bytes};
  }
  const bool moved = SendPieces(operation, Lane::kSend, 1, peer, channel.out);
  if (moved) channel.moved = std::chrono::steady_clock::now();
  if (!channel.out.done()) return moved;
  Complete(channel);
  return true;
}

bool Group::AdvanceReceive(Channel& channel, int peer) {
  Queued& operation = channel.head();
  const Request& request = operation.request;
  const int64_t bytes = request.count * SizeOf(request.dtype);
  if (!operation.posted) {
    operation.posted = true;
    if (!IsEager(request)) channel.in = {Bytes(request.output, 0), bytes};
    Post(operation, Lane::kReceive, peer, nullptr, 0);
    return true;
  }
  const Wish* const wish = channel.heard.Find(operation.number);
  if (wish == nullptr || !PairAgrees(operation, peer, wish->header)) return false;
  if (!channel.in.done()) return false;
  if (IsEager(request)) Copy(request.output, wish->data.data(), bytes);
  Complete(channel);
  return true;
}

bool Group::PairAgrees(const Queued& operation, int peer, const Header& theirs) {
  const Request& request = operation.request;
  const bool has_data = request.operation == Operation::kReceive && IsEager(request);
  const int64_t bytes = has_data ? request.count * SizeOf(request.dtype) : 0;
  if (theirs.count == request.count && theirs.dtype == request.dtype && theirs.bytes == bytes) {
    return true;
  }
  Fail(absl::InvalidArgumentError(absl::StrCat("the ranks of group '", name(), "' disagree: rank ",
                                               peer, " wants ", Describe(RequestOf(theirs)),
                                               ", rank ", rank(), " wants ", Describe(request))));
  return false;
}

Group::Heard* Group::HeardFrom(int from, Lane lane) {
  switch (lane) {
    case Lane::kCollective:
      return &exchanged_[from].heard;
    case Lane::kSend:
      return &ChannelOf(1 + size() + from).heard;
    case Lane::kReceive:
      return &ChannelOf(1 + from).heard;
  }
  return nullptr;
}

Group::Inflow* Group::InflowFrom(int from, const Header& header) {
  if (header.lane == Lane::kReceive || header.stage > 1) return nullptr;
  const bool is_collective = header.lane == Lane::kCollective;
  Channel& channel = ChannelOf(is_collective ? 0 : 1 + size() + from);
  if (channel.empty() || channel.head().number != header.number) return nullptr;
  return is_collective ? &exchanged_[from].in[header.stage] : &channel.in;
}

bool Group::Place(int from, const Header& header, char** place) {
  if (!status_.ok()) return true;
  switch (header.kind) {
    case Kind::kWish: {
      Heard* const heard = HeardFrom(from, header.lane);
      if (heard == nullptr || !IsWish(header) || header.number != heard->wishes) return false;
      ++heard->wishes;
      const bool is_over =
          header.lane == Lane::kReceive && header.number < ChannelOf(1 + from).done;
      if (is_over) return true;
      Wish& wish = heard->open.emplace_back();
      wish.header = header;
      wish.data.resize(header.bytes);
      *place = wish.data.data();
      return true;
    }
    case Kind::kData: {
      Inflow* const in = InflowFrom(from, header);
      if (in == nullptr || header.offset != in->arrived || header.bytes > in->bytes - in->arrived) {
        return false;
      }
      const bool fits =
          in->data != nullptr || in->arrived + header.bytes <= reduced_ + kScratchBytes;
      if (fits) *place = in->Place(in->arrived);
      return fits;
    }
    case Kind::kFailed:
      failures_[from].resize(header.bytes);
      *place = failures_[from].data();
      return true;
    case Kind::kCredit:
      return header.bytes == 0;
    case Kind::kBye:
      break;
  }
  return false;
}

void Group::Arrived(int from, const Header& header) {
  if (!status_.ok()) return;
  switch (header.kind) {
    case Kind::kWish:
      for (Wish& wish : HeardFrom(from, header.lane)->open) {
        wish.is_there = wish.is_there || wish.header.number == header.number;
      }
      break;
    case Kind::kData: {
      Inflow* const in = InflowFrom(from, header);
      in->arrived += header.bytes;
      const bool is_collective = header.lane == Lane::kCollective;
      Channel& channel = ChannelOf(is_collective ? 0 : 1 + size() + from);
      channel.moved = std::chrono::steady_clock::now();
      // So far it has reduced what this rank has sent.
      Outflow& out = exchanged_[from].out[0];
      if (is_collective && header.stage == 1) {
        out.allowed = std::min(out.bytes, in->arrived + kScratchBytes);
      }
      break;
    }
    case Kind::kCredit: {
      Channel& channel = *channels_[0];
      if (channel.empty() || channel.head().number != header.number) break;
      Outflow& out = exchanged_[from].out[0];
      out.allowed = std::min(out.bytes, header.offset + kScratchBytes);
      break;
    }
    case Kind::kFailed:
      Break(absl::AbortedError(absl::StrCat(RankName(from), " gave up: ", failures_[from])));
      break;
    case Kind::kBye:
      break;
  }
}

void Group::Break(absl::Status status) {
  status_ = std::move(status);
  network_->Drop(id_);
  EndFlows();
}

void Group::Fail(absl::Status status) {
  if (!status_.ok()) return;
  const std::string text(status.message().substr(0, kEagerBytes));
  Break(std::move(status));
  Header header;
  header.kind = Kind::kFailed;
  header.bytes = static_cast<int32_t>(text.size());
  header.group = id_;
  for (int r = 0; r < size(); ++r) {
    if (r != rank()) network_->Send(ranks_[r], header, text.data(), nullptr);
  }
  if (network_->AnyNeedsThread()) network_->WakeThread();
}

std::string Group::RankName(int rank) const {
  const Peer& peer = network_->peers_[ranks_[rank]];
  // It has told what it wants of the one that follows these, or of the last of these.
  const uint64_t collectives = std::min(exchanged_[rank].heard.wishes, channels_[0]->done);
  return absl::StrCat("rank ", rank, " (process ", peer.process, " on ", peer.host, ", ",
                      peer.address, ", after ", collectives, " collectives)");
}

// "all-reduce of 12 f32 (sum), operation 3 of group 'world', after 4096 of 16384 bytes"
std::string Group::Progress(int index) const {
  const Channel& channel = *channels_[index];
  const Queued& operation = channel.head();
  int64_t bytes = channel.in.bytes + channel.out.bytes;
  int64_t moved = channel.in.arrived + channel.out.sent;
  for (const Exchanged& each : exchanged_) {
    for (int stage : {0, 1}) {
      if (index > 0) continue;
      bytes += each.in[stage].bytes + each.out[stage].bytes;
      moved += each.in[stage].arrived + each.out[stage].sent;
    }
  }
  return absl::StrCat(Describe(operation.request), ", operation ", operation.number + 1,
                      " of group '", name(), "'",
                      bytes == 0 ? "" : absl::StrCat(", after ", moved, " of ", bytes, " bytes"));
}

// Whether the first operation of a channel needs something of a rank: 1 that it comes, 2 what is to
// be reduced, 3 anything else; 0 if not.
int Group::Needs(int index, int rank) const {
  const Channel& channel = *channels_[index];
  const Queued& operation = channel.head();
  if (index > 0) {
    if (rank != static_cast<int>((index - 1) % ranks_.size())) return 0;
    return !operation.posted || channel.heard.Find(operation.number) == nullptr ? 1 : 3;
  }
  const Exchanged& each = exchanged_[rank];
  if (each.heard.Find(operation.number) == nullptr) return 1;
  if (!each.in[0].done() || !each.out[0].done()) return 2;
  return each.in[1].done() && each.out[1].done() ? 0 : 3;
}

void Group::Check(Time now) {
  for (size_t i = 0; i < channels_.size() && status_.ok(); ++i) {
    const int index = static_cast<int>(i);
    if (channels_[index] == nullptr || channels_[index]->empty()) continue;
    // One that has not come keeps others from going on.
    int first = 4;
    std::vector<std::string> missing;
    for (int r = 0; r < size(); ++r) {
      const int need = r == rank() ? 0 : Needs(index, r);
      if (need == 0) continue;
      const Network::Line& line = LineTo(r);
      if (line.link.is_closed()) {
        Fail(absl::UnavailableError(absl::StrCat(
            RankName(r), line.has_left ? " has left" : " died", "; waiting in ", Progress(index),
            line.has_left ? "" : absl::StrCat(" (", line.link.why_closed(), ")"))));
        return;
      }
      if (need < first) missing.clear();
      first = std::min(first, need);
      if (need == first) missing.push_back(RankName(r));
    }
    const double waited = std::chrono::duration<double>(now - channels_[index]->moved).count();
    const double at_most = network_->options_.timeout_seconds;
    if (!missing.empty() && waited > at_most) {
      Fail(absl::DeadlineExceededError(absl::StrCat(absl::StrJoin(missing, ", "),
                                                    " did not come within ", at_most,
                                                    " s; waiting in ", Progress(index))));
    }
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> Group::Split(absl::string_view name,
                                                           absl::Span<const int> colors) {
  if (static_cast<int>(colors.size()) != size()) {
    return absl::InvalidArgumentError(absl::StrCat("group '", this->name(), "' has ", size(),
                                                   " ranks, and ", colors.size(),
                                                   " colors were given"));
  }
  int position = 0;
  std::vector<int> members;  // ranks here
  for (int r = 0; r < size(); ++r) {
    if (colors[r] != colors[rank()]) continue;
    if (r == rank()) position = static_cast<int>(members.size());
    members.push_back(r);
  }
  // The first member names the group.
  const uint64_t mine = (static_cast<uint64_t>(network_->rank()) << 32) | ++network_->groups_made_;
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   ExchangeOver(this)(name, absl::StrCat(mine)));
  uint64_t id = 0;
  TESSERA_CHECK(absl::SimpleAtoi(ids[members[0]], &id)) << ids[members[0]];
  std::unique_ptr<Communicator> group;
  if (colors[rank()] >= 0) {
    std::vector<int> ranks;
    for (int r : members) ranks.push_back(ranks_[r]);
    group = std::make_unique<Group>(network_, std::string(name), position, ranks, id);
  }
  // Nobody sends to it before all have it.
  RETURN_IF_ERROR(Wait(Barrier()));
  return group;
}

}  // namespace tessera::tcp
