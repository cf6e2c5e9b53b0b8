// How a group receives messages, and how it reports missing ones.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/tcp/group.h"

namespace tessera::comm::tcp {
namespace {

bool IsRequest(const Header& header) {
  return IsValid(header.request) &&
         header.bytes <= (header.lane == Lane::kReceive ? 0 : kEagerBytes);
}

}  // namespace

const Group::PeerRequest* Group::PeerRequests::Find(uint64_t number) const {
  for (const PeerRequest& request : open) {
    if (request.header.number == number && request.is_complete) return &request;
  }
  return nullptr;
}

void Group::PeerRequests::Forget(uint64_t before) {
  while (!open.empty() && open.front().header.number < before) open.pop_front();
}

char* Group::Inflow::AddressOf(int64_t offset) const {
  return data != nullptr ? data + offset : scratch.get() + offset % kScratchBytes;
}

int Group::ChannelOf(int from, Lane lane) const {
  switch (lane) {
    case Lane::kCollective:
      return 0;
    case Lane::kSend:
      return ChannelFrom(from);
    case Lane::kReceive:
      return ChannelTo(from);
  }
  return -1;
}

Group::PeerRequests& Group::RequestsFrom(int from, Lane lane) {
  return lane == Lane::kCollective ? flows_[from].requests
                                   : messages_[ChannelOf(from, lane)].requests;
}

Group::Inflow* Group::InflowFrom(int from, const Header& header) {
  if (header.lane == Lane::kReceive || header.stage > 1) return nullptr;
  const int channel = ChannelOf(from, header.lane);
  if (channel < 0 || IsEmpty(channel) || Done(channel) != header.number) return nullptr;
  return channel == 0 ? &flows_[from].in[header.stage] : &messages_[channel].in;
}

bool Group::HeaderArrived(int from, const Header& header, char** address) {
  AssertMutexHeld();
  const int member = MemberOf(from);
  if (member == size()) return false;
  if (!is_ok()) return true;
  switch (header.kind) {
    case Kind::kRequest:
      return RequestHeaderArrived(member, header, address);
    case Kind::kData:
      return DataHeaderArrived(member, header, address);
    case Kind::kFailed:
      failures_[member].resize(header.bytes);
      *address = failures_[member].data();
      return true;
    case Kind::kCredit:
      return header.bytes == 0;
    case Kind::kBye:
      break;
  }
  return false;
}

bool Group::RequestHeaderArrived(int from, const Header& header, char** address) {
  const int channel = ChannelOf(from, header.lane);
  if (channel < 0 || !IsRequest(header)) return false;
  PeerRequests& requests = RequestsFrom(from, header.lane);
  // A valid peer is never further ahead of this rank, which bounds the requests that are kept.
  if (header.number != requests.received || header.number > Done(channel) + kSendsAhead) {
    return false;
  }
  ++requests.received;
  const bool is_over = header.lane == Lane::kReceive && header.number < Done(channel);
  if (is_over) return true;
  PeerRequest& request = requests.open.emplace_back();
  request.header = header;
  request.data.resize(header.bytes);
  *address = request.data.data();
  return true;
}

bool Group::DataHeaderArrived(int from, const Header& header, char** address) {
  Inflow* const in = InflowFrom(from, header);
  if (in == nullptr || header.offset != in->arrived) return false;
  // All pieces but the last are full, so that none crosses the end of the scratch ring.
  if (in->done() || header.bytes != std::min<int64_t>(kPieceBytes, in->bytes - in->arrived)) {
    return false;
  }
  const bool fits = in->data != nullptr || in->arrived + header.bytes <= reduced_ + kScratchBytes;
  if (fits) *address = in->AddressOf(in->arrived);
  return fits;
}

void Group::MessageArrived(int from, const Header& header) {
  AssertMutexHeld();
  const int member = MemberOf(from);
  if (!is_ok()) return;
  switch (header.kind) {
    case Kind::kRequest:
      for (PeerRequest& request : RequestsFrom(member, header.lane).open) {
        request.is_complete = request.is_complete || request.header.number == header.number;
      }
      break;
    case Kind::kData: {
      Inflow* const in = InflowFrom(member, header);
      in->arrived += header.bytes;
      Moved(ChannelOf(member, header.lane));
      // The peer has reduced the data of this rank up to this offset.
      Outflow& out = flows_[member].out[0];
      if (header.lane == Lane::kCollective && header.stage == 1) {
        out.allowed = std::min(out.bytes, in->arrived + kScratchBytes);
      }
      break;
    }
    case Kind::kCredit: {
      if (IsEmpty(0) || Done(0) != header.number) break;
      Outflow& out = flows_[member].out[0];
      if (header.offset < 0 || header.offset > out.bytes) break;
      out.allowed = std::max(out.allowed, std::min(out.bytes, header.offset + kScratchBytes));
      break;
    }
    case Kind::kFailed:
      Fail(absl::AbortedError(absl::StrCat(RankName(member), " aborted: ", failures_[member])),
           /*is_first=*/false);
      break;
    case Kind::kBye:
      break;
  }
}

void Group::OnFailure(const absl::Status& why, bool is_first) {
  network_->Drop(id_);
  EndFlows();
  if (!is_first) return;
  const std::string text(why.message().substr(0, kEagerBytes));
  const Header header = {.kind = Kind::kFailed,
                         .coverage = 1,
                         .bytes = static_cast<int32_t>(text.size()),
                         .group = id_};
  for (int r = 0; r < size(); ++r) {
    if (r != rank()) network_->Send(ranks_[r], header, text.data(), nullptr);
  }
}

absl::optional<QueuedGroup::Departure> Group::DepartureOf(int rank) const {
  const int peer = ranks_[rank];
  if (!network_->IsClosed(peer)) return absl::nullopt;
  if (network_->HasLeft(peer)) return Departure{"has left", ""};
  if (network_->WasChanged(peer)) {
    return Departure{"sent bytes that were changed on the way", network_->WhyClosed(peer)};
  }
  return Departure{"died", network_->WhyClosed(peer)};
}

std::string Group::RankName(int rank) const {
  const Peer& peer = network_->peer(ranks_[rank]);
  // The rank has requested the operation after these, or the last of these.
  const uint64_t collectives = std::min(flows_[rank].requests.received, Done(0));
  return absl::StrCat("rank ", rank, " (",
                      ranks_[rank] == rank ? "" : absl::StrCat(ranks_[rank], " of the job, "),
                      "process ", peer.process, " on ", peer.host, ", ", peer.address, ", after ",
                      collectives, " collectives)");
}

std::string Group::Progress(int channel) const {
  const Messages& messages = messages_[channel];
  int64_t bytes = messages.in.bytes + messages.out.bytes;
  int64_t moved = messages.in.arrived + messages.out.sent;
  for (const PeerFlows& flows : flows_) {
    for (int stage : {0, 1}) {
      if (channel > 0) continue;
      bytes += flows.in[stage].bytes + flows.out[stage].bytes;
      moved += flows.in[stage].arrived + flows.out[stage].sent;
    }
  }
  return bytes == 0 ? "" : absl::StrCat(", after ", moved, " of ", bytes, " bytes");
}

// The order of causes: a missing request, then missing data to reduce, then the rest.
int Group::WaitsFor(int channel, int rank) const {
  enum { kNothing, kItsRequest, kDataToReduce, kOther };
  if (channel > 0) {
    if (rank != PeerOf(channel)) return kNothing;
    const bool is_there = messages_[channel].requests.Find(Done(channel)) != nullptr;
    return first_[channel].is_posted && is_there ? kOther : kItsRequest;
  }
  const PeerFlows& flows = flows_[rank];
  if (flows.requests.Find(Done(0)) == nullptr) return kItsRequest;
  if (!flows.in[0].done() || !flows.out[0].done()) return kDataToReduce;
  return flows.in[1].done() && flows.out[1].done() ? kNothing : kOther;
}

}  // namespace tessera::comm::tcp
